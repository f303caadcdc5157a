"""Converts the fields of a dataclass to Typer options and to command-line words."""

import os
import shutil
import sys
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NAMES = {
    "suite": "cudnn_sweep.orchestrator.planning.spec:suite_names",
    "precision": "cudnn_sweep.workloads.precision:PRECISIONS.keys",
    "regime": "cudnn_sweep.workloads.find_regime:regime_types",
}
"""Functions that list values for shell completion, by the name of the field."""
POSITIONAL = object()


@dataclass(frozen=True, slots=True)
class AtLeast:
    value: float


def typer_info(name: str, hint: Any) -> ArgumentInfo | OptionInfo | None:
    """Parse `Annotated[type, [POSITIONAL,] [AtLeast(1),] [METAVAR,] HELP]`, or return None."""
    marks = getattr(hint, "__metadata__", ())
    if info := next((mark for mark in marks if isinstance(mark, ArgumentInfo | OptionInfo)), None):
        return info
    if not (texts := [mark for mark in marks if isinstance(mark, str)]):
        return None
    metavar, text = (None, *texts)[-2:]
    if POSITIONAL in marks:
        return typer.Argument(metavar=metavar, help=text)  # type: ignore[no-any-return]
    names = [_as_option(name)] if hint.__origin__ is bool else []  # no option --no-NAME
    least = next((mark.value for mark in marks if isinstance(mark, AtLeast)), None)
    option: OptionInfo = typer.Option(*names, metavar=metavar, help=text, min=least)

    def complete(incomplete: str) -> list[str]:
        return [each for each in resolve_name(NAMES[name])() if each.startswith(incomplete)]

    option.autocompletion = complete if name in NAMES else None
    return option


def words_of(options: "DataclassInstance", *, without: Collection[str] = ()) -> list[str]:
    """Return the options as command-line words. Omit defaults and the fields in `without`."""
    hints = get_type_hints(type(options), include_extras=True)
    words: list[str] = []
    for field in fields(options):
        info, value = typer_info(field.name, hints[field.name]), getattr(options, field.name)
        if info is None or value == field.default or field.name in without:
            continue
        is_argument = isinstance(info, ArgumentInfo)
        # in Annotated, Typer stores the name of the option in `default`
        typed_as = _as_option(field.name) if info.default is ... else str(info.default)
        option = [] if is_argument else [typed_as]
        for each in value if isinstance(value, list | tuple) else [value]:
            words += option
            if each is not True:
                words.append(f"{each:g}" if isinstance(each, float) else str(each))
    return words


def program() -> str:
    """Return the name of this program: `sweep`, or its path if it is not on PATH."""
    typed = Path(sys.argv[0])
    if typed.name != "sweep" or shutil.which("sweep"):
        return "sweep"
    return os.path.relpath(typed)


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
