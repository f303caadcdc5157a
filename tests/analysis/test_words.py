import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cudnn_sweep.analysis import words
from cudnn_sweep.analysis.nights.reports.words import percent_or_times

ROOT = Path(__file__).parents[2]
DIGITS = re.compile(r":[+,]?\.(0%|[1-9][efg%])\}")
FOR_MACHINES = {"junit.py", "page.py"}  # attributes of XML and SVG


def test_no_other_module_writes_a_number_s_digits() -> None:
    files = [
        file for folder in ("analysis", "orchestrator") for file in (ROOT / folder).rglob("*.py")
    ]
    writing = {file.name for file in files if DIGITS.search(file.read_text(encoding="utf-8"))}
    assert writing - FOR_MACHINES == {"words.py"}


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        (words.number, 0.0512, "0.0512"),
        (words.number, 0.00001234, "1.23e-05"),
        (words.number, 999.9, "1,000"),
        (words.number, None, ""),
        (words.number, 0.0, "0"),
        (words.number, -2.5e9, "-2,500,000,000"),
        (words.duration, 90.0, "1.50 minutes"),
        (words.given, 0.47, "0.47"),
        (words.given, 3600.0, "3,600"),
        (words.two_digits, 1234.5, "1,200"),
        (words.ratio, 0.98765, "0.988"),
        (words.ratio, None, ""),
        (words.clock, 0.0123, "12 ms"),
        (words.clock, -11100.0, "-3 h 05 min"),
        (words.size, 3 * 2.0**30, "3.00 GiB"),
        (words.size, 2.0**30, "1.00 GiB"),
        (words.size, 2.0**30 - 2.0**20, "1,020 MiB"),
        (words.number, 1234, "1,234"),
        (words.number, -0.0, "0"),
        (words.number, float("inf"), "inf"),
        (words.number, 99.96, "100"),
        (words.number, 9.994, "9.99"),
        (words.number, 1e-4, "0.000100"),
        (words.number, -9.9e-5, "-9.9e-05"),
        (words.figure, 3.0, "3"),
        (words.figure, 3.5, "3.50"),
        (words.given, 999.9, "999.9"),
        (words.given, 1000.0, "1,000"),
        (words.given, -1000.4, "-1,000"),
        (words.two_digits, 9.96, "10"),
        (words.two_digits, 10.0, "10"),
        (words.two_digits, 99.6, "100"),
        (words.two_digits, 100.0, "100"),
        (words.two_digits, float("inf"), "inf"),
        (words.ratio, 9.9991, "9.999"),
        (words.ratio, 10.0, "10.0"),
        (words.ratio, -12.0, "-12.0"),
        (words.milliseconds, None, ""),
        (words.milliseconds, 2.0, "2.00 ms"),
        (words.clock, 0.0, "0 ms"),
        (words.clock, 0.099, "99 ms"),
        (words.clock, 0.1, "0.100 s"),
        (words.clock, 99.9, "99.9 s"),
        (words.clock, 100.0, "1 min 40 s"),
        (words.clock, 5999.4, "99 min 59 s"),
        (words.clock, 6000.0, "1 h 40 min"),
        (words.duration, 3600.0, "1.00 hours"),
        (words.duration, 60.0, "1.00 minutes"),
        (words.duration, 59.0, "59.0 seconds"),
    ],
)
def test_a_number_reads_alike_everywhere(
    text: Callable[[float | None], str], value: float | None, told: str
) -> None:
    assert text(value) == told


def test_a_change_is_told_in_percent_up_to_twice() -> None:
    assert words.change(0.88, 0.85, 0.9) == "12.0% less (95% interval 10.0 to 15.0%)"
    assert words.change(1.5, None, None, of=" time") == "50.0% more time"
    assert words.change(2.5, 2.0, 3.0) == "2.50 times as much (95% interval 2.00 to 3.00)"
    assert words.change(0.4, 0.25, 0.5, of=" time") == (
        "2.50 times as fast (95% interval 2.00 to 4.00)"
    )
    assert words.change(3.0, None, None, of=" time") == "3.00 times the time"
    assert words.change(2.0, None, None) == "2.00 times as much"
    assert words.change(1.994, None, None) == "99.4% more"
    assert words.change(1.996, None, None) == "2.00 times as much"
    assert words.change(0.5, None, None) == "0.500 times as much"
    assert words.change(0.501, 0.4, None) == "49.9% less"
    assert words.change(1.0, None, None) == "0% more"


def test_a_range_of_changes_is_told_in_percent_where_it_lies_on_one_side() -> None:
    assert percent_or_times(1.03, 1.05) == "3.00 to 5.00% more"
    assert percent_or_times(0.9, 0.95) == "5.00 to 10.0% less"
    assert percent_or_times(1.0, 1.0) == "0% more"
    assert percent_or_times(0.9, 1.1) == "0.900 to 1.10 times as much"
    assert percent_or_times(0.9, 1.0) == "0.900 to 1.00 times as much"
    assert percent_or_times(0.5, 0.6) == "0.500 to 0.600 times as much"
    assert percent_or_times(1.5, 2.0) == "1.50 to 2.00 times as much"
    assert percent_or_times(3.0, 3.0) == "3.00 times as much"


def test_lists_and_counts_read_as_sentences() -> None:
    assert [words.counted(count, "cell") for count in (0, 1, 1200)] == [
        "0 cells",
        "1 cell",
        "1,200 cells",
    ]
    assert words.listed(["a"]) == "a" and words.listed(["a", "b", "c"]) == "a, b and c"
    assert (
        words.some(["a", "b"], 2) == "a, b" and words.some(["a", "b", "c"], 2) == "a, b and 1 more"
    )
    assert words.interval(0.9, 1.1) == " (0.900 to 1.100)"
    assert words.interval(None, 1.1) == "" and words.interval(0.9, None) == ""
    assert words.percent(0.123, 1, "+") == "+12.3%"
    assert words.one_line("a\x1b\nb") == "a\ufffd b"


def test_versions_of_cudnn_read_as_nvidia_writes_them() -> None:
    versions = {91900: "9.19.0", 90000: "9.0.0", 8907: "8.9.7", 90101: "9.1.1"}
    assert {number: words.cudnn_version(number) for number in versions} == versions
    assert words.part_text("cudnn", "91900") == "9.19.0"
    assert words.part_text("cudnn", "none") == "none" and words.part_text("driver", "580") == "580"


@pytest.mark.parametrize(
    ("value", "low", "high", "of", "text"),
    [
        (0.88, None, None, "", "12.0% less"),
        (0.88, 0.8, 0.9, " time", "12.0% less time (95% interval 10.0 to 20.0%)"),
        (1.5, None, None, "", "50.0% more"),
        (1.0, None, None, "", "0% more"),
        (1.99, None, None, " time", "99.0% more time"),
        (2.0, None, None, " time", "2.00 times the time"),
        (1.996, None, None, " time", "2.00 times the time"),
        (2.0, None, None, "", "2.00 times as much"),
        (1.5, 1.4, None, "", "50.0% more"),
        (0.5, None, None, " time", "2.00 times as fast"),
        (0.5, 0.4, 0.625, " time", "2.00 times as fast (95% interval 1.60 to 2.50)"),
        (0.5, None, None, "", "0.500 times as much"),
        (3.0, 2.5, 4.0, " time", "3.00 times the time (95% interval 2.50 to 4.00)"),
    ],
)
def test_a_change_is_a_percentage_up_to_twice_and_then_a_ratio(
    value: float, low: float | None, high: float | None, of: str, text: str
) -> None:
    assert words.change(value, low, high, of=of) == text
