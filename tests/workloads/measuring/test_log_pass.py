"""Logs of torch 2.11 with cuDNN 9.19 on an H200: 32x256x56x56, 256 filters 3x3, bfloat16. Lines that
describe tensors were left out.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cudnn_sweep.workloads.cells.measurement import LogPass, TimedPlan
from cudnn_sweep.workloads.measuring import log_pass as logging
from cudnn_sweep.workloads.measuring.log_pass import read_log, run_log_pass
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.records.measured import LoggedChoice
from cudnn_sweep.workloads.workload import TimedStep

DATA = Path(__file__).parents[1] / "data"


def choices_in(text: str) -> list[LoggedChoice]:
    return [operation.choice() for operation in read_log(text)]


def test_without_a_search_the_plan_that_ran_is_read() -> None:
    choices = choices_in((DATA / "cudnn_frontend_benchmark_off.log").read_text())
    assert [choice.operation for choice in choices] == ["ConvFwd", "ConvBwdData", "ConvBwdFilter"]
    assert [choice.plans_timed for choice in choices] == [0, 0, 0]
    assert choices[0].engine == "ConvFwd_eng62_k2=0_k13=1_k18=0_k25=1_k27=1_k28=2"
    assert choices[0].numeric_notes == ["TENSOR_CORE"]
    assert choices[0].workspace_bytes == 103940243
    assert choices[0].timed_ms is None


def test_search_takes_the_plan_that_it_timed_fastest() -> None:
    (choice,) = choices_in((DATA / "cudnn_frontend_benchmark_on.log").read_text())
    assert (choice.plans_built, choice.plans_timed) == (35, 10)
    assert choice.engine == "ConvFwd_eng62_k2=3_k13=1_k18=0_k25=1_k27=1_k28=2"
    assert choice.timed_ms == 0.253696


def test_plan_that_did_not_run_is_followed_by_the_one_that_did() -> None:
    plan = "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR : ConvFwd_eng{}, numeric_notes:[] "
    plan += "behavior_notes:[CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION,] workSpaceSize: 0"
    (choice,) = choices_in("\n".join(["Tag: ConvFwd_", plan.format(1), plan.format(28)]))
    assert choice.engine == "ConvFwd_eng28"
    assert choice.behavior_notes == ["RUNTIME_COMPILATION"]


def test_a_list_that_is_banned_whole_is_followed_by_the_one_fallen_back_to() -> None:
    plan = "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR : ConvFwd_eng{}, numeric_notes:[] "
    plan += "behavior_notes:[] workSpaceSize: 0"
    blocked, passed = "Verifying ConvFwd_eng{}. Blocking.", "Verifying ConvFwd_eng{}. Passed."
    lines = ["Tag: ConvFwd_", plan.format(1), blocked.format(1), plan.format(2), blocked.format(2)]
    lines += ["Tag: ConvFwd_", plan.format(3), passed.format(3)]
    (choice,) = choices_in("\n".join(lines))
    assert (choice.engine, choice.plans_built) == ("ConvFwd_eng3", 3)
    again = [*lines, "Tag: ConvFwd_", plan.format(3), passed.format(3)]
    assert len(choices_in("\n".join(again))) == 2, "what ran is followed by another operation"


PLAN = "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR : {}, numeric_notes:[] behavior_notes:[] workSpaceSize: {}"
LOGGED = "\n".join(
    [
        "Tag: ConvFwd_",
        PLAN.format("ConvFwd_eng1", 500),
        PLAN.format("ConvFwd_eng2", 9000),
        "Plan ConvFwd_eng1 took     0.25",
        "Plan ConvFwd_eng2 took     0.5",
        "Tag: ConvBwdData_",
        PLAN.format("ConvBwdData_eng3", 700),
    ]
)


def log_pass(
    monkeypatch: pytest.MonkeyPatch,
    *,
    shapes: int = 0,
    free: int = 9000,
    text: str | None = LOGGED,
    errata: str | None = None,
    version: int | None = 91900,
) -> tuple[LogPass, list[Shape]]:
    """Of a step that writes `text` as its log, and the shapes that it ran, of 2, 3, 3, 4 ..."""
    ran: list[Shape] = []

    def run(shape: Shape) -> None:
        ran.append(shape)
        if text is not None:
            Path(os.environ["CUDNN_FRONTEND_LOG_FILE"]).write_text(text)

    cell = SimpleNamespace(
        workload="net",
        input_shape=(2,),
        shapes=lambda: SimpleNamespace(stream=lambda _: iter([(2,), (3,), (3,), *[(4,)] * 2000])),
    )
    step = TimedStep(prepare=lambda shape: shape, run=run)
    choice = SimpleNamespace(kernels_hash="kernels")
    for name, value in {
        "apply_request": lambda *_: None,
        "find_device": lambda: None,
        "context_of": lambda *_: SimpleNamespace(execution="eager"),
        "find_workload": lambda _: SimpleNamespace(step=lambda _: step),
        "read_choice": lambda *_: (choice, []),
    }.items():
        monkeypatch.setattr(logging, name, value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 10**9))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: version)
    monkeypatch.setenv("CUDNN_FRONTEND_LOG_FILE", "")
    monkeypatch.setenv("CUDNN_FRONTEND_LOG_INFO", "")
    request: Any = SimpleNamespace(cell=cell, config=SimpleNamespace(errata=errata))
    found = run_log_pass(request, shapes)
    assert os.environ["CUDNN_FRONTEND_LOG_INFO"] == "1"
    return found, ran


def test_a_log_pass_adds_up_what_was_searched_and_what_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, ran = log_pass(monkeypatch)
    assert ran == [(2,)] and found.kernels_hash == "kernels" and found.calls == []
    assert [choice.engine for choice in found.logged_choices or ()] == [
        *("ConvFwd_eng1", "ConvBwdData_eng3"),
    ]
    assert (found.logged_searches, found.logged_workspace_bytes) == (1, 700)
    assert (found.logged_largest_workspace_bytes, found.logged_plans_dropped) == (9000, 0)
    assert found.plans == [
        [TimedPlan(engine="ConvFwd_eng1", ms=0.25), TimedPlan(engine="ConvFwd_eng2", ms=0.5)],
        [TimedPlan(engine="ConvBwdData_eng3", ms=None)],
    ]
    assert log_pass(monkeypatch, free=8999)[0].logged_plans_dropped == 1
    nothing, _ = log_pass(monkeypatch, text=None)
    assert (nothing.logged_choices, nothing.logged_workspace_bytes) == ([], None)
    assert nothing.logged_largest_workspace_bytes is None


@pytest.mark.parametrize(("shapes", "ran"), [(1, [2]), (2, [2, 3]), (3, [2, 3, 4]), (9, [2, 3, 4])])
def test_a_log_pass_runs_so_many_distinct_shapes_of_a_regime(
    monkeypatch: pytest.MonkeyPatch, shapes: int, ran: list[int]
) -> None:
    monkeypatch.setattr(logging, "_calls", lambda step, met, choices: [len(met), len(choices)])
    found, seen = log_pass(monkeypatch, shapes=shapes)
    assert seen == [(size,) for size in ran]
    assert (found.calls, found.kernels_hash) == ([len(ran), 2], None)


def test_a_banned_plan_that_runs_is_named_with_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "ConvFwd:1@91900, ConvBwdData:4"
    found, _ = log_pass(monkeypatch, errata=rules)
    assert found.banned_ran == ["ConvFwd_eng1, which ConvFwd:1@91900 bans"]
    assert log_pass(monkeypatch, errata=rules, version=91901)[0].banned_ran == []
    assert log_pass(monkeypatch, errata=rules, version=None)[0].banned_ran == []
    assert log_pass(monkeypatch)[0].banned_ran == []
