"""What the code says of its own fields: the docstring below each."""

import ast
from functools import cache
from inspect import getsource
from itertools import pairwise
from textwrap import dedent
from types import FunctionType


@cache
def field_texts(kind: type) -> dict[str, str]:
    """The sentence of every field of a class and its bases that has one, each on one line."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("cudnn_sweep."):
            continue
        (defined,) = ast.parse(dedent(getsource(base))).body
        assert isinstance(defined, ast.ClassDef)
        for field, below in pairwise(defined.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = one_line(text)
    return found


def signature_text(function: FunctionType) -> str:
    """As it stands in the source, without `self`."""
    (defined,) = ast.parse(dedent(getsource(function))).body
    assert isinstance(defined, ast.FunctionDef)
    arguments = defined.args
    arguments.args = [each for each in arguments.args if each.arg != "self"]
    returned = "" if defined.returns is None else f" -> {ast.unparse(defined.returns)}"
    return f"({ast.unparse(arguments)}){returned}"


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def first_paragraph(text: str | None) -> str:
    return one_line(dedent(text or "").strip().partition("\n\n")[0])
