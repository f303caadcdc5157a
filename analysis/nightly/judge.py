"""From series to findings: what tonight's screen shows, what is known since earlier nights, what fresh
trials and further nights make of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import median
from typing import Any, Literal

from cudnn_sweep.analysis.nightly.confirmation import (
    Confirmation,
    confirm_by_waiting,
    confirm_category,
    smallest_step,
)
from cudnn_sweep.analysis.nightly.gate import Screening, screen, screen_category
from cudnn_sweep.analysis.nightly.history import (
    SOFTWARE,
    SOFTWARE_AND_COMMIT,
    WORKLOAD,
    History,
    changes,
)
from cudnn_sweep.analysis.nightly.machines import MACHINE, PHYSICAL, moved_machine
from cudnn_sweep.analysis.nightly.memory import KNOWN, Known, Memory, settled, stays
from cudnn_sweep.analysis.nightly.metric import FAILURE, METRIC_OF, Amount
from cudnn_sweep.analysis.nightly.outcome import Change, Finding, Series, SeriesKey

Direction = Literal["worse", "better", "other"]
Cause = Literal["software", "hardware", "unknown"]
ENOUGH_NIGHTS = 3  # that show a word, where no fresh trial does
DIRECTIONS: dict[str, Direction] = {"worse": "worse", "better": "better", "different": "other"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A series that is not what it was, or that was so when an earlier night looked."""

    series: Series
    direction: Direction
    since: int
    """The first night that shows it, among the series' points."""
    before: float | str | None
    now: float | str | None
    ratio: float | None
    nights: int
    is_seen: bool
    """Tonight's screen shows it; else it waits since an earlier night."""
    earlier: Finding | None
    """What the night before said of it."""
    left_out: frozenset[int]
    """Indices of the series' points that it is not compared with."""

    @property
    def key(self) -> SeriesKey:
        return self.series.key

    @property
    def is_new(self) -> bool:
        """Worth fresh trials: nothing is settled yet, and it is no gain."""
        return self.is_seen and self.direction != "better" and self.earlier is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Screened:
    candidates: tuple[Candidate, ...]
    series: tuple[Series, ...]
    """Each with whether it was judged, and what it could show."""

    @property
    def fine(self) -> int:
        return sum(series.could_show for series in self._unchanged)

    @property
    def blunt(self) -> int:
        """Without a change, but they could not have shown the least one."""
        return len(self._unchanged) - self.fine

    @property
    def insufficient(self) -> int:
        return sum(not series.is_judged for series in self.series)

    @property
    def _unchanged(self) -> list[Series]:
        changed = {candidate.key for candidate in self.candidates}
        return [each for each in self.series if each.is_judged and each.key not in changed]


def screen_all(history: History, memory: Memory, *, is_pinned: bool) -> Screened:
    """A finding of the night before that was refuted stays so, as long as the software does: it needs
    no fresh trials every night.
    """
    here = {series.key.series_id for series in history.series}
    known = {
        finding.key.series_id: finding
        for finding in memory.findings
        if finding.key.series_id in here
        and (finding.state != "refuted" or not _is_other_software(history, finding.key))
    }
    candidates: list[Candidate] = []
    judged: list[Series] = []
    for series in history.series:
        left_out = memory.nights_left_out(series)
        found, seen = _screened(series, left_out, is_pinned)
        judged.append(seen)
        earlier = known.get(series.key.series_id)
        candidate = _candidate(seen, found, earlier, left_out)
        if candidate is not None:
            candidates.append(candidate)
    return Screened(candidates=tuple(candidates), series=tuple(judged))


def _is_other_software(history: History, key: SeriesKey) -> bool:
    """Than the night before, the user's own code behind the cell included."""
    if len(history.nights) < 2:
        return False
    is_edited = bool(history.edited(key, len(history.comparable(key.env_hash)) - 1))
    return is_edited or bool(changes(history.nights[-2], history.tonight, SOFTWARE))


def _screened(
    series: Series, left_out: frozenset[int], is_pinned: bool
) -> tuple[Screening, Series]:
    """And the series with whether it was judged, and what it could show."""
    metric, numbers = METRIC_OF[series.key.metric], series.numbers
    if isinstance(metric, Amount):
        found = screen(numbers, metric, left_out=left_out, is_pinned=is_pinned)
    else:
        found = screen_category(series.words, metric, left_out=left_out)
    if found.state == "insufficient_data":
        return found, replace(series, is_judged=False)
    if not isinstance(metric, Amount):
        return found, replace(series, could_show=found.could_show)
    step = smallest_step(numbers, metric, left_out=left_out, is_pinned=is_pinned)
    could_show = step is not None and step <= metric.min_effect
    return found, replace(series, smallest_step=step, could_show=could_show)


def _candidate(
    series: Series, found: Screening, earlier: Finding | None, left_out: frozenset[int]
) -> Candidate | None:
    shown = DIRECTIONS.get(found.state)
    is_seen = shown is not None
    if earlier is not None and shown != earlier.direction:
        is_seen, earlier = (False, earlier) if _stays(earlier, found) else (is_seen, None)
    direction = earlier.direction if earlier is not None else shown
    if direction is None:
        return None
    since = found.first_bad_night_index
    if earlier is not None:  # what it is compared with stays
        dates = [point.date for point in series.points]
        since = next((at for at, day in enumerate(dates) if day >= earlier.since), since)
    if since is None:
        return None
    is_open = is_seen and (earlier is None or earlier.state == "waiting")
    if is_open and isinstance(found.before, float):
        anew = _with_new_software(series, found.before, since)
        earlier, since = (earlier if anew == since else None), anew
    return Candidate(
        series=series,
        direction=direction,
        since=since,
        before=found.before if is_seen else earlier.before,  # type: ignore[union-attr]
        now=found.now if is_seen else series.points[-1].value,
        ratio=found.ratio,
        nights=found.nights,
        is_seen=is_seen,
        earlier=earlier,
        left_out=left_out,
    )


def _with_new_software(series: Series, before: float, since: int) -> int:
    """Where a suspicion begins: with new software, where the nights that were suspect before it are nearer
    to what was usual than to what came with it.
    """
    points, numbers = series.points, series.numbers
    for at in range(since + 1, len(points)):
        suspect, now = _typical(numbers[since:at]), _typical(numbers[at:])
        is_new = points[at].software_hash != points[at - 1].software_hash
        if is_new and suspect and now and abs(log(suspect / before)) < abs(log(suspect / now)):
            since = at
    return since


def _typical(numbers: Sequence[float | None]) -> float | None:
    known = [each for each in numbers if each is not None]
    return median(known) if known else None


def _stays(earlier: Finding, found: Screening) -> bool:
    """Though tonight's screen does not show it. What was better does not."""
    stays_on = stays(
        KNOWN[earlier.state],
        can_tell=found.state != "insufficient_data",
        is_mended=found.is_mended,
        is_opposite=found.state in DIRECTIONS,
    )
    return earlier.direction != "better" and bool(stays_on)


@dataclass(frozen=True, kw_only=True, slots=True)
class Remeasured:
    """What trials of tonight say of a candidate."""

    confirmation: Confirmation
    of_two: tuple[Change, ...] | None
    """In what the two softwares differ that were interleaved; None where there was one."""
    wall: Confirmation | None = None
    """Of a device time: what the same pairs say of wall time."""


def settle(
    candidate: Candidate,
    fresh: Remeasured | None,
    history: History,
    *,
    is_pinned: bool,
    command: str,
) -> Finding | None:
    """What is known of a candidate by now; None where it is neither so nor waits any more."""
    earlier = candidate.earlier
    if fresh is not None and fresh.confirmation.state == "confirmed":
        return _finding(candidate, fresh.confirmation, fresh, history, command)
    if earlier is not None and earlier.state == "confirmed":
        known = _by_waiting(candidate, is_pinned)
        now = {"now": candidate.now} if known.ratio is None or earlier.blocks else None
        sizes = (now or _amounts(candidate, known)) if candidate.is_seen else {}
        return replace(earlier, key=candidate.key, **sizes)
    known = _by_waiting(candidate, is_pinned)
    if fresh is not None and fresh.of_two is None and fresh.confirmation.state == "refuted":
        known = fresh.confirmation
    becomes = settled(
        Known.NOTHING if earlier is None else KNOWN[earlier.state],
        candidate.is_seen,
        is_confirmed=known.state == "confirmed",
        is_refuted=known.state == "refuted",
        is_given_up=known.state == "undecided" and not known.more_blocks,
    )
    if becomes == Known.NOTHING:
        return None
    if becomes == Known.REFUTED and earlier is not None and earlier.state == "refuted":
        return replace(earlier, now=candidate.now)
    return _finding(candidate, known, fresh, history, command)


def refuted(candidate: Candidate, history: History, command: str) -> Finding:
    """The finding for a candidate that the screen no longer shows, now that tonight has fresh trials."""
    return _finding(candidate, Confirmation(state="refuted"), None, history, command)


def _by_waiting(candidate: Candidate, is_pinned: bool) -> Confirmation:
    """By the nights since."""
    metric = METRIC_OF[candidate.key.metric]
    if isinstance(metric, Amount):
        numbers = candidate.series.numbers
        if candidate.direction == "better":
            numbers = _mirrored(numbers, candidate.since, candidate.left_out)
        return confirm_by_waiting(
            numbers, candidate.since, metric, left_out=candidate.left_out, is_pinned=is_pinned
        )
    words = [word for word in candidate.series.words[candidate.since :] if word is not None]
    found = confirm_category(words, str(candidate.before))
    if len(words) >= ENOUGH_NIGHTS:
        return found
    return replace(found, state="undecided", more_blocks=ENOUGH_NIGHTS - len(words))


def _mirrored(
    values: list[float | None], since: int, left_out: frozenset[int]
) -> list[float | None]:
    """As much worse as they are better."""
    before = [None if place in left_out else value for place, value in enumerate(values[:since])]
    level = _typical(before)
    if level is None:  # a baseline that was pinned since then
        return values
    return [value and level * level / value for value in values]


def _finding(
    candidate: Candidate,
    known: Confirmation,
    fresh: Remeasured | None,
    history: History,
    command: str,
) -> Finding:
    is_of_pairs = fresh is not None and fresh.confirmation is known
    cause, moved = _cause(candidate, fresh, history)
    return Finding(
        key=candidate.key,
        state="waiting" if known.state == "undecided" else known.state,
        direction=candidate.direction,
        **_amounts(candidate, known, is_of_pairs=is_of_pairs),
        blocks=known.blocks if is_of_pairs else 0,
        nights=candidate.nights,
        since=candidate.series.points[candidate.since].date,
        cause=cause,
        moved=moved,
        command=command,
        message=history.failures.get(candidate.key.cell_id)
        if candidate.key.metric == FAILURE.name
        else None,
    )


def _amounts(
    candidate: Candidate, known: Confirmation, *, is_of_pairs: bool = False
) -> dict[str, Any]:
    """Before, now and the ratio; where that is of the nights, it is of these two."""
    before, now = candidate.before, candidate.now
    ratio, low, high = known.ratio, known.low, known.high
    if candidate.direction == "better" and ratio and low and high:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    if ratio and not is_of_pairs:
        now = _typical(candidate.series.numbers[candidate.since :])
        before = now and now / ratio
    sizes = {"ratio": ratio or candidate.ratio, "ratio_low": low, "ratio_high": high}
    return {"before": before, "now": now, **sizes}


def _moved(candidate: Candidate, history: History) -> tuple[Change, ...]:
    """What changed between the first night that shows it and the one before."""
    nights = history.comparable(candidate.key.env_hash)
    if not candidate.since:
        return ()
    before, now = nights[candidate.since - 1], nights[candidate.since]
    return (
        *changes(before, now, SOFTWARE_AND_COMMIT),
        *history.edited(candidate.key, candidate.since),
        *moved_machine(candidate.series.points, candidate.since),
    )


def _cause(
    candidate: Candidate, fresh: Remeasured | None, history: History
) -> tuple[Cause, tuple[Change, ...]]:
    """And what moved: as pairs of two softwares tell, else on the first night that shows it."""
    if fresh is None and candidate.earlier is not None:
        return candidate.earlier.cause, candidate.earlier.moved
    moved = _moved(candidate, history)
    if fresh is not None and fresh.of_two is not None:
        if fresh.confirmation.state == "confirmed":
            return "software", fresh.of_two
        if not _clears(fresh.confirmation):
            return "unknown", moved
        moved = tuple(change for change in moved if change.part in (WORKLOAD, *MACHINE))
    is_software = any(change.part in (*SOFTWARE, WORKLOAD) for change in moved)
    is_machine = any(change.part in PHYSICAL for change in moved)
    if is_software:
        return ("unknown" if is_machine else "software"), moved
    old, new = history.workload_change(candidate.key, candidate.since)
    if is_machine:
        return "hardware", moved
    unexplained = any(change.part not in MACHINE for change in moved) or (old and not new)
    return ("unknown" if unexplained else "hardware"), moved


def _clears(pairs: Confirmation) -> bool:
    """The software of it: less than the least effect, and perhaps none at all. Words have no interval."""
    return pairs.state == "refuted" and (pairs.low is None or pairs.low <= 1)
