"""docs/rules.py, which learns the rule for machines without a GPU: on made-up jobs, whose truth is known."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from cudnn_sweep.analysis.answering.rules import Fork, Leaf
from tests.analysis.answering.test_rules import JOB
from tests.conftest import ROOT

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    spec = spec_from_file_location("rules_script", ROOT / "docs" / "rules.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["rules_script"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["rules_script"]


def _case(script: Any, network: str, number: int, ratio: float, **changes: Any) -> Any:
    facts = replace(JOB, workload=network, **changes)
    return script.Case(
        network=network,
        cell_id=f"{network}-{number}",
        gpu="NVIDIA Z",
        facts=facts,
        row=tuple(script._scaled(*each) for each in facts.features().items()),
        baseline_s=10.0,
        candidate_s=10.0 * ratio,
    )


@pytest.fixture
def known(script: Any) -> list[Any]:
    """On is good from 1,000 steps on, in channels_last alone."""
    return [
        _case(
            script,
            f"net{network}",
            number,
            0.6 if steps > 1000 and layout == "channels_last" else 1.5,
            steps=steps,
            layout=layout,
        )
        for network in range(6)
        for number, layout in enumerate(("contiguous", "channels_last"))
        for steps in (100, 1000, 10_000, 100_000)
    ]


def test_a_tree_finds_what_decides_and_says_it_in_steps_and_words(
    script: Any, known: list[Any]
) -> None:
    lines = list(script.rule_lines(script.learned(script.Jobs(known, script.a_network_each))))
    assert [line.strip() for line in lines if line.strip().startswith("on ")] == [
        "on (on takes 0.6 times as long)"
    ]
    assert {"not channels_last", "channels_last"} <= {line.strip() for line in lines}
    assert any("steps > 3,162" in line for line in lines), "the geometric mean of 1,000 and 10,000"


def test_a_network_is_judged_by_a_tree_that_saw_nothing_of_it(
    script: Any, known: list[Any]
) -> None:
    odd = [
        _case(script, "odd", number, 0.5, steps=steps, direction="inference")
        for number in range(2)
        for steps in (100, 1000)
    ]
    jobs = script.Jobs([*known, *odd], script.a_network_each)
    judged = list(jobs.judged("odd", 2))
    assert [case for case, _ in judged] == odd
    assert not any(on for _, on in judged), "only its own jobs say that inference is faster with on"


def test_time_lost_is_against_the_better_setting_and_small_differences_have_no_sign(
    script: Any,
) -> None:
    judged = [
        (_case(script, "a", 0, 2.0), True),
        (_case(script, "b", 0, 0.5), True),
        (_case(script, "c", 0, 1.01), True),
    ]
    scored = script.score("on", judged)
    assert scored.lost == pytest.approx((1.0 + 0.0 + 0.01) / 3)
    assert (scored.right, scored.of_jobs) == (0.5, 2)


@pytest.mark.parametrize(
    ("right", "lost", "shipped"),
    [
        (0.9, 0.02, "the tree"),
        (0.9, 0.09, "always off"),
        (0.7, 0.02, "always off"),
    ],
)
def test_a_tree_that_does_not_beat_each_rule_of_one_line_by_both_is_not_shipped(
    script: Any, right: float, lost: float, shipped: str
) -> None:
    others = {"always on": (0.2, 2.0), "always off": (0.8, 0.08)}
    others["fixed sizes: on, else off"] = (0.3, 0.3)
    scored = {
        name: script.Score(rule=name, right=share, of_jobs=9, lost=time)
        for name, (share, time) in {"the tree": (right, lost), **others}.items()
    }
    assert script.best_name(scored) == shipped


def test_each_rule_of_one_line_can_be_shipped(script: Any, known: list[Any]) -> None:
    fixed = script.on_if_fixed([*known, _case(script, "fresh", 0, 9.0, shapes=None)])
    assert isinstance(fixed, Fork) and isinstance(fixed.above, Leaf)
    assert (fixed.above.setting, fixed.above.ratio) == ("off", 9.0)
    mean = script.leaf("off", known)
    logs = [case.log_ratio for case in known]
    assert mean.ratio == pytest.approx(math.exp(sum(logs) / len(logs)), rel=1e-3)
