"""`sweep suites` and `sweep workloads`: what there is to choose from, a line each."""

from collections.abc import Iterable

import typer


def suites() -> None:
    """List the bundled suites; each is a file to read and to copy."""
    from cudnn_sweep.orchestrator.spec import SUITES, load_suite, suite_names

    rows = []
    for name in suite_names():
        needs = "a GPU" if load_suite(name).needs_cuda else ""
        rows.append((name, needs, _first_sentence(SUITES.joinpath(f"{name}.yaml").read_text())))
    _print(("suite", "needs", "what it asks"), rows)
    typer.echo(f"\nThe files are in {SUITES}. What one runs, and for how long:")
    typer.echo("  sweep launch cluster.yaml --suite NAME --dry-run")


def workloads() -> None:
    """List what a suite's cells may name: workloads, problems, regimes, states and precisions."""
    from cudnn_sweep.workloads.layout import LAYOUTS
    from cudnn_sweep.workloads.precision import PRECISIONS
    from cudnn_sweep.workloads.problem import PROBLEMS, load_problems
    from cudnn_sweep.workloads.regime import regime_types
    from cudnn_sweep.workloads.state import state_types
    from cudnn_sweep.workloads.workload import bundled_workloads

    bundled = sorted(bundled_workloads().values(), key=lambda found: found.name)
    rows = [(w.name, ", ".join(w.directions), _summary(w.build.__doc__)) for w in bundled]
    models = "any torch.nn.Module by import path: torchvision.models:resnet50, my/file.py:Net"
    rows.append(("MODULE:NAME", "training, inference", models))
    _print(("workload", "directions", ""), rows)

    problems = list(load_problems())
    files = sorted(PROBLEMS.iterdir(), key=lambda file: file.name)
    sets = [(file.name.removesuffix(".csv"), file.read_text()) for file in files]
    counts = {name: sum(found.startswith(f"{name}/") for found in problems) for name, _ in sets}
    rows = [(name, str(counts[name]), _first_sentence(text)) for name, text in sets]
    _print(("problem", "how many", ""), rows)

    rules = sorted(regime_types().items())
    rows = [(name, rule.varies, _summary(rule.__doc__)) for name, rule in rules]
    _print(("regime", "varies", ""), rows)
    states = sorted(state_types().items())
    _print(("state", "", ""), [(name, "", _summary(state.__doc__)) for name, state in states])
    typer.echo(f"precision  {', '.join(PRECISIONS)}\nlayout     {', '.join(LAYOUTS)}")


def _print(heads: tuple[str, str, str], rows: Iterable[tuple[str, str, str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(heads[0], no_wrap=True)
    for head in heads[1:]:
        table.add_column(head)
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table, highlight=False)


def _first_sentence(text: str) -> str:
    """Of the comment at a file's head."""
    comment: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return _summary(" ".join(comment))


def _summary(text: str | None) -> str:
    paragraph = " ".join((text or "").strip().partition("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return sentence.removesuffix(".") if end else paragraph.removesuffix(".")
