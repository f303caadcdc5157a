"""What `sweep advise` concludes from advice and a kept choice that are made up, and when it measures."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.analysis.results.advice import DOES_NOT_FIT, FAILS, NO_DIFFERENCE, UNDECIDED
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.steps import advising
from cudnn_sweep.orchestrator.steps.advice_text import (
    KERNELS_SHOWN,
    NAME_SHOWN,
    Answered,
    Kept,
)
from cudnn_sweep.orchestrator.steps.advising import advise
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.workloads.errors import TRY

NET = AdviseOptions(workload="nets.py:Net", input=("2x3x8x8",), program="sweep")


def row(advice: str = "on", **of: Any) -> Any:
    usual: dict[str, Any] = {
        "advice": advice,
        "setting": advice if advice in ("on", "off") else "off",
        "is_for_candidate": advice == "on",
        "ratio": 0.9,
        "step_ratio": 0.9,
        "minutes_needed": None,
        "no_effect_reason": None,
        "baseline_failed": 0,
        "candidate_failed": 0,
        "blocks": 4,
        "start": "container",
        "start_blocks": 3,
        "why": "it saves",
        "launch_bound": False,
        "sure": 0.97,
        "candidate_varies_in": None,
    }
    return SimpleNamespace(**usual | of)


def kept(advice: Any, high: float | None = 0.95, ratio: float = 0.9) -> Kept:
    measured: Any = SimpleNamespace(
        frozen_ratio=ratio, frozen_ratio_low=0.85, frozen_ratio_high=high, blocks=4
    )
    return Kept(file="to/kept.json", advice=advice, measured=measured)


def answered(advice: Any, of_kept: Kept | None = None, **of: Any) -> Answered:
    usual: dict[str, Any] = {"options": NET, "sweep_id": "s", "times_ms": [2.0, 4.0, 3.0]}
    return Answered(**usual | {"advice": advice, "kept": of_kept} | of)


FROZEN = row("frozen", is_for_candidate=True, ratio=0.8)


@pytest.mark.parametrize(
    ("advice", "frozen", "keeps"),
    [
        (row("on", ratio=0.9), FROZEN, True),
        (row("on", ratio=0.8), FROZEN, True),
        (row("on", ratio=0.79), FROZEN, False),
        (row("on", ratio=None), FROZEN, True),
        (row(UNDECIDED, ratio=0.7), FROZEN, True),
        (row(NO_DIFFERENCE, ratio=0.7), row("f", is_for_candidate=True, ratio=1.0), True),
        (row(NO_DIFFERENCE, ratio=0.7), row("f", is_for_candidate=True, ratio=1.01), False),
        (row("off", ratio=1.2), FROZEN, True),
        (row("off", ratio=0.7), FROZEN, False),
        (row("on"), row("off", is_for_candidate=False, ratio=0.8), False),
        (row("on"), row("f", is_for_candidate=True, ratio=None), False),
        (None, FROZEN, False),
        (row("on"), None, False),
    ],
)
def test_a_choice_is_kept_if_it_saves_no_less_than_benchmark(
    advice: Any, frozen: Any, keeps: bool
) -> None:
    of = answered(advice, None if frozen is None else kept(frozen))
    assert of.keeps is keeps
    if keeps:
        assert (of.said, of.setting) == ("frozen", "frozen")
        assert (
            of.headline
            == "Leave benchmark off and use kept.json, which keeps the plans that a search chose."
        )
        assert of.lines[1] == "torch.backends.cudnn.benchmark = False"
    elif advice is not None:
        assert of.setting == advice.setting
        assert bool(of.lines) is (advice.setting == "on")


@pytest.mark.parametrize(
    ("advice", "high", "gains"),
    [
        (row(is_for_candidate=True), 0.95, True),
        (row(is_for_candidate=True), 1.0, False),
        (row(is_for_candidate=True), None, False),
        (row("off", is_for_candidate=False), 0.95, False),
        (row(UNDECIDED, is_for_candidate=False), 0.95, True),
        (row(NO_DIFFERENCE, is_for_candidate=False), 0.95, True),
    ],
)
def test_a_kept_choice_gains_if_its_interval_lies_below_one(
    advice: Any, high: float | None, gains: bool
) -> None:
    assert kept(advice, high).gains is gains


@pytest.mark.parametrize(
    ("of", "state", "headline"),
    [
        (answered(None), "cannot tell", "Undecided: this step was not measured on a GPU."),
        (answered(None, times_ms=[]), "does not run", "Undecided: this step was not measured"),
        (answered(row("on")), "fine", "Turn benchmark on."),
        (answered(row("off")), "fine", "Leave benchmark off."),
        (answered(row("on"), times_ms=[]), "does not run", "Turn benchmark on."),
        (answered(row(UNDECIDED)), "cannot tell", "Undecided: leave benchmark off until more"),
        (
            answered(row(UNDECIDED), kept(row(UNDECIDED, ratio=1.5, is_for_candidate=False))),
            "cannot tell",
            "Undecided. So far, a step with kept.json takes 0.900 of the time of a step with benchmark off.",
        ),
        (
            answered(row(UNDECIDED), kept(row("off", is_for_candidate=False))),
            "cannot tell",
            "Undecided: leave benchmark off until more",
        ),
        (answered(row(DOES_NOT_FIT)), "fine", "Leave benchmark off. The memory"),
        (
            answered(row(DOES_NOT_FIT, blocks=0, baseline_failed=2, candidate_failed=2)),
            "does not run",
            "The job needs too much memory, with benchmark on or off.",
        ),
        (
            answered(row(DOES_NOT_FIT, blocks=0, candidate_failed=2)),
            "fine",
            "Leave benchmark off. The memory does not suffice with benchmark on.",
        ),
        (
            answered(row(DOES_NOT_FIT, blocks=4, baseline_failed=2, candidate_failed=2)),
            "fine",
            "Leave benchmark off. The memory does not suffice with benchmark on.",
        ),
        (
            answered(row(FAILS, setting="on", blocks=0, baseline_failed=1, candidate_failed=1)),
            "does not run",
            "Turn benchmark on. Processes fail with benchmark off.",
        ),
        (answered(row(FAILS)), "fine", "Leave benchmark off. Processes fail with benchmark on."),
    ],
)
def test_a_headline_says_what_to_do_and_a_state_how_it_ends(
    of: Answered, state: str, headline: str
) -> None:
    assert of.state == state
    assert of.headline.startswith(headline)


def test_facts_of_a_cpu_are_its_times_and_where_to_measure() -> None:
    for advice in (None, row(no_effect_reason="no_cuda")):
        facts = dict(answered(advice).facts())
        assert facts["A step"] == "3.00 ms on this CPU (3 processes, 2.00 ms to 4.00 ms)"
        assert "Because" not in facts


@pytest.mark.parametrize(
    ("of", "facts"),
    [
        (
            {},
            [
                "it saves",
                "97.0% sure that benchmark on is faster, from 4 blocks with one process of each config, 3 of",
            ],
        ),
        ({"launch_bound": True, "sure": None}, ["it saves; the loop is CPU-bound"]),
        ({"ratio": None}, ["it saves"]),
        (
            {"ratio": 1.1, "blocks": 1},
            ["it saves", "97.0% sure that benchmark off is faster, from 1 block with"],
        ),
        ({"ratio": 1.0, "sure": 0.99999}, ["it saves", "99.9% sure that benchmark off is faster"]),
        (
            {"sure": None, "candidate_varies_in": ["a", "b", "c", "d"]},
            ["it saves", "processes with benchmark on differ in a, b, c and 1 more"],
        ),
    ],
)
def test_facts_say_why_and_how_sure(of: dict[str, Any], facts: list[str]) -> None:
    found = [text for _, text in answered(None).facts_of(row(**of))]
    assert len(found) == len(facts)
    for text, begins in zip(found, facts, strict=True):
        assert text.startswith(begins)


def test_a_few_kernels_are_named_and_the_others_counted() -> None:
    def kernels(count: int, name: str = "winograd") -> Any:
        of = {"kernel": name, "operation": "conv", "baseline": 2, "candidate": 0}
        return [SimpleNamespace(**of)] * count

    def lines(of: Any) -> list[tuple[str, str]]:
        labels = ("Because", "How sure")
        facts = answered(row(), kernels=of).facts()
        return [(label, text) for label, text in facts if label not in labels]

    assert lines([]) == []
    (only,) = lines(kernels(1))
    assert only == (
        "Kernels",
        "conv: winograd runs 2 times per step with benchmark off, 0 times with benchmark on",
    )
    assert [label for label, _ in lines(kernels(KERNELS_SHOWN))] == ["Kernels", "", ""]
    assert lines(kernels(KERNELS_SHOWN + 2))[-1] == ("", "further kernels that differ: 2")
    for length, shown in (
        (NAME_SHOWN, "x" * NAME_SHOWN),
        (NAME_SHOWN + 1, "x" * NAME_SHOWN + "..."),
    ):
        assert lines(kernels(1, "x" * length))[0][1].startswith(f"conv: {shown} runs 2 times")


@pytest.mark.parametrize(
    ("failures", "facts"),
    [
        ([], [("Why", "nothing was recorded")]),
        ([("error", "odd")], [("Why", "odd")]),
        ([("timeout", "late")], [("Why", "late"), ("Try", "a smaller input, or more time")]),
        ([("timeout", f"late{TRY}this")], [("Why", "late"), ("Try", "this")]),
        ([("error", "a"), ("error", "b"), ("error", "b")], [("Why", "b")]),
    ],
)
def test_why_a_step_fails_is_the_most_frequent_message_with_what_to_try(
    failures: list[tuple[str, str]], facts: list[tuple[str, str]]
) -> None:
    found = list(answered(None, failures=failures).why_it_fails())
    assert [label for label, _ in found] == [label for label, _ in facts]
    for (_, text), (_, begins) in zip(found, facts, strict=True):
        assert text.startswith(begins)


@pytest.mark.parametrize(
    ("of", "names"),
    [
        (answered(None), ["On a machine with a GPU"]),
        (answered(row()), ["Without measuring again"]),
        (answered(row(), kernels=["k"]), ["Which layers", "Without measuring again"]),
        (
            answered(row(), kernels=["k"], options=AdviseOptions(workload="nets.py:Net")),
            ["Without measuring again"],
        ),
        (
            answered(row(), kernels=["k"], options=AdviseOptions(workload="n", input=("2x3",))),
            ["Without measuring again"],
        ),
    ],
)
def test_what_to_type_next_follows_from_what_was_found(of: Answered, names: list[str]) -> None:
    assert [name for name, _ in of.commands()] == names


@pytest.mark.parametrize(
    ("options", "device", "is_stored", "did"),
    [
        ({"reference": True}, "cuda", True, ["reference"]),
        ({"from_store": True}, "cuda", True, ["stored"]),
        ({}, "cuda", True, ["look", "race"]),
        ({}, "cpu", True, ["look", "plan", "stored"]),
        ({}, "cpu", False, ["look", "plan", "run", "answered"]),
        ({"levers": "benchmark"}, "cuda", True, ["look", "plan", "run", "answered"]),
        ({"levers": "benchmark"}, "cpu", True, ["look", "plan", "stored"]),
        ({"ranks": 8}, "cuda", True, ["look", "plan", "run", "answered"]),
    ],
)
def test_advice_is_measured_on_a_gpu_unless_the_store_is_asked(
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    device: str,
    is_stored: bool,
    did: list[str],
) -> None:
    done: list[str] = []

    def note(name: str, value: Any = None) -> Any:
        done.append(name)
        return value

    ran = Mock()
    answer = SimpleNamespace(state="fine")
    for name, value in {
        "_from_reference": lambda _: note("reference", answer),
        "_stored": lambda *_, **__: note("stored", "stored") if is_stored else None,
        "answer_of": lambda _: answer,
        "race": lambda *_: note("race"),
        "suite_to_compare": lambda *_: None,
        "plan_step": lambda *_, **__: note("plan"),
        "run_sweep": lambda *_: note("run", ran),
        "answered_of": lambda *_: note("answered"),
        "say": lambda *_: None,
    }.items():
        monkeypatch.setattr(advising, name, value)
    environment = SimpleNamespace(device=device, gpu="H200")
    machine = SimpleNamespace(environment=environment)
    place: Any = SimpleNamespace(look=lambda _: note("look", machine))
    found: Any = advise(AdviseOptions(workload="n", **options), Mock(), place)
    assert found is answer
    assert done == did


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levers": "layout", "freeze": "f.json"}, "^--levers: allowed only if several levers"),
        ({"allow": "bf16", "ranks": 8}, "^--allow: allowed only if several levers"),
        ({"same_bits": True, "levers": "benchmark"}, "^--same-bits: allowed only if several"),
        (
            {"from_store": True, "results": "r"},
            "^--from-store: found no `sweep advise` run of this step",
        ),
    ],
)
def test_options_of_a_race_and_an_empty_store_are_refused(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(advising, "_stored", lambda *_, **__: None)
    with pytest.raises(SpecError, match=message):
        advise(AdviseOptions(workload="n", **options), Mock(), Mock())
