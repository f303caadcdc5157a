"""Dots of single processes: where they stand on their axis."""

import re

import pytest

from cudnn_sweep.analysis.report.pages.dots import LABEL, RIGHT, WIDTH, dots
from cudnn_sweep.analysis.report.pages.page import Samples


def places(*rows: tuple[float, ...], unit: str = "ms") -> list[float]:
    """Of all dots, from 0 at the left end of the axis to 1 at its right."""
    named = tuple((f"row {number}", row) for number, row in enumerate(rows))
    drawn = dots(Samples(title="a cell", unit=unit, rows=named))
    found = map(float, re.findall(r'<circle cx="([\d.]+)"', drawn))
    return [(each - LABEL) / (WIDTH - LABEL - RIGHT) for each in found]


def test_dots_fill_an_axis_of_values_that_differ() -> None:
    assert places((10.0,), (15.0, 20.0)) == pytest.approx([0, 0.5, 1])


def test_values_that_hardly_differ_stand_together() -> None:
    first, last = places((10.0,), (10.1,))
    assert 0.4 < first < last < 0.6
    assert places((1.0, 1.0)) == pytest.approx([0.5, 0.5])


def test_values_of_different_orders_have_a_logarithmic_axis() -> None:
    assert places((1.0,), (10.0, 100.0)) == pytest.approx([0, 0.5, 1])
    assert "logarithmic axis" in dots(Samples(title="t", unit="ms", rows=(("a", (1.0, 100.0)),)))


def test_numbers_without_a_unit_are_not_spread() -> None:
    assert places((1.0, 2.0, 3.0), unit="") == pytest.approx([0, 0.5, 1])


def test_every_value_is_told_to_who_does_not_see_it_and_names_are_escaped() -> None:
    drawn = dots(Samples(title="<b>", unit="ms", rows=(("<i>off", (1.5, 2.5)),)))
    assert 'aria-label="&lt;i&gt;off: 1.5, 2.5"' in drawn
    assert "<b>" not in drawn and "<i>" not in drawn
