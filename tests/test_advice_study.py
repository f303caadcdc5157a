"""tests/studies/advice.py, which checks `sweep advise` on a GPU: what it runs, and when it calls an answer right."""

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

from tests.studies import advice as advice_study

TOLD = {
    "baseline_ms": 10.0,
    "candidate_ms": 8.0,
    "baseline_s": 15.5,
    "job_steps": 1500,
    "ratio": 0.8,
    "ratio_low": 0.78,
    "ratio_high": 0.82,
    "advice": "on",
    "start": "warm",
    "break_even_steps": None,
}
GPUS = ("GPU-one", "GPU-two")


class FakeChildren:
    """Answers at once what a GPU's children would."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.fails: Callable[[str, str], bool] = lambda case, part: False

    def __call__(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        log: TextIO,
        limit_s: float,
        on_line: Callable[[dict[str, Any]], None] | None,
    ) -> list[dict[str, Any]]:
        part, case = command[2], command[command.index("--case") + 1]
        self.asked.append((case, part, variables.get("CUDA_VISIBLE_DEVICES")))
        if self.fails(case, part):
            raise RuntimeError("out of memory")
        if part == "predict":
            return [{"asked": TOLD, "messages": []}]
        settings = command[command.index("--plan") + 1].split(",")
        runs = [{"setting": each, "seconds": 10.0 if each == "off" else 8.0} for each in settings]
        for run in runs:
            assert on_line is not None
            on_line(run)
        return runs

    def parts(self, case: str) -> list[str]:
        return [part for name, part, _ in self.asked if name == case]


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> FakeChildren:
    """Of a machine with two GPUs."""
    fake = FakeChildren()
    ours = sorted(os.sched_getaffinity(0))
    lanes = [
        advice_study.Lane(name=gpu, gpu=gpu, cpus=frozenset({ours[place % len(ours)]}))
        for place, gpu in enumerate(GPUS)
    ]
    monkeypatch.setattr(advice_study, "_answers", fake)
    monkeypatch.setattr(advice_study, "lanes_here", lambda _: lanes)
    return fake


def _measure(folder: Path, **changes: Any) -> int:
    asked = {"results": folder, "seconds": 540.0, "only": None, "tiny": False, "cpus": None}
    found: int = advice_study.measure(argparse.Namespace(**(asked | {"lanes": 1} | changes)))
    return found


def _kinds(folder: Path, case: str) -> list[str]:
    lines = (folder / "rows" / f"{case}.jsonl").read_text().splitlines()
    return [json.loads(line)["kind"] for line in lines if line]


def test_a_case_that_fails_is_tried_once_more_and_ends_no_other(
    children: FakeChildren, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    children.fails = lambda case, part: case == "vgg16-fixed" and part == "loop"
    assert _measure(tmp_path) == 0
    assert {gpu for _, _, gpu in children.asked} == set(GPUS)
    assert children.parts("vgg16-fixed") == ["predict", "predict", "loop", "loop"]
    others = [case.name for case in advice_study.cases(tiny=False) if case.name != "vgg16-fixed"]
    kinds = ["lane", "advice", "steps", "prediction", *["run"] * 6]
    assert all(_kinds(tmp_path, case) == kinds for case in others)
    capsys.readouterr()
    advice_study.table(argparse.Namespace(results=tmp_path, tiny=False))
    told = capsys.readouterr().out
    assert "vgg16-fixed failed: RuntimeError: out of memory" in told
    assert "15 of 15 actual ratios are inside the 95% interval" in told
    assert _measure(tmp_path) == 0, "it is not tried a third time"
    assert len(children.parts("vgg16-fixed")) == 4


@pytest.mark.parametrize(
    ("side", "break_even", "chosen"),
    [
        ("below", 2000.0, (1092, "below")),
        ("above", 800.0, (1360, "above")),
        ("below", 500.0, (1092, "above")),  # a run below it would be shorter than 10 s
        ("above", 1100.0, (1870, "above")),
        ("above", 1500.0, (1092, "near")),
        ("above", None, (1092, "none")),
    ],
)
def test_steps_are_on_the_side_of_the_break_even_point_that_a_run_of_ten_to_twenty_seconds_has(
    side: str, break_even: float | None, chosen: tuple[int, str]
) -> None:
    told = TOLD | {"break_even_steps": break_even}
    assert (
        advice_study.steps_of(
            next(case for case in advice_study.cases(tiny=False) if case.side == side),
            told,
            tiny=False,
        )
        == chosen
    )


@pytest.mark.parametrize(
    ("advice", "actual", "right"),
    [
        ("on", 0.9, True),
        ("off", 1.1, True),
        ("on", 1.1, False),
        ("no difference", 1.005, True),
        ("on", 0.995, False),
        ("no difference", 1.02, True),
    ],
)
def test_an_answer_is_right_by_its_sign_where_that_matters(
    advice: str, actual: float, right: bool
) -> None:
    assert advice_study.is_right(advice, actual) == right
