"""What a gate and a bisection say, of verdicts and environments that are made up."""

import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cudnn_sweep.orchestrator.gating.answer import NAMED, Gate
from cudnn_sweep.orchestrator.gating.bisect import Bisection, Installation, _bisected, _packages
from cudnn_sweep.orchestrator.gating.sides import Side
from cudnn_sweep.orchestrator.planning.session import CodeLocation
from cudnn_sweep.orchestrator.steps.step_options import BisectOptions
from cudnn_sweep.workloads.hardware.environment import Environment
from tests.orchestrator.blank import blank

A, B, C = "a.py", "b.py", "c.py"


def row(**changes: Any) -> Any:
    usual = {"ratio": 1.1, "ratio_low": 1.08, "ratio_high": 1.12, "blocks": 4}
    times = {"baseline_ms": 10.0, "candidate_ms": 11.0}
    device = {"device_ratio": None, "device_ratio_low": None, "device_ratio_high": None}
    return SimpleNamespace(**usual | times | device | changes)


def gate(state: Any = "slower", **changes: Any) -> Gate:
    usual: dict[str, Any] = {"workload": "net", "base": "v1", "head": "v2", "gpu": "H200"}
    return Gate(**usual | {"threshold": 0.01, "row": row(), "state": state} | changes)


UNDECIDED: Any = "cannot tell yet"
TAKES = "a step takes 1.100 of the time (1.080 to 1.120)."


@pytest.mark.parametrize(
    ("of", "headline", "state"),
    [
        (gate(), f"Slower by more than 1%: {TAKES}", "worse"),
        (gate("not slower"), f"Not slower by more than 1%: {TAKES}", "fine"),
        (gate("faster"), f"Faster: {TAKES}", "fine"),
        (gate(UNDECIDED), f"Cannot tell yet: {TAKES}", "cannot tell"),
        (gate(UNDECIDED, passes_undecided=True), f"Cannot tell yet: {TAKES}", "excused"),
        (gate(passes_undecided=True), f"Slower by more than 1%: {TAKES}", "worse"),
        (gate("broken"), "Broken: net does not run at v2.", "does not run"),
        (
            gate(UNDECIDED, row=None, messages={"v1": "odd"}),
            "Cannot tell: net does not run at v1.",
            "cannot tell",
        ),
        (
            gate(UNDECIDED, row=None, messages={"v2": "odd"}),
            "Cannot tell yet: net has too few blocks with both sides.",
            "cannot tell",
        ),
        (
            gate(UNDECIDED, row=row(ratio=None)),
            "Cannot tell yet: net has too few blocks with both sides.",
            "cannot tell",
        ),
        (
            gate(UNDECIDED, changed=(A, B), passes_undecided=True),
            "Cannot tell: files changed while they were measured: a.py, b.py.",
            "cannot tell",
        ),
    ],
)
def test_a_gate_has_a_headline_and_a_state(of: Gate, headline: str, state: str) -> None:
    answer = of.answer()
    assert (answer.headline, answer.state) == (headline, state)
    assert len(answer.commands) == (of.row is not None)
    has_ratio = of.row is not None and of.row.ratio is not None
    assert len(answer.families) == has_ratio
    if has_ratio:
        assert answer.families[0].samples == [({}, 1.1)]


PAIR: Any = SimpleNamespace(kind="base", ratio=1.001, ratio_low=0.99, ratio_high=1.01, pairs=3)
KERNEL: Any = SimpleNamespace(kernel="winograd", baseline=2, candidate=0)


@pytest.mark.parametrize(
    ("of", "facts"),
    [
        (gate(row=None), []),
        (gate(row=row(baseline_ms=None)), []),
        (gate(), [("A step", "10.0 ms at base, 11.0 ms at head, in 4 blocks on H200")]),
        (
            gate(row=row(blocks=1, device_ratio=1.2, device_ratio_low=1.1, device_ratio_high=1.3)),
            [
                ("A step", "10.0 ms at base, 11.0 ms at head, in 1 block on H200"),
                ("GPU time", "1.200 of the time at base (1.100 to 1.300)"),
            ],
        ),
        (
            gate(row=None, notes=("n",), different={"torch": ("1", "2")}, messages={"v1": "m"}),
            [
                ("Sides", "n"),
                ("Also differs", "torch: 1 at base, 2 at head"),
                ("Why", "v1: m"),
            ],
        ),
        (
            gate(row=None, alone=[PAIR]),
            [("A/A", "base against itself 1.001 (0.990 to 1.010), 3 pairs")],
        ),
        (gate(row=None, false_alarms=0.01), []),
        (gate(row=None, least_found=0.02), []),
        (
            gate(row=None, false_alarms=0.01, least_found=0.02),
            [
                (
                    "This gate",
                    "would report 1% of changes without effect as slower, and would find four of five slowdowns of 2%",
                )
            ],
        ),
        (
            gate(row=None, false_alarms=0.0, least_found=1.0),
            [
                (
                    "This gate",
                    "would report under 0.1% of changes without effect as slower, and would find four of five slowdowns of over 100%",
                )
            ],
        ),
        (gate(row=None, kernels=[KERNEL]), [("Kernels", "winograd (2 → 0)")]),
    ],
)
def test_facts_of_a_gate_are_what_it_has(of: Gate, facts: list[tuple[str, str]]) -> None:
    assert list(of.facts()) == facts


def test_a_gate_names_a_few_kernels_and_how_many_more_there_are() -> None:
    (_, text) = next(iter(gate(row=None, kernels=[KERNEL] * (NAMED + 2)).facts()))
    assert text.count("winograd") == NAMED and "2 more" in text


def environment(name: str, torch: str = "2.9", **packages: str) -> Installation:
    software: Any = blank(Environment, torch=torch, cudnn=91900 if name != "a" else None)
    side: Any = Side(label=name, code=CodeLocation(folder=None))
    return Installation(side=side, software=software, packages=packages)


FOUR = [environment(name) for name in "abcd"]


def bisection(states: dict[int, Gate], good: int, first: int | None) -> Bisection:
    return Bisection(environments=FOUR, answers=states, good=good, first=first)


@pytest.mark.parametrize(
    ("of", "headline"),
    [
        (bisection({3: gate("not slower", head="d")}, 3, None), "d: Not slower by more than 1%: "),
        (
            bisection({3: gate(UNDECIDED, head="d")}, 0, None),
            f"d: Cannot tell yet: {TAKES} The same",
        ),
        (
            bisection({3: gate(), 2: gate("not slower")}, 2, 3),
            "d (torch 2.9, cuDNN 9.19.0) is the first environment that is slower: a step takes 1.100 (1.080 to 1.120) of the time",
        ),
        (
            bisection({3: gate(), 2: gate(UNDECIDED)}, 1, 3),
            "d (torch 2.9, cuDNN 9.19.0) or an undecided environment (c) is the first environment that is slower",
        ),
        (
            bisection({3: gate(), 1: gate("broken", row=None)}, 0, 1),
            "b (torch 2.9, cuDNN 9.19.0) is the first environment where the step does not run: Broken: net does",
        ),
        (
            bisection({3: gate(), 1: gate(row=row(ratio=None))}, 0, 1),
            "b (torch 2.9, cuDNN 9.19.0) is the first environment where the step does not run: Cannot tell yet",
        ),
    ],
)
def test_a_bisection_names_the_first_environment_that_is_slower(
    of: Bisection, headline: str
) -> None:
    assert of.headline.startswith(headline)
    rows = {name: text for name, text in of.answer().facts if name != "Changed"}
    assert rows["a"] == "torch 2.9: Baseline."
    measured = [name for name, text in rows.items() if "Not measured." not in text]
    assert measured == ["a", *("abcd"[at] for at in sorted(of.answers))]


def test_what_differs_between_the_last_good_and_the_first_slow_environment_is_named() -> None:
    before, since = (
        environment("b", Mine="1", gone="2"),
        environment("c", "2.10", Mine="1", new="3"),
    )
    found = Bisection(environments=[before, since], answers={1: gate()}, good=0, first=1)
    assert found.changed["gone"] == ("2", "none") and found.changed["new"] == ("none", "3")
    assert "Mine" not in found.changed
    alone = Bisection(environments=[before, since], answers={1: gate()}, good=1, first=None)
    assert alone.changed == {}
    assert "Changed" not in [name for name, _ in alone.answer().facts]


@pytest.mark.parametrize(
    ("states", "measured", "good", "first"),
    [
        ("----o", [4], 4, None),
        ("----?", [4, 3], 3, None),
        ("ooo-x", [4, 2, 3], 3, 4),
        ("-xx-x", [4, 2, 1], 0, 1),
        ("-o?-x", [4, 2, 1, 3], 3, 4),
        ("-oxxx", [4, 2, 1], 1, 2),
        ("-obxx", [4, 2, 1], 1, 2),
        ("-o?xx", [4, 2, 1], 1, 3),
    ],
)
def test_a_bisection_measures_what_lies_nearest_to_the_middle(
    states: str, measured: Sequence[int], good: int, first: int | None
) -> None:
    """o: not slower, x: slower, b: broken, ?: undecided."""
    names: dict[str, Any] = {"x": "slower", "b": "broken", "?": UNDECIDED}
    environments = [environment(name) for name in "abcde"]
    took: list[tuple[int, float]] = []

    def measure(newer: Installation, options: BisectOptions) -> Gate:
        at = "abcde".index(newer.side.label)
        took.append((at, options.min_effect))
        return gate(names.get(states[at], "not slower"), row=row(ratio=1.21), head=newer.side.label)

    options = BisectOptions(workload="net", pythons="a,b,c,d,e")
    found = _bisected(options, environments, measure, Mock())
    assert [at for at, _ in took][: len(measured)] == list(measured)
    assert (found.good, found.first) == (good, first)
    effects = [effect for _, effect in took]
    assert effects[0] == options.min_effect
    if states[4] == "x" and len(effects) > 1:
        assert effects[1:] == pytest.approx([0.1] * len(effects[1:])), "half of the slowdown"


def test_packages_of_a_python_that_does_not_answer_are_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    assert _packages(None) == {} == _packages(tmp_path / "python")
    for printed, packages in (('{"torch": "2.9"}', {"torch": "2.9"}), ("no JSON", {})):
        done = SimpleNamespace(stdout=printed)
        monkeypatch.setattr(subprocess, "run", lambda *_, done=done, **__: done)
        assert _packages(tmp_path) == packages
