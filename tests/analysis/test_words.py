import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cudnn_sweep.analysis import words

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
