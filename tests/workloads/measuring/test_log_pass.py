"""Logs of torch 2.11 with cuDNN 9.19 on an H200: 32x256x56x56, 256 filters 3x3, bfloat16. Lines that
describe tensors were left out.
"""

from pathlib import Path

from cudnn_sweep.workloads.measuring.log_pass import read_log
from cudnn_sweep.workloads.records.measured import LoggedChoice

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
