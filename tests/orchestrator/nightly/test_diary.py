"""What nights keep beside the results: no bit that changes makes another answer without a word."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.nights.outcome import Acceptance
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.nightly.request import Diary, as_sent_alert
from cudnn_sweep.orchestrator.planning.spec import NightName
from tests.made_up_night import Night

DAY = date(2026, 3, 2)
NAME = NightName(date=DAY, launch="lab")
READS: dict[str, Callable[[Diary], object]] = {
    "accepted.json": Diary.accepted,
    "baseline.json": Diary.baseline,
    "told.json": Diary.sent_alerts,
    f"{NAME.sweep_id}.json": lambda diary: diary.of(NAME),
}
DECIDES = ("accepted.json", "baseline.json")


@pytest.fixture
def kept(tmp_path: Path, night: Night) -> Diary:
    """One of everything."""
    diary = Diary(store=open_store(str(tmp_path)), launch="lab")
    outcome = replace(night[0], night=NAME.sweep_id, findings=night[0].findings[:1])
    finding = outcome.findings[0]
    diary.write(outcome)
    diary.pin(DAY)
    diary.accept([Acceptance(key=finding.key, first=DAY, reason="é", told_on=DAY)])
    diary.write_sent_alerts([as_sent_alert(finding)])
    assert diary.unreadable(NAME) == []
    return diary


def said(diary: Diary, name: str) -> object:
    """The answer; what is said where it is not believed."""
    if name in DECIDES:
        try:
            return READS[name](diary)
        except SpecError as error:
            return str(error)
    faults = diary.unreadable(NAME)
    assert len(faults) <= 1
    return faults[0] if faults else READS[name](diary)


@pytest.mark.slow
@pytest.mark.parametrize("name", READS)
def test_no_flipped_bit_and_no_cut_changes_an_answer_without_a_word(
    kept: Diary, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nightly" / "lab" / name
    whole, answer = file.read_bytes(), READS[name](kept)
    held = {f"nightly/lab/{each.name}": each.read_bytes() for each in file.parent.iterdir()}
    monkeypatch.setattr(kept.store.folder, "read", lambda path: pa.py_buffer(held[path]))
    damaged = [
        whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :]
        for bit in range(len(whole) * 8)
    ]
    named = 0
    for content in (*damaged, *(whole[:length] for length in range(len(whole) - 1))):
        held[f"nightly/lab/{name}"] = content
        found = said(kept, name)
        is_named = isinstance(found, str) and found.startswith(f"{file} cannot be read (")
        assert is_named or found == answer, content
        named += is_named
    assert named > 0.9 * len(damaged)


@pytest.mark.parametrize("name", READS)
def test_an_edited_file_is_read_where_it_says_so(kept: Diary, tmp_path: Path, name: str) -> None:
    file = tmp_path / "nightly" / "lab" / name
    answer, found = READS[name](kept), json.loads(file.read_text())
    file.write_text(json.dumps(found, indent=4))
    assert said(kept, name) == answer, "only laid out anew"
    text = json.dumps(found).replace(found["crc32"], "edited")
    file.write_text(text.replace("2026-03-02", "2026-03-03"))
    assert "2026, 3, 3" in repr(said(kept, name)) or name == "told.json"


def test_the_next_acceptance_gives_an_edited_file_its_checksum(kept: Diary, tmp_path: Path) -> None:
    file = tmp_path / "nightly" / "lab" / "accepted.json"
    file.write_text('{"crc32": "edited", "content": []}')
    kept.accept([])
    assert "edited" not in file.read_text()
    assert kept.accepted() == []


def test_nothing_is_accepted_of_an_older_night_where_the_last_one_is_damaged(
    kept: Diary, tmp_path: Path
) -> None:
    assert kept.last() == kept.of(NAME)
    later = tmp_path / "nightly" / "lab" / "night-2026-03-03-lab.json"
    later.write_text("")
    with pytest.raises(SpecError, match=r"night-2026-03-03-lab.json .*--no-measure"):
        kept.last()
    assert kept.unreadable(NAME) == [], "a later night is none that this one needs"
