"""Measure the figures of docs/validation.md on processes that take turns, in parts, on one GPU.

    make study in_turns ARGS="PART [PART ...] --results DIR [--seconds 500]"

    aa        pairs in which nothing differs (--cpus 1 --cpus 2 --cpus all: on so many CPUs)
    planted   5% and 8% planted on the CPU: five blocks, and for 5% up to twenty until it is found
    order     in turns and one after another: of each cell as many blocks as decide it in turns. Cells
              that lack their first look come first, then open ones, cheapest first, then hopeless ones
    cold      cold costs and choices of a block's second process, where all get ready together or one
              after another, and of processes alone
    capped    cells at the power limit, in turns and alone
    speeds    device times in turns and alone, with and without telemetry

Each method of a part is a sweep of its own, and they alternate: block by block, so that an hour's state
of the host meets all. A part goes on where it was interrupted, on the same GPU or another.
"""

import argparse
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.verdicts import SO_FAR
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.planning.decided import Standing, contrasts_of, standings
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial, narrow
from cudnn_sweep.orchestrator.planning.session import Session, modules_to_preload, session_of
from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.running.run_sweep import plan_of
from cudnn_sweep.orchestrator.slots.slot import ForkedSlot, Slot
from cudnn_sweep.workloads.cells.suite import LOOKS, SuiteSpec, workload_names
from cudnn_sweep.workloads.survey import Survey

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "docs" / "examples" / "planted-turns"
MOST_BLOCKS = {10_008: 5, 10_005: 20}  # that a planted limit may take to be found
UNTIL_FOUND = 10_005

Row = Sequence[list[Trial]]
"""A block of each method."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A sweep and how it measures."""

    name: str
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Part:
    suite: SuiteSpec
    changes: Mapping[str, Mapping[str, object]]
    """Of how it measures, by the name of a sweep."""
    folder: Path = ROOT
    """Where its own workloads are."""

    def methods(self, machine: Survey, only: list[tuple[str, str]]) -> list[Method]:
        return [self._method(name, change, machine, only) for name, change in self.changes.items()]

    def _method(
        self,
        name: str,
        change: Mapping[str, object],
        machine: Survey,
        only: list[tuple[str, str]],
    ) -> Method:
        measure = self.suite.measure.model_copy(update=dict(change))
        plan = plan_of(name, self.suite.model_copy(update={"measure": measure}), machine)
        # A block's number stays what it is where the list of cells grows: what was measured counts on.
        trials = tuple(replace(trial, block=trial.seed) for trial in plan.trials)
        return Method(name=name, plan=narrow(replace(plan, trials=trials), only))


def part_named(name: str, cpus: list[str]) -> Part:
    if name == "aa":
        counts = {each: None if each == "all" else int(each) for each in cpus}
        changes = {f"aa-cpus-{each}": {"turn_cpus": count} for each, count in counts.items()}
        return Part(suite=load_suite("validation_turns"), changes=changes)
    if name == "planted":
        suite = load_suite(str(PLANTED / "suite.yaml"))
        most = suite.model_copy(update={"replicates": max(MOST_BLOCKS.values())})
        return Part(suite=most, changes={"planted": {}}, folder=PLANTED)
    if name == "order":
        changes = {"order-in-turns": {}, "order-one-after-another": {"in_turns": False}}
        return Part(suite=load_suite("validation_order"), changes=changes)
    both: dict[str, dict[str, object]] = {
        f"{name}-in-turns": {},
        f"{name}-alone": {"in_turns": False},
    }
    if name == "cold":
        both["cold-in-turns-together"] = {"start_together": True}
    if name == "speeds":
        both["speeds-alone-unread"] = {"in_turns": False, "telemetry": "off"}
    return Part(suite=load_suite(str(ROOT / "docs" / "turns" / f"{name}.yaml")), changes=both)


def rows_of(name: str, methods: Sequence[Method], store: Store, end: float) -> Iterator[Row]:
    if name == "planted":
        (method,) = methods
        yield from planted_rows(method.plan, store, method.name)
        return
    plans = ([trials for _, trials in method.plan.blocks()] for method in methods)
    rows = list(zip(*plans, strict=True))
    yield from decided_rows(rows, methods, store, end) if methods[0].plan.looks else rows


def decided_rows(
    rows: Sequence[Row], methods: Sequence[Method], store: Store, end: float
) -> Iterator[Row]:
    """Cell by cell its blocks up to the next look, where there is time for them: the first method decides."""
    waiting: dict[str, list[Row]] = {}
    for row in rows:
        waiting.setdefault(row[0][0].cell.cell_id, []).append(row)
    while waiting:
        found = stand(store, methods[0])
        done = [store.stored_trials(method.name) for method in methods]
        for cell in sorted(waiting, key=lambda cell: urgency(found.get(cell))):
            asked = next_blocks(waiting[cell], methods[0].plan, done, found.get(cell))
            if asked and monotonic() + seconds(asked, found.get(cell)) < end:
                yield from asked
                break
            del waiting[cell]  # a cell between two looks has no verdict


def next_blocks(
    blocks: Sequence[Row],
    plan: Plan,
    done: Sequence[Mapping[str, object]],
    standing: Standing | None,
) -> Sequence[Row]:
    """Those of a cell up to its next look."""
    lacking = [row for row in blocks if not is_measured(row, done)]
    reached = len(blocks) - len(lacking)
    if standing and standing.is_decided and reached >= standing.recorded_blocks:
        return []
    look = min((each for each in plan.looks if each > reached), default=reached)
    return lacking[: look - reached]


def seconds(blocks: Sequence[Row], standing: Standing | None) -> float:
    """About how long they take; nothing where the cell was never measured."""
    pace_s = max(state.block_s for state in standing.states) if standing else 0.0
    return sum(pace_s * len(row) for row in blocks)


def stand(store: Store, method: Method) -> Mapping[str, Standing]:
    """How its cells stand."""
    known = method.name in store.sweep_ids()
    return standings(store, session_for(method, store)) if known else {}


def urgency(standing: Standing | None) -> tuple[int, float]:
    """Of least comes first: without a look, open, out of reach."""
    if standing is None or standing.recorded_blocks < LOOKS[0]:
        return 0, 0.0
    return (1 if standing.is_open else 2), standing.seconds_to_decide


def is_measured(row: Row, done: Sequence[Mapping[str, object]]) -> bool:
    """Whether all methods have some trial of this block."""
    pairs = zip(row, done, strict=True)
    return all(any(trial.trial_id in known for trial in trials) for trials, known in pairs)


def planted_rows(plan: Plan, store: Store, sweep_id: str) -> Iterator[Row]:
    """Round by round the blocks that are still needed, of each the trials that are."""
    rounds: dict[int, list[list[Trial]]] = {}
    for _, trials in plan.blocks():
        rounds.setdefault(trials[0].replicate, []).append(trials)
    for blocks in rounds.values():
        measured = {limit: answers(store, sweep_id, limit) for limit in MOST_BLOCKS}
        done = store.stored_trials(sweep_id)
        for trials in blocks:
            cell = trials[0].cell.cell_id
            limits = {limit for limit in MOST_BLOCKS if needs(limit, measured[limit].get(cell))}
            kept = [
                trial
                for trial in trials
                if not trial.twin and trial.config.plan_cache_limit in {None, *limits}
            ]
            if limits and not any(trial.trial_id in done for trial in trials):
                yield [kept]


def needs(limit: int, answer: tuple[int, str] | None) -> bool:
    """Whether a cell with so many blocks and such a verdict needs a further block."""
    if answer is None:
        return True
    blocks, verdict = answer
    found = limit == UNTIL_FOUND and verdict not in ("inconclusive", *SO_FAR)
    return blocks < MOST_BLOCKS[limit] and not found


def answers(store: Store, sweep_id: str, limit: int) -> dict[str, tuple[int, str]]:
    """Blocks and verdict on wall time by cell; of a cell on several machines the one with most blocks."""
    if sweep_id not in store.sweep_ids():
        return {}
    question = load_query("helps_or_hurts")
    asked = {"field": "plan_cache_limit", "baseline": "null", "candidate": str(limit)}
    with open_database(store, sweep_id) as database:
        found = database.query(question.sql, question.values(asked))
    columns = (found[name].to_pylist() for name in ("blocks", "cell_id", "wall_verdict"))
    told = sorted(zip(*columns, strict=True))
    return {cell: (blocks, verdict) for blocks, cell, verdict in told}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("aa", "planted", "order", "cold", "capped", "speeds")
    parser.add_argument("parts", choices=names, nargs="+", metavar="PART")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--cpus", action="append")
    parser.add_argument("--seconds", type=float, default=500.0, help="no block begins after them")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD=VALUE")
    asked = parser.parse_args()
    end = monotonic() + asked.seconds
    store = open_store(str(asked.results.resolve()))
    only = [tuple(choice.split("=", 1)) for choice in asked.only]
    parts = {name: part_named(name, asked.cpus or ["1"]) for name in asked.parts}
    machines = look(list(parts.values()))
    for name, part in parts.items():
        if monotonic() > end:
            break
        os.chdir(part.folder)
        methods = part.methods(machines[part.folder], only)
        measure_part(name, part, methods, store, end)
        for method in methods:
            if method.name in store.sweep_ids():
                store.compact(method.name)


def look(parts: Sequence[Part]) -> dict[Path, Survey]:
    """The machine and their workloads, by folder."""
    found: dict[Path, Survey] = {}
    for folder in dict.fromkeys(part.folder for part in parts):
        suites = [part.suite for part in parts if part.folder == folder]
        names = sorted({name for suite in suites for name in workload_names(suite)})
        with ForkServer(folder=folder, survey_only=True) as server:
            found[folder] = survey(server, names)
    return found


def measure_part(
    name: str, part: Part, methods: Sequence[Method], store: Store, end: float
) -> None:
    """Slots come up when the first block of theirs does."""
    slots: dict[str, Slot] = {}
    with ExitStack() as stack:
        for place, row in enumerate(rows_of(name, methods, store, end)):
            turns = list(zip(methods, row, strict=True))
            for method, trials in turns[:: 1 if place % 2 else -1]:
                if monotonic() > end:
                    return
                done = store.stored_trials(method.name)
                if any(trial.trial_id in done for trial in trials):
                    continue
                if method.name not in slots:
                    slot = slot_of(method, part.suite, store)
                    slots[method.name] = stack.enter_context(closing(slot))
                measure_block(store, method, slots[method.name], trials)


def slot_of(method: Method, suite: SuiteSpec, store: Store) -> Slot:
    session = replace(
        session_for(method, store),
        launch_id=f"launch-{secrets.token_hex(4)}",
        preload=modules_to_preload(suite, ()),
        scratch=Path("/tmp/in-turns"),  # one for all: a cell is compiled once
    )
    return ForkedSlot.open(session, "0")


def session_for(method: Method, store: Store) -> Session:
    plan = method.plan
    return replace(
        session_of(plan, method.name, Path(store.location)),
        looks=plan.looks,
        of_cells=len(plan.cell_ids()),
        contrasts=contrasts_of(plan.configs()),
    )


def measure_block(store: Store, method: Method, slot: Slot, trials: list[Trial]) -> None:
    began = monotonic()
    records = list(slot.measure(trials, lambda _: 1))
    seconds = monotonic() - began
    store.write(*records)
    name = records[0].problem or records[0].workload
    times = " ".join(f"{record.steady_wall_ms or 0:.4f}" for record in records)
    said = {record.message or record.alone_reason or record.status for record in records}
    block = f"{method.name} {trials[0].replicate}"
    print(f"{block} {name} {seconds:.1f} s: {times} {said}", flush=True)


if __name__ == "__main__":
    main()
