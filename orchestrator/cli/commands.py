"""How commands present themselves: options as they are spelled, flags without a type, paragraphs that fill
their lines.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.core import TyperCommand, TyperGroup, TyperOption

from cudnn_sweep.orchestrator.planning.spelling import typer_info

HELP_NAMES = {"help_option_names": ["--help", "-h"]}


def spelled(function: Callable[..., None]) -> Callable[..., None]:
    """As Typer takes it: a parameter that is a dataclass stands for those of its fields that are options."""
    found = signature(function).parameters.values()
    groups = {each.name: each.annotation for each in found if is_dataclass(each.annotation)}
    members = {name: list(_members(group)) for name, group in groups.items()}

    @wraps(function)
    def command(*context: Any, **typed: Any) -> None:
        for name, group in groups.items():
            names = [each.name for each in members[name]]
            values = {each: typed.pop(each) for each in names}
            lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
            given = {key: value for key, value in (values | lists).items() if value is not None}
            typed[name] = group(**given)
        function(*context, **typed)

    parameters = [part for each in found for part in members.get(each.name) or [_parameter(each)]]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _members(group: Any) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        if typer_info(each.name, hints[each.name]) is not None:
            usual = Parameter.empty if each.default is MISSING else each.default
            yield _parameter(
                Parameter(
                    each.name, Parameter.KEYWORD_ONLY, default=usual, annotation=hints[each.name]
                )
            )


def _parameter(one: Parameter) -> Parameter:
    info, hint = typer_info(one.name, one.annotation), one.annotation
    if info is None:
        return one.replace(kind=Parameter.KEYWORD_ONLY)
    kind, usual = hint.__origin__, one.default
    if get_origin(kind) is Sequence:  # Typer knows lists
        kind, usual = list[get_args(kind)[0]] | None, None
    return one.replace(kind=Parameter.KEYWORD_ONLY, default=usual, annotation=Annotated[kind, info])


def _filled(text: str | None) -> str | None:
    """Paragraphs with their lines joined."""
    if text is None:
        return None
    return "\n\n".join(" ".join(each.split()) for each in re.split(r"\n\s*\n", cleandoc(text)))


class Presented:
    """How the help of a command, or of a group of commands, is shown."""

    help: str | None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help = _filled(self.help)

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)  # type: ignore[misc]
        for each in found:
            if isinstance(each, TyperOption) and each.is_flag and each.metavar is None:
                each.metavar = ""  # else a flag's help reads `--new <bool>`
        return found


class Command(Presented, TyperCommand):
    pass


class Group(Presented, TyperGroup):
    pass
