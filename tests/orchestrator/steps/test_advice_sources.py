"""Where advice comes from, which stored sweeps are of a step, and which values are raced, of made-up rows."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from cudnn_sweep.analysis.answers.answer import Answer
from cudnn_sweep.analysis.results.advice import UNDECIDED, Advice, Freeze, RankPrediction
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.steps import advising, levers, one_step
from cudnn_sweep.orchestrator.steps.advice_text import Answered
from cudnn_sweep.orchestrator.steps.advising import (
    _from_reference,
    _stored,
    _with_most_blocks,
    advise,
    answered_of,
    kept_choice,
)
from cudnn_sweep.orchestrator.steps.levers import name_of, offered
from cudnn_sweep.orchestrator.steps.one_step import (
    LEAST_S,
    LEAST_TIMEOUT_S,
    START_AND_END_S,
    blocks_minutes,
    check_step,
    plan_step,
    stored_sweeps,
)
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.suite import CellAxes, SuiteSpec

OPTIONS = AdviseOptions(workload="resnet50", levers="benchmark")


def row(**changes: Any) -> Any:
    usual = {"asked": True, "blocks": 3, "in_turns": True, "advice": "on", "cell_id": "a"}
    named = {"workload": "resnet50", "direction": "training", "regime": "fixed", "gpu": "H200"}
    more = {"precision": "tf32", "layout": "contiguous", "input_shape": "32x3x224x224"}
    return SimpleNamespace(**usual | named | more | {"other_settings": ""} | changes)


def test_the_row_with_most_blocks_of_the_start_that_is_asked_about_counts() -> None:
    few, most = row(blocks=2), row(blocks=5)
    assert _with_most_blocks([few, most, row(blocks=9, asked=False)]) is most
    assert _with_most_blocks([row(asked=False)]) is None


@pytest.mark.parametrize(
    ("rows", "freezes", "is_kept"),
    [
        ([row()], ["r"], True),
        ([row()], ["other"], False),
        ([row(asked=False)], ["r"], False),
        ([], [], False),
    ],
)
def test_a_kept_choice_needs_advice_and_its_own_measurement(
    monkeypatch: pytest.MonkeyPatch, rows: list[Any], freezes: list[str], is_kept: bool
) -> None:
    found = [SimpleNamespace(errata=errata) for errata in ["wrong", *freezes]]
    monkeypatch.setattr(Advice, "of", lambda *_, **__: rows)
    monkeypatch.setattr(Freeze, "of", lambda *_: found)
    kept = kept_choice(OPTIONS, Mock(), "s", "kept.json", "r")
    assert (kept is not None) is is_kept
    if kept is not None:
        assert kept.measured is found[1]


@pytest.mark.parametrize(
    ("others", "place"),
    [
        ([row(asked=False)], 0),
        ([row(asked=False, in_turns=False), row(asked=False)], 1),
        ([row(asked=False, in_turns=False)], None),
    ],
)
def test_the_other_start_is_shown_if_it_was_measured_in_the_same_way(
    monkeypatch: pytest.MonkeyPatch, others: list[Any], place: int | None
) -> None:
    monkeypatch.setattr(advising, "open_database", MagicMock())
    monkeypatch.setattr(advising, "kernel_changes", lambda *_: [])
    monkeypatch.setattr(advising, "config_trials", lambda *_: [])
    monkeypatch.setattr(RankPrediction, "of", lambda *_, ranks: [ranks])
    most = row()
    monkeypatch.setattr(Advice, "of", lambda *_, **__: [most, *others])
    found = answered_of(OPTIONS, Mock(), "s")
    assert found.advice is most
    assert found.other is (None if place is None else others[place])
    assert found.ranks == []
    for asked in (replace(OPTIONS, ranks=8), replace(OPTIONS, measure_ranks=8)):
        ranks: Any = answered_of(asked, Mock(), "s").ranks
        assert ranks == [8]
    monkeypatch.setattr(Advice, "of", lambda *_, **__: others)
    assert answered_of(OPTIONS, Mock(), "s").other is None


def test_a_stored_race_answers_only_where_a_race_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advising, "open_store", Mock())
    monkeypatch.setattr(advising, "stored_race", lambda _: "race")
    monkeypatch.setattr(advising, "stored_sweeps", lambda *_, **__: iter(["newest", "older"]))
    monkeypatch.setattr(advising, "answered_of", lambda *of: of[-1])
    found: Any = _stored(AdviseOptions(workload="resnet50"))
    assert found == "race"
    found = _stored(OPTIONS)
    assert found == "newest"
    monkeypatch.setattr(advising, "stored_sweeps", lambda *_, **__: iter(()))
    assert _stored(OPTIONS) is None


@pytest.mark.parametrize(
    ("device", "state", "expected", "is_decided"),
    [
        ("cuda", "fine", "fine", True),
        ("cuda", "cannot tell", "cannot tell", False),
        ("cpu", "cannot tell", "needs a GPU", False),
        ("cpu", "does not run", "does not run", True),
    ],
)
def test_an_undecided_step_on_a_cpu_needs_a_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, state: Any, expected: str, is_decided: bool
) -> None:
    ran = Mock()
    for name, value in {
        "suite_to_compare": lambda *_: None,
        "plan_step": lambda *_, **__: None,
        "run_sweep": lambda *_: ran,
        "_stored": lambda *_, **__: None,
        "answered_of": lambda *_: None,
        "answer_of": lambda _: Answer(kind="advise", subject="", state=state, headline=""),
        "say": lambda *_: None,
    }.items():
        monkeypatch.setattr(advising, name, value)
    environment = SimpleNamespace(device=device, gpu="H200")
    place: Any = SimpleNamespace(look=lambda _: SimpleNamespace(environment=environment))
    assert advise(OPTIONS, Mock(), place).state == expected
    ran.check_not_stopped.assert_called_once_with(is_decided=is_decided)


@pytest.mark.parametrize(
    ("rows", "changes", "state", "titles"),
    [
        ([row()], {}, "fine", ["H200, 32x3x224x224: "]),
        ([row(), row(cell_id="b", gpu="A100")], {}, "fine", ["H200, ", "A100, "]),
        ([row(advice=UNDECIDED)], {}, "cannot tell", ["H200, "]),
        ([row(advice=UNDECIDED), row(cell_id="b")], {}, "fine", ["H200, ", "H200, "]),
        ([row(), row(precision="bf16")], {"precision": "bf16"}, "fine", ["H200, "]),
        ([row(), row(other_settings="layout=weights")], {}, "fine", ["H200, "]),
    ],
)
def test_installed_results_answer_for_each_gpu_and_input_with_the_options_settings(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[Any],
    changes: dict[str, Any],
    state: str,
    titles: list[str],
) -> None:
    monkeypatch.setattr(Advice, "of", lambda *_, **__: rows)
    monkeypatch.setattr(advising, "unusual_in", lambda text: text)
    monkeypatch.setattr(Answered, "headline", "headline")
    monkeypatch.setattr(Answered, "facts", lambda _: iter(()))
    monkeypatch.setattr(Answered, "tables", lambda _: iter(()))
    answer = _from_reference(AdviseOptions(workload="resnet50", reference=True, **changes))
    assert answer.state == state
    assert len(answer.sections) == len(titles)
    for section, title in zip(answer.sections, titles, strict=True):
        assert section.title.startswith(title)


def test_the_other_start_of_installed_results_is_of_the_same_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = row(asked=False)
    rows = [row(asked=False, cell_id="b"), row(), other]
    seen: list[Any] = []
    monkeypatch.setattr(Advice, "of", lambda *_, **__: rows)
    monkeypatch.setattr(
        advising,
        "Answered",
        lambda **of: seen.append(of) or MagicMock(headline=""),  # type: ignore[func-returns-value]
    )
    _from_reference(OPTIONS)
    assert [of["other"] for of in seen] == [other]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": "alexnet"}, "found no alexnet .*; there are resnet50$"),
        ({"precision": "bf16"}, "there are training fixed tf32 contiguous$"),
    ],
)
def test_what_is_not_installed_is_refused_with_what_is(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(Advice, "of", lambda *_, **__: [row()])
    usual: dict[str, Any] = {"workload": "resnet50", "reference": True}
    with pytest.raises(SpecError, match=message):
        _from_reference(AdviseOptions(**usual | changes))


@pytest.mark.parametrize(("on_gpu", "sweeps"), [(False, ["b", "d", "a"]), (True, ["b", "d"])])
def test_sweeps_on_a_gpu_come_before_those_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, on_gpu: bool, sweeps: list[str]
) -> None:
    cells = [
        SimpleNamespace(sweep_id=name, device=device)
        for name, device in (("a", "cpu"), ("b", "cuda"), ("c", "cuda"), ("d", "cuda"))
    ]
    monkeypatch.setattr(one_step, "stored_cells", lambda *_: cells)
    monkeypatch.setattr(one_step, "is_step", lambda _, cell: cell.sweep_id != "c")
    assert list(stored_sweeps(Mock(), OPTIONS, "advise", on_gpu=on_gpu)) == sweeps


def survey(**facts: Any) -> Any:
    usual = {"fault": None, "fails": False, "is_model": False}
    environment = SimpleNamespace(device="cuda")
    named = {"resnet50": SimpleNamespace(**usual | facts)}
    return SimpleNamespace(workloads=named, environment=environment)


@pytest.mark.parametrize(
    ("facts", "inputs", "error", "message"),
    [
        ({}, (), None, ""),
        ({"is_model": True}, ("2x3x8x8",), None, ""),
        ({"is_model": True}, (), SpecError, "is a model, so it needs --input"),
        ({"fault": "no such name"}, (), SpecError, "no such name"),
        ({"fault": "ImportError", "fails": True}, (), ModelError, "ImportError"),
    ],
)
def test_a_workload_that_cannot_be_used_is_refused(
    facts: dict[str, Any], inputs: tuple[str, ...], error: type[Exception] | None, message: str
) -> None:
    options = AdviseOptions(workload="resnet50", input=inputs)
    if error is None:
        check_step(options, survey(**facts))
        return
    with pytest.raises(SpecError, match=message) as raised:
        check_step(options, survey(**facts))
    assert raised.type is error


@pytest.mark.parametrize(
    ("left_s", "minutes"),
    [
        (600.0 + START_AND_END_S, 10.0),
        (LEAST_S + START_AND_END_S, LEAST_S / 60),
        (0.0, LEAST_S / 60),
        (-60.0, LEAST_S / 60),
    ],
)
def test_blocks_have_what_a_start_and_an_end_leave(left_s: float, minutes: float) -> None:
    assert blocks_minutes(left_s) == minutes


@pytest.mark.parametrize(
    ("limits", "timeout_s"),
    [
        ({"left_s": 1000.0}, 500.0),
        ({"left_s": 1000.0, "whole_s": 600.0}, 300.0),
        ({"left_s": 1.0}, LEAST_TIMEOUT_S),
        ({}, 90.0),
    ],
)
def test_a_process_may_take_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], timeout_s: float
) -> None:
    requests: list[Any] = []
    monkeypatch.setattr(one_step, "planned_on", lambda _, request: requests.append(request))
    monkeypatch.setattr(one_step, "monotonic", lambda: OPTIONS.began)
    suite = SuiteSpec(cells=[CellAxes(workload="noop")], configs=[Config()])
    for sweep_id in (None, "race-1"):
        plan_step(OPTIONS, suite, survey(), suite_name="advise", sweep_id=sweep_id, **limits)
    new, named = requests
    assert (new.options.new, named.options.new) == (True, False)
    assert named.options.sweep_id == "race-1"
    assert new.suite.measure.timeout_s == timeout_s
    assert new.codes == {}


def test_a_config_is_named_by_its_values_and_benchmark_by_its_name() -> None:
    assert name_of(()) == "as it is"
    assert name_of((("benchmark", "true"), ("layout", "channels_last"))) == (
        "benchmark + channels_last"
    )


@pytest.mark.parametrize(
    ("names", "dimensions", "allow", "values"),
    [
        ("layout", 4, None, {"layout"}),
        ("layout,benchmark", 3, None, {"benchmark"}),
        ("benchmark", 2, "bf16", {"benchmark", "precision"}),
    ],
)
def test_a_layout_is_offered_to_images_and_a_precision_if_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
    names: str,
    dimensions: int,
    allow: str | None,
    values: set[str],
) -> None:
    monkeypatch.setattr(levers, "execution_fault", lambda *_, **__: None)
    cell: Any = SimpleNamespace(workload="resnet50", input_shape=(2,) * dimensions)
    more = ",precision" if allow else ""
    options = AdviseOptions(workload="resnet50", levers=names + more, allow=allow)
    found, _ = offered(options, partial(levers.fault_of, cell=cell, machine=MagicMock()))
    assert {lever for lever, _ in found} == values
