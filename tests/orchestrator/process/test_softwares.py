"""Two softwares side by side: another environment's Python, with a version of ours of its own."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cudnn_sweep.analysis.store.progress import blocks_of
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.nightly.night import Suspect, confirmation_plan
from cudnn_sweep.orchestrator.planning.options import LaunchOptions
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD
from cudnn_sweep.orchestrator.planning.request import Planned, SweepRequest
from cudnn_sweep.orchestrator.planning.session import Session, session_of
from cudnn_sweep.orchestrator.planning.sweep_selection import choose_sweep
from cudnn_sweep.orchestrator.process import protocol
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.process.protocol import REQUEST, Request, SurveyJob
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey
from tests.makers import MakePlan, RecordOf

pytestmark = pytest.mark.measuring

PACES = str(Path(__file__).parents[1] / "paces.py")
BLOCKS = 24
SUITE = SuiteSpec(cells=[CellAxes(workload=f"{PACES}:as_before")])


@pytest.fixture(scope="module")
def suspects(plan_of: MakePlan) -> list[Suspect]:
    plans = [plan_of(f"{PACES}:{name}") for name in ("slower_since", "as_before")]
    return [(plan.trials[0].cell, [Config()]) for plan in plans]


@pytest.fixture(scope="module")
def session(
    last_good: Path, suspects: list[Suspect], tmp_path_factory: pytest.TempPathFactory
) -> Session:
    plan = confirmation_plan("confirm", SUITE, suspects, blocks=BLOCKS)
    whole = session_of(plan, "confirmed", tmp_path_factory.mktemp("scratch"))
    return replace(whole, pythons={LAST_GOOD: last_good})


def test_a_sweep_of_two_softwares_is_resumed_and_splits_no_block(
    session: Session, record_of: RecordOf, environment: Environment, tmp_path: Path
) -> None:
    half = open_store(str(tmp_path))
    there, plan = replace(environment, version="0.0.1"), session.plan
    whole = replace(session, sweep_id="half")
    for trial in plan.trials[:2]:
        where = there if trial.software == LAST_GOOD else environment
        half.write(record_of(whole, trial, where=where))
    assert blocks_of(half.stored_trials("half").values()).split == ()
    machine = Survey(environment=environment, gpus=[], gpu_uuids=[], workloads={})
    options = LaunchOptions(sweep_id="half")
    request = SweepRequest(options=options, suite_name="", suite=SUITE, results="")
    planned = Planned(request=request, machine=machine, preload=(), whole=plan, chosen=plan)
    resumed = choose_sweep(half, planned)
    assert (resumed.resumed, len(resumed.plan.trials)) == (True, len(plan.trials) - 2)


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
        ('{"protocol": 99, "version": "9.9"}', r"speaks protocol 99 \(cudnn-sweep 9.9\)"),
        ("ready", "sent b'ready"),
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

    monkeypatch.setattr(protocol, "REQUEST", Newer())
    request = Request(job=SurveyJob(workloads=[]), timeout_s=100)
    with pytest.raises(ServerError, match="cannot do what is requested: tomorrow: Unexpected"):
        server.run(request)
    monkeypatch.undo()
    assert survey(server, []).environment.cpu_cores == len(os.sched_getaffinity(0))
