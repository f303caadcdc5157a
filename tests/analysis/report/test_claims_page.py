"""The page of claims, from few figures: what is counted, which ranges are shown, in which order."""

from typing import Any

from cudnn_sweep.analysis.report.pages.claims import _conditions, _place, _range, _trials, _verdict

WALL, DEVICE = "wall time, ms", "device time, ms"


def figure(**columns: Any) -> dict[str, Any]:
    usual = {"cell_id": "c", "contrast": "benchmark", "measure": WALL, "outcome": "holds"}
    values = {"value": 0.9, "value_low": 0.88, "value_high": 0.92, "trials": 6}
    return usual | values | {"condition": "fixed", "holds_here": "1 of 1"} | columns


def test_trials_of_two_measures_are_counted_once() -> None:
    assert _trials([figure(), figure(measure=DEVICE, trials=4)]) == 6
    assert _trials([figure(), figure(contrast="deterministic", trials=4)]) == 10
    assert _trials([figure(), figure(cell_id="d")]) == 12
    assert _trials([figure(), figure()]) == 12
    assert _trials([figure(outcome=None), figure(trials=None)]) == 0


def test_one_value_has_its_interval_and_several_their_ends() -> None:
    one = _range([figure()])
    assert one.startswith("ratio of wall time 0.90") and "0.88" in one and "0.92" in one
    assert _range([figure(), figure()]) == "ratio of wall time 0.900 each"
    values = [figure(value=value) for value in (1.2, 0.9, None, 1.0)]
    assert _range(values) == "ratio of wall time 0.900 to 1.200, median 1.000"
    assert _range([figure(value=None)]) == ""
    plain = _range([figure(measure="different results among processes", value=2.0)])
    assert plain.startswith("different results among processes 2")
    extra = _range([figure(measure="extra of the first call, ms", value=2.0)])
    assert extra.startswith("extra of the first call, ms 2")


def test_conditions_with_counts_and_then_large_ones_come_first() -> None:
    rows = [
        figure(condition="unknown", holds_here=None, outcome=None, value=None),
        figure(condition="small", holds_here="0 of 1"),
        *(figure(condition="large", holds_here="2 undecided") for _ in range(2)),
    ]
    shown = dict(_conditions(rows))
    assert list(shown) == ["large", "small", "unknown"]
    assert shown["small"].startswith("holds in 0 of 1; ratio of wall time 0.90")
    assert shown["large"] == "2 undecided; ratio of wall time 0.900 each"
    assert shown["unknown"] == ""


def test_a_condition_shows_what_decides_first() -> None:
    rows = [figure(measure=DEVICE, outcome=None), figure()]
    ((_, text),) = _conditions(rows)
    assert text.index("wall time") < text.index("device time")


def test_a_verdict_names_its_place_only_beside_others() -> None:
    one, other, newer = (
        [{"gpu": gpu, "torch": torch}]
        for gpu, torch in (("H100", "2.11"), ("H200", "2.11"), ("H200", "2.12"))
    )
    assert _place(one, [one]) == ""
    assert _place(one, [one, other]) == ", H100"
    assert _place(one, [one, newer]) == ", H100, torch 2.11"


def test_a_verdict_has_the_first_condition_if_it_was_measured() -> None:
    row = figure(verdict="holds", in_words="holds")
    assert _verdict([row]).startswith("holds; fixed: holds in 1 of 1")
    assert _verdict([row | {"verdict": "not measured", "in_words": "not measured"}]) == (
        "not measured"
    )
