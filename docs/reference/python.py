"""docs/python.md: the functions and classes that a user's own Python calls, with their docstrings."""

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from types import FunctionType
from typing import Any

from reference.texts import field_texts, one_line, signature_text

INTRO = """\
# From Python

Functions and classes for a notebook or a workload of your own. Made by `make docs`.

[reading-results.md](reading-results.md#how-do-i-ask-a-question-of-my-own) has an example, [notebook.ipynb](notebook.ipynb) more.
[your-model.md](your-model.md#a-whole-step) explains how to time a step or a regime of your own, and
[CONTRIBUTING.md](../CONTRIBUTING.md) how to add a state."""


def python_page() -> str:
    lines = [INTRO]
    for module, things in door().items():
        lines += ["", f"## {module}"]
        for thing in things:
            lines += ["", f"### {thing.__name__}", "", *_documented(thing)]
    return "\n".join(lines) + "\n"


def door() -> dict[str, list[Any]]:
    """By module, what is imported from it."""
    from cudnn_sweep import analysis
    from cudnn_sweep.workloads.regime import ShapeRegime, SpatialRegime
    from cudnn_sweep.workloads.workload import Context, State, TimedStep, workload

    results = [getattr(analysis, name) for name in analysis.__all__]
    return {
        analysis.__name__: sorted(results, key=lambda thing: isinstance(thing, type)),
        workload.__module__: [workload, Context, TimedStep, State],
        ShapeRegime.__module__: [ShapeRegime, SpatialRegime],
    }


def members(kind: type) -> dict[str, str]:
    """The public methods, properties and fields that a class defines, each with its sentences."""
    texts = field_texts(kind)
    found = {each: texts.get(each, "") for each in vars(kind).get("__annotations__", {})}
    for name, member in vars(kind).items():
        if isinstance(member, FunctionType | property):
            found[name] = one_line(member.__doc__)
    return {name: text for name, text in found.items() if not name.startswith("_")}


def _documented(thing: Any) -> Iterator[str]:
    if not isinstance(thing, type):
        yield from [f"    {thing.__name__}{signature_text(thing)}", ""]
    yield one_line(thing.__doc__)
    found = members(thing) if isinstance(thing, type) else {}
    yield from [""] * bool(found)
    for name, text in found.items():
        yield f"- `{name}{_called(thing, name)}`: {text}"


def _called(kind: type, name: str) -> str:
    """How a method is called, or what a field is where nobody sets it."""
    member = vars(kind).get(name)
    if isinstance(member, FunctionType):
        return signature_text(member)
    if is_dataclass(kind):
        default = next((each.default for each in fields(kind) if each.name == name), MISSING)
        return "" if default is MISSING else f" = {default!r}"
    return ""
