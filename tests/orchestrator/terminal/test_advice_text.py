"""The lines of an answer of `sweep advise`."""

from cudnn_sweep.orchestrator.steps.advising import as_json
from cudnn_sweep.orchestrator.terminal.advice_text import Answered, advice_lines
from tests.goldens import kept
from tests.goldens.advised import advised


def test_each_kind_of_answer_reads_as_kept() -> None:
    assert kept.differences("reports/advised.txt", advised()) == [], "see make goldens"


def test_an_answer_says_what_was_wrong_with_the_numbers() -> None:
    answered = Answered(
        sweep_id="s",
        advice=None,
        other=None,
        kernels=[],
        ranks=[],
        times_ms=[2.0, 3.0],
        warnings=["not_finite"],
        workload="nets.py:Net",
        program="sweep",
        command="sweep advise nets.py:Net --input 1x3x8x8",
        where=[],
        input=None,
    )
    (line,) = (line for line in advice_lines(answered) if "not_finite" in line)
    assert line.split()[0] == "Warning"
    assert as_json(answered)["warnings"] == ["not_finite"]
