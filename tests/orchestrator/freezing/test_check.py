"""What `sweep freeze --check` compares with a kept file, and when `sweep freeze` writes none, of made-up results."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.analysis.answers.answer import Answer
from cudnn_sweep.analysis.results.advice import UNDECIDED
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.freezing import freeze as freezing
from cudnn_sweep.orchestrator.freezing.freeze import _frozen_in, _in_turns, _not_shown, freeze
from cudnn_sweep.orchestrator.freezing.probe import MEASURE, MOST_SHAPES, ForkedProbe
from cudnn_sweep.orchestrator.process.protocol import LogJob, TrialJob
from cudnn_sweep.orchestrator.steps.step_options import FreezeOptions
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.errata import as_json, rules_of
from tests.makers import MakePlan
from tests.orchestrator.freezing.fake_probe import VERSION, FakeProbe

pytestmark = pytest.mark.usefixtures("here")

RULES = f"ConvFwd:1@{VERSION}"
THEN = {"gpu": "NVIDIA H200", "torch": "2.9.0", "cuda": "13.0", "cudnn": VERSION, "driver": "580"}
PLANS = ["ConvFwd_eng2", "ConvFwd_eng3"]
OPERATIONS = [{"ConvFwd_eng1": 2.0, "ConvFwd_eng2": 1.0}, {"ConvFwd_eng3": 1.0}]
MOVED = [OPERATIONS[0], {"ConvFwd_eng4": 1.0}]
SHOWN = {"ratio": 0.5, "ratio_low": 0.49, "ratio_high": 0.51, "candidate_ms": 2.0, "blocks": 3}


def checked(
    monkeypatch: pytest.MonkeyPatch,
    operations: Sequence[dict[str, float]] = OPERATIONS,
    state: str = "faster",
    row: dict[str, Any] | None = SHOWN,
    **environment: Any,
) -> Answer:
    """Return the answer of a check whose step compares so with one without the file."""
    kept = as_json(rules_of(RULES), frozen={**THEN, "plans": PLANS, "frozen_ms": 1.5})
    Path("kept.json").write_text(kept)
    machine = SimpleNamespace(environment=SimpleNamespace(**THEN | environment))
    monkeypatch.setattr(freezing, "_looked", lambda *_: SimpleNamespace(machine=machine))
    found = (state, None if row is None else SimpleNamespace(**row))
    monkeypatch.setattr(freezing, "_in_turns", lambda *_: found)
    probe = FakeProbe(operations=operations)
    options = FreezeOptions(workload="batch_norm", check="kept.json")
    answer = freeze(options, Mock(), Mock(), lambda *_: nullcontext(probe))
    assert [config.errata for config in probe.logged] == [RULES]
    return answer


def facts(answer: Answer) -> dict[str, str]:
    return {name: text for name, text in answer.sections[0].rows}


def test_a_check_of_the_same_plans_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = checked(monkeypatch)
    assert (answer.state, answer.values["holds"]) == ("fine", True)
    assert facts(answer) == {
        "Plans": "2 of 2 operations take the plan of kept.json",
        "A step": "2.00 ms, 0.500 of the time with benchmark off (0.490 to 0.510)",
    }
    assert (answer.values["operations"], answer.values["same_plans"]) == (2, 2)
    assert (answer.values["frozen_ms_then"], answer.values["blocks"]) == (1.5, 3)
    assert not answer.commands


@pytest.mark.parametrize(
    ("operations", "state", "found", "holds"),
    [
        (MOVED, "faster", "worse", False),
        (OPERATIONS[:1], "faster", "worse", False),
        ([], "faster", "worse", False),
        (OPERATIONS, "slower", "worse", False),
        (OPERATIONS, "broken", "does not run", False),
        (OPERATIONS, "cannot tell yet", "cannot tell", False),
        (OPERATIONS, "not slower", "fine", True),
    ],
)
def test_other_plans_or_a_slower_step_do_not_hold(
    monkeypatch: pytest.MonkeyPatch,
    operations: Sequence[dict[str, float]],
    state: str,
    found: str,
    holds: bool,
) -> None:
    answer = checked(monkeypatch, operations, state)
    assert (answer.state, answer.values["holds"]) == (found, holds)
    assert bool(answer.commands) == (found == "worse"), "how to make the file anew"


def test_what_differs_from_then_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = checked(monkeypatch, MOVED, driver="590")
    assert answer.values["other_plans"] == ["operation 2: ConvFwd_eng3 saved, ConvFwd_eng4 used"]
    assert answer.values["changed"] == ["driver: made with 580, here 590"]
    assert (answer.values["operations"], answer.values["same_plans"]) == (2, 1)
    assert [text for name, text in answer.sections[0].rows if name == "Changed"] == [
        *answer.values["changed"],
        *answer.values["other_plans"],
    ]


@pytest.mark.parametrize("row", [None, SHOWN | {"ratio": None}])
def test_without_a_block_of_both_a_check_says_so(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any] | None
) -> None:
    answer = checked(monkeypatch, state="cannot tell yet", row=row)
    assert facts(answer)["A step"] == "no block has both a frozen step and one with benchmark off"


@pytest.mark.parametrize(
    "frozen", [{}, {"frozen": None}, {"frozen": {"plans": None}}, {"frozen": {"frozen_ms": 1}}]
)
def test_a_file_of_rules_alone_cannot_be_checked(frozen: dict[str, Any]) -> None:
    Path("rules.json").write_text(as_json(rules_of(RULES), **frozen))
    with pytest.raises(SpecError, match=r"--check: rules.json has only rules; allowed: a file"):
        _frozen_in("rules.json")


@pytest.mark.parametrize(
    ("advice", "blocks_needed", "more"),
    [
        (UNDECIDED, 4, " About 4 more blocks would decide. A decision takes about 2 more minutes"),
        (UNDECIDED, None, ""),
        ("off", 4, ""),
        ("off", None, ""),
    ],
)
def test_what_more_would_decide_is_said_of_what_is_undecided(
    advice: str, blocks_needed: int | None, more: str
) -> None:
    row = SimpleNamespace(advice=advice, blocks_needed=blocks_needed, minutes_needed=2.0)
    kept: Any = SimpleNamespace(advice=row, step="by 3 blocks")
    text = _not_shown(kept)
    assert text.startswith(f"No gain is shown by 3 blocks.{more}")
    assert bool(more) == ("minutes" in text)


@pytest.mark.parametrize(
    ("state", "decided"), [("slower", True), ("cannot tell yet", False), ("not slower", True)]
)
def test_a_check_is_planned_as_a_gate_and_a_stop_before_it_is_decided_is_an_error(
    monkeypatch: pytest.MonkeyPatch, state: str, decided: bool
) -> None:
    planned: list[dict[str, Any]] = []
    monkeypatch.setattr(freezing, "plan_step", lambda *_, **values: planned.append(values))
    ran = Mock()
    monkeypatch.setattr(freezing, "run_sweep", lambda *_: ran)
    monkeypatch.setattr(freezing, "verdict_of", lambda *_: "row")
    monkeypatch.setattr(freezing, "state_of", {"row": state}.__getitem__)
    options = FreezeOptions(workload="batch_norm", check="kept.json", minutes=2.0)
    found: tuple[Any, Any] = _in_turns(options, RULES, Mock(), Mock(), Mock())
    assert found == (state, "row")
    ran.check_not_stopped.assert_called_once_with(is_decided=decided)
    (values,) = planned
    assert (values["left_s"], values["min_effect"], values["one_sided"]) == (120.0, 0.01, True)


TIMES = SimpleNamespace(off_ms=2.0, on_ms=1.5, frozen_ms=1.0)


@pytest.mark.parametrize(
    ("kept", "state", "must_be_decided"),
    [
        (None, "cannot tell", False),
        (None, "does not run", True),
        (False, "fine", False),
        (True, "fine", None),
    ],
)
def test_a_file_is_written_only_if_a_gain_is_shown(
    monkeypatch: pytest.MonkeyPatch, kept: bool | None, state: str, must_be_decided: bool | None
) -> None:
    """`must_be_decided`: what a stopped sweep is asked; None: its answer is decided in any case."""
    choice = None if kept is None else SimpleNamespace(gains=kept, measured=TIMES)
    environment = SimpleNamespace(**THEN | {"device": "cuda"})
    planned = SimpleNamespace(machine=SimpleNamespace(environment=environment))
    ran, plans = Mock(), list[dict[str, Any]]()
    ran.session.sweep_id = "freeze-1"
    answer = Answer(kind="freeze", subject="", state=state, headline="")  # type: ignore[arg-type]
    for name, value in {
        "_looked": lambda *_: planned,
        "suite_to_compare": lambda *_: None,
        "plan_step": lambda *_, **values: plans.append(values),
        "run_sweep": lambda *_: ran,
        "answered_of": lambda *_: None,
        "kept_choice": lambda *_: choice,
        "answer_of": lambda _: answer,
        "replace": lambda of, **changes: replace(of, **changes) if of is answer else of,
        "_not_shown": lambda _: "No gain is shown.",
    }.items():
        monkeypatch.setattr(freezing, name, value)
    options = FreezeOptions(workload="batch_norm", minutes=2.0)
    probe = FakeProbe(operations=OPERATIONS)
    found = freeze(options, Mock(), Mock(), lambda *_: nullcontext(probe))
    assert found.state == state
    assert plans[0]["left_s"] == 120.0
    if must_be_decided is None:
        text = found.files["batch_norm.json"]
        told = json.loads(text)["frozen"]
        assert text.splitlines()[1].startswith(' "'), "indented by one"
        assert (told["plans"], told["frozen_ms"], told["gpu"]) == (PLANS, 1.0, "NVIDIA H200")
        ran.check_not_stopped.assert_not_called()
    else:
        assert not found.files
        ran.check_not_stopped.assert_called_once_with(is_decided=must_be_decided)
    if kept is False:
        assert found.headline == "No gain is shown. No file is written."


class Server:
    """A fork server whose processes end as given."""

    def __init__(self, **outcome: Any) -> None:
        self.jobs: list[Any] = []
        self._outcome = SimpleNamespace(**{"status": "ok", "message": "no memory"} | outcome)

    def run(self, request: Any) -> Any:
        self.jobs.append(request.job)
        return self._outcome


def probe_of(plan_of: MakePlan, server: Any) -> ForkedProbe:
    trial = plan_of("noop").trials[0]
    return ForkedProbe(server=server, trial=trial, timeout_s=9.0, compute_cache="cache")


def test_a_probe_logs_up_to_64_shapes_and_times_a_step_briefly(plan_of: MakePlan) -> None:
    wall = SimpleNamespace(wall=SimpleNamespace(steady_wall_ms=3.0))
    log: Any = SimpleNamespace(banned_ran=[])
    server = Server(reply=SimpleNamespace(log_pass=log, measured=wall))
    probe = probe_of(plan_of, server)
    assert probe.log(Config(benchmark=True)) is log
    assert probe.step_ms(Config()) == 3.0
    logs, times = server.jobs
    assert isinstance(logs, LogJob)
    assert isinstance(times, TrialJob)
    assert logs.shapes == MOST_SHAPES == 64
    assert (logs.trial.config.benchmark, times.trial.config.benchmark) == (True, False)
    assert times.trial.measure == MEASURE
    assert MEASURE.cold_shapes == 1


def test_a_probe_whose_bans_are_ignored_is_refused(plan_of: MakePlan) -> None:
    log = SimpleNamespace(banned_ran=["ConvFwd_eng1"])
    server = Server(reply=SimpleNamespace(log_pass=log))
    with pytest.raises(SpecError, match="ignores errata: it ran ConvFwd_eng1"):
        probe_of(plan_of, server).log(Config())


@pytest.mark.parametrize("outcome", [{"status": "killed", "reply": Mock()}, {"reply": None}])
def test_a_probe_whose_process_fails_is_the_models_error(
    plan_of: MakePlan, outcome: dict[str, Any]
) -> None:
    with pytest.raises(ModelError, match="noop: a process with benchmark on failed: no memory"):
        probe_of(plan_of, Server(**outcome)).step_ms(Config(benchmark=True))
