"""Measure the figures of docs/validation.md on processes that take turns, in parts, on one GPU.

    python docs/in_turns.py aa --results DIR [--cpus 1 --cpus 2 --cpus all] [--seconds 500]
    python docs/in_turns.py planted --results DIR
    python docs/in_turns.py order --results DIR

Each method of a part is a sweep of its own, and they alternate: block by block, so that an hour's state
of the host meets all. A part goes on where it was interrupted, on the same GPU or another.
"""

import argparse
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from cudnn_sweep.analysis.store import Store, open_store
from cudnn_sweep.orchestrator.every_launch import modules_to_preload, plan_of
from cudnn_sweep.orchestrator.plan import Plan, Trial, narrow
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.session import session_of
from cudnn_sweep.orchestrator.slot import Slot, survey
from cudnn_sweep.orchestrator.spec import load_suite
from cudnn_sweep.workloads.suite import SuiteSpec, workload_names

PLANTED = Path(__file__).parent / "examples" / "planted-turns"


@dataclass(frozen=True, kw_only=True)
class Method:
    """A sweep and how it measures."""

    name: str
    plan: Plan

    def cells(self) -> Iterator[list[tuple[int, list[Trial]]]]:
        """The blocks of each cell."""
        found: dict[str, list[tuple[int, list[Trial]]]] = {}
        for number, trials in self.plan.blocks():
            found.setdefault(trials[0].cell.cell_id, []).append((number, trials))
        yield from found.values()


def methods_of(part: str, cpus: list[str]) -> tuple[SuiteSpec, dict[str, dict[str, object]]]:
    if part == "aa":
        named = {each: None if each == "all" else int(each) for each in cpus}
        return load_suite("validation_turns"), {
            f"aa-cpus-{name}": {"turn_cpus": number} for name, number in named.items()
        }
    if part == "planted":
        os.chdir(PLANTED)
        return load_suite("suite.yaml"), {"planted": {}}
    assert part == "order", part
    return load_suite("validation_order"), {
        "order-in-turns": {},
        "order-one-after-another": {"in_turns": False},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["aa", "planted", "order"])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--cpus", action="append")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--only", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--by-cell", action="store_true", help="finish a cell, then the next")
    asked = parser.parse_args()
    end = monotonic() + asked.seconds
    store = open_store(str(asked.results.resolve()))
    suite, changes = methods_of(asked.part, asked.cpus or ["1"])
    with ForkServer(survey_only=True) as server:
        machine = survey(server, workload_names(suite))
    methods = []
    for name, change in changes.items():
        measure = suite.measure.model_copy(update=change)
        plan = plan_of(name, suite.model_copy(update={"measure": measure}), machine)
        only = [tuple(choice.split("=", 1)) for choice in asked.only]
        plan = narrow(plan, only)
        methods.append(Method(name=name, plan=plan))
    blocks = list(zip(*(method.plan.blocks() for method in methods), strict=True))
    if asked.by_cell:
        cells = list(dict.fromkeys(trials[0].cell.cell_id for ((_, trials), *_) in blocks))
        blocks.sort(key=lambda row: cells.index(row[0][1][0].cell.cell_id))
    with ExitStack() as stack:
        slots = [stack.enter_context(closing(slot_of(method, suite, store))) for method in methods]
        for place, row in enumerate(blocks):
            turns = list(zip(methods, slots, row, strict=True))
            for method, slot, (number, trials) in turns[:: 1 if place % 2 else -1]:
                if monotonic() > end:
                    break
                measure_block(store, method, slot, number, trials)
    for method in methods:
        store.compact(method.name)


def slot_of(method: Method, suite: SuiteSpec, store: Store) -> Slot:
    folder = Path(store.location)
    session = session_of(method.plan, method.name, folder)
    session = replace(
        session,
        launch_id=f"launch-{secrets.token_hex(4)}",
        preload=modules_to_preload(suite, ()),
        scratch=Path("/tmp/in-turns"),  # one for all: a cell is compiled once
    )
    return Slot(session, "0")


def measure_block(
    store: Store, method: Method, slot: Slot, number: int, trials: list[Trial]
) -> None:
    """Unless it was, whole or in part."""
    done = store.stored_trials(method.name)
    if any(trial.trial_id in done for trial in trials):
        return
    began = monotonic()
    records = list(slot.measure(trials, lambda _: 1))
    seconds = monotonic() - began
    for record in records:
        store.write(record)
    times = " ".join(f"{record.steady_wall_ms or 0:.4f}" for record in records)
    said = {record.message or record.alone_reason or record.status for record in records}
    name = records[0].problem or records[0].workload
    print(f"{method.name} {number} {name} {seconds:.1f} s: {times} {said}", flush=True)


if __name__ == "__main__":
    main()
