"""The gate's rule, on made-up gates whose truth is known."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from cudnn_sweep.analysis.engine.queries import Value, load_query
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.orchestrator.gating.gate import state_of
from cudnn_sweep.orchestrator.steps.one_step import UNTIL
from tests.studies.parts.command import SEED, Seed, run
from tests.studies.parts.made_rows import STEADY_MS, in_turns, made_rows, open_rows

GATES = 400
BLOCKS = 5  # what 2.5 minutes allow on a GPU
THRESHOLD = 0.01
CHANGES = (-0.01, 0.0, 0.01, 0.02)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """How pairs of base and head scatter, as a standard deviation of their log ratio."""

    name: str
    scatter: float
    launch_bound: bool | None


KINDS = (
    Pairs(name="GPU-bound, 0.26%", scatter=0.0026, launch_bound=False),
    Pairs(name="GPU-bound, 0.35%", scatter=0.0035, launch_bound=False),
    Pairs(name="CPU-bound, 1%", scatter=0.01, launch_bound=True),
    Pairs(name="CPU-bound, 2.5%", scatter=0.025, launch_bound=True),
    Pairs(name="no GPU, 2.5%", scatter=0.025, launch_bound=None),
)


def gates(
    number: Annotated[int, typer.Option(min=20, help="Made-up gates per line.")] = GATES,
    blocks: Annotated[int, typer.Option(min=2, help="Blocks that the minutes allow.")] = BLOCKS,
    seed: Seed = SEED,
) -> None:
    """Play gates of a threshold of 1%, decided by the SQL that decides real ones (a minute).

    Exit code 1: more than 5% of changes at the threshold pass, or 1% of equal ones are called slower, for any scatter;
    or, up to a scatter of 0.35%, less than 95% of heads 1% faster pass, or of heads 2% slower are called slower.
    """
    typer.echo(f"Seed {seed}, {number} gates per line, at most {blocks} blocks, threshold 1%.\n")
    typer.echo("scatter of pairs     head      passes  slower  undecided  blocks")
    missed = []
    for kind in KINDS:
        for change in CHANGES:
            counts, mean_blocks = play(kind, change, number, blocks, seed)
            shares = {name: count / number for name, count in counts.items()}
            passes, slower = shares.get("passes", 0.0), shares.get("slower", 0.0)
            line = (
                f"{passes:6.1%}  {slower:6.1%}     {1 - passes - slower:6.1%}     {mean_blocks:.1f}"
            )
            typer.echo(f"{kind.name:<18} {change:+7.1%}      {line}")
            missed += _missed(kind, change, passes, slower)
    for each in missed:
        typer.echo(f"Missed: {each}")
    if missed:
        raise typer.Exit(1)


def _missed(kind: Pairs, change: float, passes: float, slower: float) -> list[str]:
    is_quiet = kind.scatter <= 0.0035
    fine = {
        -0.01: not is_quiet or passes >= 0.95,
        0.0: slower <= 0.01,
        THRESHOLD: passes <= 0.05,
        0.02: not is_quiet or slower >= 0.95,
    }
    return [] if fine[change] else [f"{kind.name}, {change:+.0%}"]


def play(
    kind: Pairs, change: float, number: int, blocks: int, seed: int
) -> tuple[Counter[str], float]:
    """Return how many of so many gates pass, or call head slower, and the mean number of their blocks.

    Each gate is a sweep of its own, so that no gate's verdict depends on another's.
    """
    generator = np.random.default_rng([seed, round(1e6 * kind.scatter), round(1e4 * (change + 1))])
    logs = np.zeros((number, blocks, 2))
    logs[:, :, 1] = np.log1p(change) + kind.scatter * generator.standard_normal((number, blocks))
    times_ms = STEADY_MS * np.exp(logs)
    rows = in_turns(
        made_rows(times_ms, np.ones(logs.shape)),
        times_ms[..., np.newaxis],
        launch_bound=kind.launch_bound,
    )
    rows = rows.set_column(rows.column_names.index("sweep_id"), "sweep_id", rows["cell_id"])
    looks = pa.repeat(pa.scalar(UNTIL.looks, pa.list_(pa.int64())), len(rows))
    rows = rows.append_column("looks", looks)
    gate, block = np.divmod(rows["block"].to_numpy(), blocks)
    asked = np.zeros(number, int)
    is_open = np.ones(number, bool)
    for look in [*(each for each in UNTIL.looks if each < blocks), blocks]:
        asked[is_open] = look
        with open_rows(rows.filter(block < asked[gate])) as database:
            states = _answers(database, "decided", one_sided=True)
            is_open = np.array([row["state"] == "open" for row in states])
            if look == blocks:
                verdicts = _answers(database, "helps_or_hurts")
    found = [state_of(Verdict(**row)) for row in verdicts]
    words = {"faster": "passes", "not slower": "passes", "slower": "slower"}
    return Counter(words.get(each, "undecided") for each in found), float(asked.mean())


def _answers(database: Any, name: str, **values: Value) -> list[dict[str, Any]]:
    """A row a gate, in their order."""
    question = load_query(name)
    sql = f"select * from ({question.sql}) order by cell_id::bigint"
    rows: list[dict[str, Any]] = database.query(
        sql, question.values({"min_effect": THRESHOLD, **values})
    ).to_pylist()
    return rows


if __name__ == "__main__":
    run(gates)
