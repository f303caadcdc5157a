"""The commands of `sweep list`."""

from collections.abc import Sequence
from dataclasses import fields
from importlib.resources import files
from itertools import takewhile
from typing import Annotated, Literal

import typer

from cudnn_sweep.orchestrator.planning.spelling import POSITIONAL, program


def suites() -> None:
    """List the bundled suites. Each is a file that you can read and copy."""
    from cudnn_sweep.orchestrator.planning.spec import SUITES, load_suite, suite_names

    rows = []
    for name in suite_names():
        needs = "a GPU" if load_suite(name).needs_cuda else ""
        rows.append((name, needs, _first_sentence(SUITES.joinpath(f"{name}.yaml").read_text())))
    _print(("suite", "needs", "question"), rows)
    typer.echo(f"\nThe files are in {SUITES}. To see what a suite runs and how long it takes:")
    typer.echo(f"  {program()} launch --suite NAME --dry-run")


def workloads() -> None:
    """List the workloads, problems, regimes, states, precisions and layouts that a cell can have.

    Parameters of regimes and states are shown in brackets with their defaults.
    """
    from cudnn_sweep.workloads.find_regime import regime_types
    from cudnn_sweep.workloads.find_state import state_types
    from cudnn_sweep.workloads.find_workload import bundled_workloads
    from cudnn_sweep.workloads.layout import LAYOUTS
    from cudnn_sweep.workloads.precision import PRECISIONS
    from cudnn_sweep.workloads.problem import PROBLEMS, load_problems

    bundled = sorted(bundled_workloads().values(), key=lambda each: each.name)
    named = [(w.name, ", ".join(w.directions), _summary(w.build.__doc__)) for w in bundled]
    models = "any torch.nn.Module by import path: torchvision.models:resnet50, my/file.py:Net"
    _print(("workload", "directions", ""), [*named, ("MODULE:NAME", "training, inference", models)])
    problems, sets = list(load_problems()), []
    for file in sorted(PROBLEMS.iterdir(), key=lambda file: file.name):
        name = file.name.removesuffix(".csv")
        count = sum(problem.startswith(f"{name}/") for problem in problems)
        sets.append((name, str(count), _first_sentence(file.read_text())))
    _print(("problem", "how many", ""), sets)
    rules = sorted(regime_types().items())
    _print(("regime", "varies", ""), [(name, r.varies, _with_defaults(r)) for name, r in rules])
    states = sorted(state_types().items())
    _print(("state", "", ""), [(name, "", _with_defaults(state)) for name, state in states])
    typer.echo(f"precision  {', '.join(PRECISIONS)}\nlayout     {', '.join(LAYOUTS)}")


def schema(
    name: Annotated[
        Literal["launch-file", "suite"], POSITIONAL, "launch-file|suite", "Kind of file."
    ],
    path: Annotated[bool, "Print the path of the schema instead."] = False,
    page: Annotated[bool, "Print a page about all keys of both kinds of files instead."] = False,
) -> None:
    """Print the JSON Schema of a launch file or of a suite.

    An editor with a YAML language server checks and completes a file that begins with
    `# yaml-language-server: $schema=PATH`.
    """
    shipped = "launch-file.md" if page else f"{name}.json"
    file = files("cudnn_sweep.orchestrator").joinpath("schemas", shipped)
    typer.echo(str(file) if path else file.read_text(encoding="utf-8"), nl=path)


def _with_defaults(rule: type) -> str:
    parameters = [f"{field.name}={field.default}" for field in fields(rule)]
    return _summary(rule.__doc__) + (f" ({', '.join(parameters)})" if parameters else "")


def _print(heads: tuple[str, str, str], rows: Sequence[tuple[str, str, str]]) -> None:
    from rich.console import Console

    from cudnn_sweep.orchestrator.terminal.say import plain_table

    Console().print(plain_table(heads, rows), highlight=False)


def _first_sentence(text: str) -> str:
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return _summary(" ".join(line.removeprefix("#").strip() for line in comment))


def _summary(text: str | None) -> str:
    paragraph = " ".join((text or "").strip().partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".")
