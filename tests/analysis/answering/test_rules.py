"""The rule for machines without a GPU: what it is asked, what it answers, and that the shipped one is sound."""

from dataclasses import replace
from runpy import run_path

import pytest

from cudnn_sweep.analysis.answering.rules import (
    Facts,
    Fork,
    Leaf,
    LearnedRule,
    learned_rule,
)
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.conftest import make_record
from tests.conftest import ROOT

LEARNING = run_path(str(ROOT / "docs" / "rules.py"))
JOB = Facts(
    workload="nets.py:Net",
    problem=None,
    direction="training",
    input_shape=(8, 3, 64, 64),
    kernel_size=None,
    stride=None,
    groups=None,
    out_channels=None,
    precision="tf32",
    layout="contiguous",
    convolutions=10,
    convolution_flops=20_000_000_000,
    shapes=1,
    steps=1000,
    start="container",
)
OFF, ON, LONG = (
    Leaf(setting="off", ratio=5.0, jobs=10),
    Leaf(setting="on", ratio=0.5, jobs=20),
    Leaf(setting="off", ratio=1.1, jobs=30),
)
RULE = LearnedRule(
    name="made up",
    tree=Fork(
        feature="steps",
        at=100.5,
        below=OFF,
        above=Fork(
            feature="channels_last",
            at=0.5,
            below=Fork(feature="steps", at=5000.5, below=LONG, above=ON),
            above=OFF,
        ),
    ),
    right=0.8,
    of_jobs=50,
    lost=0.1,
    off_right=0.8,
    most_steps=1000,
    networks=4,
    gpu="NVIDIA Z",
)


@pytest.mark.parametrize(
    ("changes", "setting", "conditions"),
    [
        ({"steps": 100}, "off", ["steps ≤ 100"]),
        ({"layout": "channels_last"}, "off", ["steps > 100", "channels_last"]),
        ({"steps": 10**6}, "on", ["steps > 5,000", "not channels_last"]),
        ({}, "off", ["steps > 100", "not channels_last", "steps ≤ 5,000"]),
    ],
)
def test_the_answer_names_the_conditions_that_led_to_it_each_side_once(
    changes: dict[str, object], setting: str, conditions: list[str]
) -> None:
    told = RULE.ask(replace(JOB, **changes))  # type: ignore[arg-type]
    assert (told.setting, told.conditions) == (setting, conditions)


def test_the_text_of_a_rule_has_each_side_of_each_condition() -> None:
    assert list(LEARNING["rule_lines"](RULE.tree)) == [
        "steps ≤ 100",
        "    off (on takes 5 times as long)",
        "steps > 100",
        "    not channels_last",
        "        steps ≤ 5,000",
        "            off (on takes 1.1 times as long)",
        "        steps > 5,000",
        "            on (on takes 0.5 times as long)",
        "    channels_last",
        "        off (on takes 5 times as long)",
    ]


def test_sizes_that_never_repeat_are_more_than_any_that_do() -> None:
    assert replace(JOB, shapes=None).features()["distinct sizes"] > 10_000
    assert JOB.features()["distinct sizes"] == 1


def test_a_network_has_no_kernel_of_its_own_and_work_is_per_convolution() -> None:
    features = JOB.features()
    assert features["elements of the kernel"] == features["stride"] == features["groups"] == 0
    assert (features["GFLOP of a step"], features["GFLOP of a convolution"]) == (20.0, 2.0)
    convolution = replace(
        JOB, problem="set/one", kernel_size=(3, 5), stride=(1, 2), groups=4, out_channels=64
    )
    features = convolution.features()
    assert (features["elements of the kernel"], features["stride"]) == (15.0, 2.0)
    assert features["channels divisible by 8"] == 0, "the input has three"


def test_facts_are_those_of_the_stored_rows(store: Store) -> None:
    facts_of = LEARNING["facts_of"]
    store.write(make_record(cell_id="a", input_shape=[4, 3, 8, 8, 8], regime_shapes=None))
    store.write(make_record(cell_id="b", trial_id="other", status="error"))
    with open_database(store) as database:
        found = facts_of(database, 77, "warm")
    assert set(found) == {"a"}, "what did not run is not known"
    assert (found["a"].input_shape, found["a"].shapes) == ((4, 3, 8, 8, 8), None)
    assert (found["a"].steps, found["a"].start) == (77, "warm")


def test_the_shipped_rule_has_at_most_eight_leaves_and_advises_off_where_sizes_never_repeat() -> (
    None
):
    rule = learned_rule()
    assert (
        len([line for line in LEARNING["rule_lines"](rule.tree) if " times as long)" in line]) <= 8
    )
    assert 0.5 < rule.right <= 1 and rule.lost > 0
    for steps in (100, 10**6):
        for precision in ("fp32", "tf32", "amp_bf16"):
            job = replace(JOB, shapes=None, steps=steps, precision=precision)
            assert rule.ask(job).setting == "off"
