"""`--argument NAME=VALUE`, of commands that take a model."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pydantic import JsonValue

ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Keyword argument of the class or function: JSON or plain text. Repeat for more.",
    ),
]


def read_arguments(texts: Sequence[str] | None) -> dict[str, "JsonValue"]:
    return dict(map(_read, texts or ()))


def _read(text: str) -> tuple[str, "JsonValue"]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"found {text!r}, allowed: NAME=VALUE", param_hint="--argument")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
