"""Two softwares side by side: another environment's Python, with a version of ours of its own."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.queries import load_query
from cudnn_sweep.analysis.nightly.confirmation import LOOKS, Confirmation, confirm
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.orchestrator.errors import ServerError, SpecError
from cudnn_sweep.orchestrator.nightly.confirmation_plan import LAST_GOOD, Suspect, confirmation_plan
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.planning.sweep_selection import SweepSelection, choose_sweep
from cudnn_sweep.orchestrator.process import client
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import REQUEST, Request, SurveyJob
from cudnn_sweep.orchestrator.process.survey import survey
from cudnn_sweep.orchestrator.slots import slot
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.makers import MakePlan, RecordOf

pytestmark = pytest.mark.measuring

PACES = str(Path(__file__).parents[1] / "paces.py")
BLOCKS = 24  # at most: a calm machine needs 6
SHORT = MeasureSpec(
    warmup_s=0.0, steady_budget_s=0.15, calibrate=False, reference_replicates=0, timeout_s=100
)
SUITE = SuiteSpec(cells=[CellAxes(workload=f"{PACES}:as_before")], measure=SHORT)


@pytest.fixture(scope="module")
def suspects(plan_of: MakePlan) -> list[Suspect]:
    plans = [plan_of(f"{PACES}:{name}") for name in ("slower_since", "as_before")]
    return [Suspect(cell=plan.trials[0].cell, configs=(CudnnConfig(),)) for plan in plans]


@pytest.fixture(scope="module")
def session(
    last_good: Path, suspects: list[Suspect], tmp_path_factory: pytest.TempPathFactory
) -> Session:
    plan = confirmation_plan("confirm", SUITE, suspects, blocks=BLOCKS)
    whole = session_of(plan, "confirmed", tmp_path_factory.mktemp("scratch"))
    return replace(whole, pythons={LAST_GOOD: last_good})


@pytest.fixture(scope="module")
def store(
    session: Session, server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Rounds of the plan, until the slower workload's pairs settle it."""
    store = open_store(str(tmp_path_factory.mktemp("softwares")))
    lent = SimpleNamespace(run=server.run, begin=server.begin, close=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            slot, "ForkServer", lambda **how: ForkServer(**how) if how["python"] else lent
        )
        place = slot.ForkedSlot.open(session, "0")
    for trial in session.plan.trials:
        looks = trial.replicate in LOOKS and trial.position % 4 == 0
        if looks and _confirmed(store, "slower_since").state != "undecided":
            break
        store.write(place.run(trial, 1))
    yield store
    place.close()


def _confirmed(store: Store, workload: str) -> Confirmation:
    question = load_query("software_pairs")
    with open_database(store) as database:
        rows = database.query(question.sql, question.values({})).to_pylist()
        cells = database.query("select * from cell_labels()").to_pylist()
    (cell_id,) = [each["cell_id"] for each in cells if each["workload"].endswith(workload)]
    chosen = [row for row in rows if (row["cell_id"], row["metric"]) == (cell_id, "steady_wall")]
    return confirm([row["log_ratio"] for row in chosen], 0.03)


@pytest.fixture(scope="module")
def records(store: Store) -> list[dict[str, Any]]:
    with open_database(store) as database:
        rows: list[dict[str, Any]] = database.query("select * from records").to_pylist()
    return rows


def test_only_the_workload_that_became_slower_is_confirmed(store: Store) -> None:
    slower = _confirmed(store, "slower_since")
    assert slower.state == "confirmed"
    assert slower.low is not None and slower.high is not None
    assert slower.low < 1.2 < slower.high or slower.ratio == pytest.approx(1.2, abs=0.05)
    assert _confirmed(store, "as_before").state != "confirmed"


def test_each_record_says_with_which_software_it_was_measured(
    records: list[dict[str, Any]], environment: Environment
) -> None:
    assert {record["status"] for record in records} == {"ok"}
    softwares = {(each["software"], each["version"], each["software_hash"]) for each in records}
    there = replace(environment, version="0.0.1")
    assert softwares == {
        (None, environment.version, environment.software_hash),
        (LAST_GOOD, "0.0.1", there.software_hash),
    }
    assert len({(record["env_hash"], record["slot"]) for record in records}) == 1


def test_a_block_is_not_split_by_its_softwares(store: Store) -> None:
    (state,) = store.sweeps()
    assert state.blocks.begun >= 2 * min(LOOKS)
    assert state.blocks.split == ()


def test_a_sweep_of_two_softwares_is_gone_on_with_by_the_same_two(
    session: Session, record_of: RecordOf, environment: Environment, tmp_path: Path
) -> None:
    half = open_store(str(tmp_path))
    there, plan, selection = (
        replace(environment, version="0.0.1"),
        session.plan,
        SweepSelection(sweep_id="half"),
    )
    whole = replace(session, sweep_id="half")
    (first, *_) = (trial for trial in plan.trials if trial.software == LAST_GOOD)
    half.write(record_of(whole, first, where=there))
    choice = choose_sweep(half, plan, plan, environment, selection, {LAST_GOOD: there})
    assert (choice.resumed, len(choice.todo.trials)) == (True, len(plan.trials) - 1)
    another = {LAST_GOOD: replace(there, torch="2.0.0")}
    with pytest.raises(SpecError, match="it ran with other software as last_good"):
        choose_sweep(half, plan, plan, environment, selection, another)


def test_plan_interleaves_softwares_in_rounds_of_every_cell(
    session: Session, suspects: list[Suspect]
) -> None:
    trials = session.plan.trials
    assert len({trial.trial_id for trial in trials}) == len(trials) == 2 * 2 * BLOCKS
    for _, block in session.plan.blocks():
        assert {(trial.cell.cell_id, trial.seed) for trial in block} == {
            (block[0].cell.cell_id, block[0].seed)
        }
        assert sorted(trial.software for trial in block) == ["", LAST_GOOD]
    assert [trial.replicate for trial in trials] == sorted(trial.replicate for trial in trials)
    fewer = confirmation_plan("confirm", SUITE, suspects, blocks=BLOCKS // 2)
    assert trials[: len(fewer.trials)] == fewer.trials


def _program(folder: Path, says: str) -> Path:
    file = folder / "python"
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ('ready {"protocol": 99, "version": "9.9"}', r"speaks protocol 99 \(cudnn-sweep 9.9\)"),
        ("ready", "begins with b'ready"),
    ],
)
def test_another_protocol_is_refused(tmp_path: Path, says: str, error: str) -> None:
    with pytest.raises(ServerError, match=error):
        ForkServer(python=_program(tmp_path, says))


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="nowhere cannot be started: No such file"):
        ForkServer(python=tmp_path / "nowhere")


def test_a_request_that_says_more_than_the_server_knows_is_refused(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Newer:
        def dump_json(self, request: Request) -> bytes:
            return REQUEST.dump_json(request).replace(b'{"job"', b'{"tomorrow":1,"job"')

    monkeypatch.setattr(client, "REQUEST", Newer())
    request = Request(job=SurveyJob(workloads=[]), timeout_s=100)
    with pytest.raises(ServerError, match="cannot do what is requested: tomorrow: Unexpected"):
        server.run(request)
    monkeypatch.undo()
    assert survey(server, []).environment.cpu_cores == len(os.sched_getaffinity(0))
