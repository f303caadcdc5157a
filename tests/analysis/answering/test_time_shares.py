import pytest

from cudnn_sweep.analysis.answering.verdicts import TimeShare, time_shares
from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.analysis.storing.store import Store
from tests.analysis.conftest import make_record

PHASES = ("start", "one_time", "build", "cold", "calibration", "steady", "checks", "exit")


def test_every_second_is_in_one_part(store: Store) -> None:
    first = make_record(trial_id="a")
    second = make_record(trial_id="b", log_s=None, steady_s=2.9, process_s=4.0, gap_s=None)
    found = _shares(store, first, second)
    assert set(found) == {*PHASES, "log", "gap", "other"}
    assert sum(share.total_s for share in found.values()) == pytest.approx(2 + 1.5 + 0.01 + 4)
    assert sum(share.share for share in found.values()) == pytest.approx(1)
    steady = found["steady"]
    assert steady.trials == 2
    assert steady.median_s == pytest.approx(1.9)
    assert steady.share == pytest.approx(3.8 / 7.51)
    assert (found["log"].trials, found["log"].total_s, found["log"].median_s) == (1, 1.5, 1.5)
    assert found["other"].total_s == pytest.approx(2 * (2 - 1.96))


def test_a_trial_that_never_answered_counts_as_other(store: Store) -> None:
    unknown = {f"{phase}_s": None for phase in PHASES}
    hung = make_record(status="timeout", process_s=300.0, log_s=None, gap_s=None, **unknown)
    found = _shares(store, hung)
    assert (found["other"].total_s, found["other"].share) == (300.0, 1.0)
    assert (found["steady"].trials, found["steady"].total_s, found["steady"].share) == (0, 0, 0)


def _shares(store: Store, *records: RunRecord) -> dict[str, TimeShare]:
    store.write(*records)
    return {share.part: share for share in time_shares(store)}
