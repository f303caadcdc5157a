"""Builds commands whose options are fields of dataclasses. Prints help as plain text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from cudnn_sweep.analysis.words import printable
from cudnn_sweep.orchestrator.planning.spelling import typer_info

EPILOG = "docs/exit-codes.md lists the exit codes of every command."
# Options that few users need. The help lists them last.
MORE = (
    *("hours", "state", "memory_limit", "runs", "ranks", "measure_ranks"),
    *("loss", "expect", "float64"),
)
SETTINGS = {"help_option_names": ["--help", "-h"], "max_content_width": 100}


def echo(text: str, *, err: bool = False) -> None:
    """Print the text without control characters."""
    typer.echo(printable(text), err=err)


def spelled(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer, with an option for each field of a dataclass parameter."""
    found = signature(function).parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation for each in found if is_dataclass(each.annotation)
    }

    @wraps(function)
    def command(**typed: Any) -> None:
        for name, group in groups.items():
            own = {each.name: typed.pop(each.name) for each in fields(group) if each.name in typed}
            lists = {each: tuple(value) for each, value in own.items() if isinstance(value, list)}
            typed[name] = group(**own | lists)
        function(**typed)

    parameters = [
        part
        for each in found
        for part in (_options(groups[each.name]) if each.name in groups else [_option(each)])
    ]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _options(group: Any) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for name, field in signature(group).parameters.items():
        if typer_info(name, hints[name]) is not None:
            yield _option(field.replace(annotation=hints[name]))


def _option(one: Parameter) -> Parameter:
    info, kind = typer_info(one.name, one.annotation), one.annotation
    if info is not None:
        kind = kind.__origin__
        if get_origin(kind) is Sequence:  # Typer supports only lists
            kind = GenericAlias(list, get_args(kind))
        kind = Annotated[kind, info]
    return one.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)


def _write(formatter: Any, panels: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    for panel, rows in panels.items():
        if rows:
            with formatter.section(panel):
                formatter.write_dl(rows)


class Command(TyperCommand):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "More": []}
        for each in self.get_params(ctx):
            if row := each.get_help_record(ctx):
                kind = f"{each.param_type_name.capitalize()}s"
                panels["More" if each.name in MORE else kind].append(row)
        _write(formatter, panels)


class Group(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            first_line = (command.help or "").partition("\n")[0]
            panels.setdefault(command.rich_help_panel or "Commands", []).append((name, first_line))
        _write(formatter, panels)
