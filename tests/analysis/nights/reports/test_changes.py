"""The words of a night's changes, histories, machines and headline, by small tables."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from cudnn_sweep.analysis.nights.outcome import Acceptance, Finding, Machine
from cudnn_sweep.analysis.nights.reports.sections import (
    MOST_NAMED,
    MOST_ROWS,
    OneChange,
    by_size,
    headline,
    one_by_one,
    sections,
)
from cudnn_sweep.analysis.nights.reports.words import (
    FindingText,
    acceptances,
    finding_texts,
    history,
    machine,
    smallest_step,
)
from cudnn_sweep.analysis.nights.series import Change, Series
from tests.made_up_night import Night, finding_of, key_of, points_of

FIRST = date(2026, 11, 1)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([1.0], "▅ 1.00 ms to 1.00 ms"),
        ([1.0, 2.0, 1.0], "▅█▅ 1.00 ms to 1.00 ms"),
        ([1.0, 0.5, 1.0], "▅▁▅ 1.00 ms to 1.00 ms"),
        ([1.0, 1.31, 1.0, 1.0], "▅█▅▅ 1.00 ms to 1.00 ms"),
        ([1.0, 1.29, 1.0, 1.0], "▁█▁▁ 1.00 ms to 1.00 ms"),
        ([1.0, 1.04, 1.0], "▃▆▃ 1.00 ms to 1.00 ms"),
        ([1.0, 1.1, 1.2, 1.3], "▁▃▆█ 1.00 ms to 1.30 ms"),
        ([10.0 + n for n in range(9)], "▁▂▃▄▅▅▆▇█ 10.0 ms to 18.0 ms"),
        ([None, 1.0, None], "·▅· nothing to nothing"),
        ([None], "· nothing to nothing"),
        ([0.0, 0.0], "▅▅ 0 ms to 0 ms"),
        (["a", "b", "a"], "▁█▁ a to a"),
        (["a", None, "c"], "▁·█ a to c"),
        (["a", "b", "c"], "▁▅█ a to c"),
        (["a"], "▅ a to a"),
    ],
)
def test_each_night_is_a_bar(values: Sequence[float | str | None], drawn: str) -> None:
    assert history(Series(key=key_of(), points=points_of(values, FIRST))) == drawn


USUAL = Machine(
    gpu="H200", gpu_uuid="GPU-a", host="lab", cpu_model=None, trials=3, matmul=1.0, copy=None
)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({}, "calibration as usual"),
        ({"copy": 1.019}, "calibration as usual"),
        ({"copy": 0.981}, "calibration as usual"),
        ({"copy": 1.03}, "speed divided by usual speed: matrix product 1.000, copy 1.030"),
        ({"matmul": 0.97}, "speed divided by usual speed: matrix product 0.970"),
        ({"matmul": None, "copy": 0.97}, "speed divided by usual speed: copy 0.970"),
        ({"matmul": None}, None),
    ],
)
def test_a_machine_is_as_quick_as_usual_or_not(columns: dict[str, Any], text: str | None) -> None:
    name = "H200, GPU-a, on lab, 3 trials"
    assert machine(replace(USUAL, **columns)) == (f"{name}; {text}" if text else name)


def found(
    cell: str = "conv", metric: str = "steady_wall", gpu: str = "H200", **columns: Any
) -> Finding:
    usual: dict[str, Any] = {"before": 1.0, "now": 1.1, "ratio": 1.1}
    key = key_of(metric, cell, cell_id=cell, gpu=gpu)
    return finding_of(key, columns.pop("since", FIRST), **usual | columns)


def changes(*findings: Finding) -> list[OneChange]:
    return one_by_one([FindingText(finding=each, sweep_id="night") for each in findings])


TORCH = (Change(part="torch", before="2.11", now="2.12"),)
DRIVER = (Change(part="driver", before="580", now="590"),)


@pytest.mark.parametrize(
    ("other", "together"),
    [
        ({}, True),
        ({"metric": "steady_device"}, True),
        ({"metric": "steady_device", "wall_ratio": 1.0}, False),
        ({"metric": "cold_warm"}, False),
        ({"gpu": "H100"}, False),
        ({"cause": "software"}, False),
        ({"direction": "better"}, False),
        ({"state": "waiting"}, False),
        ({"since": FIRST + timedelta(days=1)}, False),
        ({"moved": TORCH}, False),
        ({"since": FIRST + timedelta(days=1), "of": TORCH}, True),
        ({"since": FIRST, "moved": DRIVER, "of": TORCH}, False),
    ],
)
def test_findings_are_one_change_if_metric_direction_cause_and_start_agree(
    other: dict[str, Any], together: bool
) -> None:
    moved = other.get("of", ())
    more = {"moved": moved} | {name: value for name, value in other.items() if name != "of"}
    assert len(changes(found(moved=moved), found("pool", **more))) == (1 if together else 2)


def test_changes_of_many_come_first_then_those_of_more_series() -> None:
    one = found("a", "cold_warm")
    two = [found("b"), found("c")]
    walls = [found(name, "steady_device", wall_ratio=1.0) for name in "def"]
    many = found("g", "shared", before="none", now="8 of 9 times")
    ordered = changes(one, *walls, *two, many)
    assert [len(change.findings) for change in ordered] == [1, 2, 1, 3]
    assert ordered[0].first.key.metric == "shared"
    assert ordered[2].first.key.metric == "cold_warm"


def test_wall_times_and_larger_ratios_come_first_in_a_change() -> None:
    findings = [
        found("a", "steady_device", ratio=1.5),
        found("b", ratio=1.1),
        found("c", ratio=1.3),
        found("d", ratio=None),
    ]
    (change,) = changes(*findings)
    assert [text.key.cell for text in change.findings] == ["c", "b", "d", "a"]
    word = FindingText(finding=found(metric="failure", ratio=None), sweep_id="night")
    assert by_size(word) == (False, 0.0)


@pytest.mark.parametrize(
    ("findings", "size"),
    [
        (
            [found(ratio=1.05), found("b", ratio=1.1)],
            "wall time of an iteration: 5.00 to 10.0% more",
        ),
        ([found("a", "steady_device")], "device time of an iteration: 10.0% more"),
        (
            [found(), found("b", "steady_device", ratio=1.2)],
            "wall and device time of an iteration: 10.0 to 20.0% more",
        ),
        ([found(metric="cold_warm", ratio=3.0)], ": 3.00 times as much"),
        (
            [found(metric="steady_device", wall_ratio=1.01)],
            "device time 10.0% more; the loop is CPU-bound: wall time 1.00% more",
        ),
        (
            [
                found(metric="steady_device", wall_ratio=1.01),
                found("b", "steady_device", wall_ratio=1.02, ratio=1.2),
            ],
            "device time 10.0 to 20.0% more; the loop is CPU-bound: wall time 1.00 to 2.00% more",
        ),
        ([found(metric="failure", ratio=None, before="ok", now="crash")], ": ok → crash"),
        (
            [
                found(name, "failure", ratio=None, before="ok", now=now)
                for name, now in (("a", "crash"), ("b", "crash"), ("c", "killed"))
            ],
            " in 3 cells: ok → crash and ok → killed",
        ),
    ],
)
def test_a_change_says_its_size(findings: list[Finding], size: str) -> None:
    (change,) = changes(*findings)
    assert change.size.endswith(size)


def test_a_change_names_a_few_cells_and_counts_the_others() -> None:
    (few,) = changes(*(found(f"cell {n}") for n in range(MOST_NAMED)))
    assert few.cells.startswith("6 series: cell 0; ") and "more cell" not in few.cells
    (one_more,) = changes(*(found(f"cell {n}") for n in range(MOST_NAMED + 1)))
    assert one_more.cells.startswith("7 series: cell 0; ")
    assert one_more.cells.endswith("; cell 5 and 1 more cell · benchmark=false")
    (alone,) = changes(found())
    assert alone.cells == "1 series: conv · benchmark=false"
    series = [line for line in one_more.details if line.startswith("series ")]
    assert series[0].endswith(" ...") and series[0].count(",") == MOST_NAMED - 1
    assert not any(line.endswith(" ...") for line in few.details)


@pytest.mark.parametrize(
    ("moved", "sides"),
    [
        ((), None),
        (TORCH, ("torch=2.11", "torch=2.12")),
        ((*DRIVER, *TORCH), ("torch=2.11", "torch=2.12")),
        (DRIVER, ("driver=580", "driver=590")),
        ((Change(part="version", before="1", now="2"),), ("ours=1", "ours=2")),
        ((Change(part="host", before="1", now="2"),), None),
    ],
)
def test_sides_to_compare_are_the_versions_that_changed(
    moved: tuple[Change, ...], sides: tuple[str, str] | None
) -> None:
    (change,) = changes(found(moved=moved))
    assert change.versions == sides


def test_a_cell_names_its_gpu_if_the_nights_findings_are_on_several(night: Night) -> None:
    outcome, _ = night
    one = replace(outcome, findings=(found(), found("b")))
    two = replace(outcome, findings=(found(), found("b", gpu="H100")))
    assert [text.cell for text in finding_texts(one)] == ["conv", "b"]
    assert [text.cell for text in finding_texts(two)] == ["conv on H200", "b on H100"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"state": "fine", "findings": (), "blunt_series": 0},
            "no regression; 7 series are as they were",
        ),
        (
            {"state": "fine", "findings": (), "blunt_series": 2},
            "no regression; 7 series are as they were; 2 too noisy to see the least effect",
        ),
        (
            {"state": "fine", "findings": (found(state="waiting"),), "blunt_series": 0},
            "no regression; 1 waiting; 7 series are as they were",
        ),
        ({"state": "learning", "findings": ()}, "still learning"),
        ({"state": "could_not_tell", "findings": ()}, "could not tell"),
        (
            {"state": "learning", "findings": (), "skipped": {"net": "why"}},
            "still learning; 1 network not measured",
        ),
    ],
)
def test_the_headline_says_what_the_night_found(
    night: Night, columns: dict[str, Any], words: str
) -> None:
    text = headline(replace(night[0], fine_series=7, **columns))
    assert text.endswith(f": {words}")


def test_the_headline_counts_the_other_changes(night: Night) -> None:
    text = headline(replace(night[0], findings=(found(),)))
    assert text.endswith(
        ": wall time of an iteration: 10.0% more since 2026-11-01, nothing known has changed"
    )
    alerts = found("a"), found("b", "cold_warm"), found("c", "cold_empty")
    others = found("d", state="waiting"), found("e", direction="better", ratio=0.8)
    text = headline(replace(night[0], findings=(*alerts, *others)))
    assert text.endswith("; 2 other confirmed changes; 1 waiting; 1 better")


@pytest.mark.parametrize(
    ("hosts", "gpus", "who"),
    [
        (["x"], ["H200"], "lab on x (H200), "),
        (["x", "x"], ["H200", "H100"], "lab on x (H200 and H100), "),
        (["x", "y"], ["H200", "H200"], "lab on 2 hosts (H200), "),
        ([], [], "lab on start, "),
    ],
)
def test_the_headline_names_hosts_and_gpus(
    night: Night, hosts: list[str], gpus: list[str], who: str
) -> None:
    machines = tuple(
        replace(USUAL, host=host, gpu=gpu) for host, gpu in zip(hosts, gpus, strict=True)
    )
    assert headline(replace(night[0], machines=machines, host="start")).startswith(who)


def test_series_accepted_for_one_reason_are_one_line(night: Night) -> None:
    def accepted(cell: str, reason: str = "driver", day: int = 0) -> Acceptance:
        first = FIRST + timedelta(days=day)
        return Acceptance(key=key_of(cell=cell), first=first, reason=reason, told_on=first)

    made = (accepted("a"), accepted("b"), accepted("c", "torch"), accepted("d", day=1))
    lines = acceptances(replace(night[0], accepted=made))
    assert [line.partition(" · ")[0] for line in lines] == ["a", "c", "d"]
    assert "and 1 more series: from 2026-11-01 on, driver" in lines[0]
    assert "more series" not in lines[1]


@pytest.mark.parametrize(
    ("metric", "step", "could_show", "text"),
    [
        ("steady_wall", 0.05, True, "5.00%"),
        ("steady_wall", 0.05, False, "5.00%, the least effect is 3.00%"),
        ("steady_wall", None, False, ""),
        ("failure", 0.05, True, ""),
    ],
)
def test_the_smallest_step_stands_beside_the_least_effect_that_it_misses(
    metric: str, step: float | None, could_show: bool, text: str
) -> None:
    series = Series(key=key_of(metric), points=points_of([1.0], FIRST), smallest_step=step)
    assert smallest_step(replace(series, could_show=could_show)) == text


@pytest.mark.parametrize("count", [MOST_ROWS, MOST_ROWS + 1])
def test_a_list_ends_after_so_many_rows(night: Night, count: int) -> None:
    days = [FIRST + timedelta(days=day) for day in range(count)]
    alerts = tuple(found(f"{day}", since=day) for day in days)
    series = [Series(key=alert.key, points=points_of([1.0], FIRST)) for alert in alerts]
    blunt = replace(series[-1], could_show=False)
    shown = {
        section.title: section
        for section in sections(replace(night[0], findings=alerts), [*series[:-1], blunt])
    }
    assert len(shown["Alerts"].items) == len(shown["Every series"].rows) == MOST_ROWS
    more = [" ".join(note) for note in shown["Every series"].notes]
    assert more == (["and 1 more. The JSON report has all of them."] if count > MOST_ROWS else [])
    name, step, _ = shown["Every series"].rows[0]
    assert name.startswith(blunt.key.cell) and step == "values vary"
    assert shown["Every series"].rows[1][1] == ""
