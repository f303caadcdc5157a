"""What the options of a step mean together, and when a command opens the results."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import typer

from cudnn_sweep.analysis.answers.answer import Answer
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.running import run_sweep
from cudnn_sweep.orchestrator.steps.sequence import answer_step
from cudnn_sweep.orchestrator.steps.step_options import (
    AdviseOptions,
    FreezeOptions,
    GateOptions,
    _read,
)


def advised(**changes: Any) -> AdviseOptions:
    return AdviseOptions(**{"workload": "nets.py:Net"} | changes)


@pytest.mark.parametrize(
    ("changes", "races", "minutes", "measures_nothing"),
    [
        ({}, True, 20.0, False),
        ({"levers": "layout"}, True, 20.0, False),
        ({"levers": "benchmark"}, False, 3.0, False),
        ({"levers": "benchmark", "allow": "bf16"}, True, 20.0, False),
        ({"freeze": "f.json"}, False, 3.0, False),
        ({"ranks": 8}, False, 3.0, False),
        ({"measure_ranks": 8, "allow": "bf16"}, False, 3.0, False),
        ({"reference": True}, False, 3.0, True),
        ({"from_store": True}, True, 20.0, True),
        ({"minutes": 7.0}, True, 7.0, False),
        ({"levers": "benchmark", "minutes": 7.0}, False, 7.0, False),
    ],
)
def test_levers_are_raced_unless_the_question_is_about_benchmark(
    changes: dict[str, Any], races: bool, minutes: float, measures_nothing: bool
) -> None:
    options = advised(**changes)
    assert (options.races, options.limit_minutes) == (races, minutes)
    assert options.measures_nothing is measures_nothing


def test_a_job_has_the_options_of_its_length_and_ten_thousand_steps_otherwise() -> None:
    plain, other = advised().job, advised(steps=5, hours=2.0, state="warm", runs=3).job
    assert (plain.steps, plain.hours, plain.state, plain.runs) == (10_000, None, "container", 1)
    assert (other.steps, other.hours, other.state, other.runs) == (5, 2.0, "warm", 3)
    assert advised(memory_limit=4.0).job.memory_limit_gib == 4.0


@pytest.mark.parametrize(
    ("workload", "output", "file"),
    [
        ("nets.py:Net", None, "Net.json"),
        ("torchvision.models:resnet50", None, "resnet50.json"),
        ("resnet50", None, "resnet50.json"),
        ("nets.py:Outer.Net", None, "Net.json"),
        ("nets.py:Net", "kept.json", "kept.json"),
    ],
)
def test_a_choice_is_kept_in_a_file_of_the_models_name(
    workload: str, output: str | None, file: str
) -> None:
    options = FreezeOptions(workload=workload, output=output, program="sweep")
    assert str(options.file) == file
    assert options.again == f"sweep advise {workload} --freeze {file} --from-store"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("width=4", 4),
        ("name=two words", "two words"),
        ("sizes=[1, 2]", [1, 2]),
        ("flag=true", True),
        ("none=null", None),
        ("empty=", ""),
        ("equal=a=b", "a=b"),
    ],
)
def test_an_argument_is_json_or_else_a_text(text: str, value: object) -> None:
    name = text.partition("=")[0]
    assert _read(text) == (name, value)
    assert advised(argument=(text,)).arguments == {name: value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width", "found 'width', allowed: NAME=VALUE"),
        ("a b=1", "found 'a b=1', allowed: NAME=VALUE"),
        ("width=NaN", "found 'width=NaN', allowed: finite numbers"),
        ("deep=" + "[" * 100_000, f"found 'deep={'[' * 55}', allowed: finite numbers"),
    ],
)
def test_an_argument_that_no_suite_can_have_is_refused_in_few_words(
    text: str, message: str
) -> None:
    with pytest.raises(typer.BadParameter) as raised:
        _read(text)
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    ("options", "opens"),
    [
        (advised(results="r"), ["r"]),
        (advised(results="r", from_store=True), []),
        (advised(reference=True), []),
        (GateOptions(base=".", head=".", workload="net", results="r"), ["r"]),
    ],
)
def test_results_are_opened_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, options: Any, opens: list[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(run_sweep, "open_results", lambda location, _: opened.append(location))

    def measure(_: object, console: Any, place: Any, *more: object) -> Answer:
        assert (place, more) == ("place", ("more",))
        return Answer(kind="advise", subject="net", state="worse", headline="Slower.")

    place: Any = "place"
    out: Any = Mock(file=SimpleNamespace())
    assert answer_step(measure, options, Mock(), place, out, "more") == 1
    assert opened == opens


def test_an_error_of_a_measurement_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_sweep, "open_results", lambda *_: None)

    def measure(*_: object) -> Answer:
        raise SpecError("no such model")

    any_: Any = None
    with pytest.raises(SpecError, match="no such model"):
        answer_step(measure, advised(results="r"), Mock(), any_, Mock())
