"""The lines of an answer of `sweep advise`."""

from cudnn_sweep.orchestrator.steps.advice_text import Answered, answer_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions


def test_an_answer_says_what_was_wrong_with_the_numbers() -> None:
    answered = Answered(
        options=AdviseOptions(workload="nets.py:Net", input=("1x3x8x8",)),
        sweep_id="s",
        times_ms=[2.0, 3.0],
        warnings=["not_finite"],
    )
    answer = answer_of(answered)
    (label,) = (label for label, text in answer.facts if "not_finite" in text)
    assert label == "Warning"
    assert answer.values["warnings"] == ["not_finite"]
