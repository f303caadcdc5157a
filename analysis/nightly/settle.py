"""What becomes of tonight's candidates: findings, from fresh trials where there are any, else from the nights that follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.settings import config_name, texts_in
from cudnn_sweep.analysis.nightly.confirm import (
    LOOKS,
    Confirmation,
    confirm,
    confirm_by_waiting,
    confirm_words,
)
from cudnn_sweep.analysis.nightly.detect import SELDOM, Candidate, Screened
from cudnn_sweep.analysis.nightly.history import (
    MACHINE,
    PHYSICAL,
    SOFTWARE,
    SOFTWARE_AND_COMMIT,
    WORKLOAD,
    History,
    Row,
    date_of,
    differences,
    query,
    sign_rows,
)
from cudnn_sweep.analysis.nightly.memory import FindingState, settled
from cudnn_sweep.analysis.nightly.outcome import Cause, Finding
from cudnn_sweep.analysis.nightly.series import (
    ENGINE,
    FAILURE,
    METRIC_OF,
    MISSING,
    SIGN,
    STEADY_DEVICE,
    STEADY_WALL,
    Amount,
    Change,
    SeriesKey,
    typical,
)
from cudnn_sweep.analysis.storing.store import Store

ENOUGH_NIGHTS = 3  # that show a word, where no fresh trial does
LAUNCH_BOUND = 1.1  # wall time over device time, as in records
NO_WALL: dict[str, Any] = dict.fromkeys(("wall_ratio", "wall_ratio_low", "wall_ratio_high"))
PROCESSES = """
select * from night_processes($launch, $until)
where is_fresh and sweep_id = $sweep_id
order by block
"""
SOFTWARES = f"""
select software, {", ".join(f"any_value({name}) as {name}" for name in SOFTWARE_AND_COMMIT)}
from records
where sweep_id = $sweep_id
group by software
"""


# --- Fresh trials ---


@dataclass(frozen=True, kw_only=True, slots=True)
class Remeasured:
    """The judgement of a candidate by tonight's fresh trials."""

    confirmation: Confirmation
    of_two: tuple[Change, ...] | None
    """In what the two softwares differ that were interleaved; None where there was one."""
    wall: Confirmation | None = None
    """Of a device time: the judgement of wall time by the same pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshTrials:
    """Trials of a night's confirmation: of its own software, and of the last good one beside it where there are two."""

    processes: Sequence[Row]
    signs: Sequence[Row]
    pairs: Sequence[Row]
    softwares: Mapping[str | None, Row]
    """Their parts; None names the night's own."""

    def differences(self) -> tuple[Change, ...] | None:
        """In what the two softwares differ; None where there was one."""
        own = self.softwares.get(None)
        others = [parts for name, parts in self.softwares.items() if name is not None]
        return differences(others[0], own, SOFTWARE_AND_COMMIT) if own and others else None

    def judge_all(
        self, candidates: Sequence[Candidate], of_two: tuple[Change, ...] | None, *, is_cut: bool
    ) -> dict[SeriesKey, Remeasured]:
        """None of an amount with one software: its trials join the night's value.

        `is_cut`: the time was up, so that what there is too little of may just not have had its turn.
        """
        judged = {each.key: self._judge(each, of_two, is_cut=is_cut) for each in candidates}
        return {key: each for key, each in judged.items() if each is not None}

    def _judge(
        self, candidate: Candidate, of_two: tuple[Change, ...] | None, *, is_cut: bool
    ) -> Remeasured | None:
        key = candidate.key
        metric = METRIC_OF[key.metric]
        if not isinstance(metric, Amount):
            return self._judge_words(candidate, of_two, is_cut=is_cut)
        if of_two is None:
            return None
        ratios, alike = self._log_ratios(key), self._alike(key)
        pairs = confirm([*ratios.values()], metric.min_effect, [block in alike for block in ratios])
        if len(ratios) < min(LOOKS):  # time was up: so few are no look
            pairs = replace(pairs, state="undecided")
        wall = None
        if metric == STEADY_DEVICE:
            blocks = ratios.keys() if pairs.blocks == len(ratios) else ratios.keys() & alike
            walls = self._log_ratios(wall_of(key))
            wall = confirm(
                [walls[each] for each in walls if each in blocks], STEADY_WALL.min_effect
            )
        has_wall = wall is not None and wall.blocks == pairs.blocks
        return Remeasured(confirmation=pairs, of_two=of_two, wall=wall if has_wall else None)

    def _judge_words(
        self, candidate: Candidate, of_two: tuple[Change, ...] | None, *, is_cut: bool
    ) -> Remeasured:
        """The software is the cause where trials of the last good one are as they were."""
        key, before = candidate.key, str(candidate.screening.before)
        words = [_usual(word, candidate) for word in self._words(key)]
        good = {_usual(word, candidate) for word in self._words(key, of_last_good=True)}
        judged = confirm_words(words, before)
        if key.metric == MISSING.name and not words:
            judged = Confirmation(state="confirmed")
        if is_cut and key.metric != SIGN.name and len(words) < min(LOOKS):
            judged = replace(judged, state="undecided")
        is_software = judged.state == "confirmed" and good == {before}
        return Remeasured(confirmation=judged, of_two=of_two if is_software else None)

    def _log_ratios(self, key: SeriesKey) -> dict[int, float]:
        """log(current / last good) of each block that has both."""
        metric = METRIC_OF[key.metric]
        assert isinstance(metric, Amount)
        rows = [row for row in self.pairs if row["metric"] == key.metric and _is_of(row, key)]
        now, good = (metric.logs([row[of] for row in rows]) for of in ("candidate", "baseline"))
        ratios: list[float] = (now - good).tolist()
        return dict(zip((row["block"] for row in rows), ratios, strict=True))

    def _alike(self, key: SeriesKey) -> set[int]:
        """Blocks in which the processes of both softwares took the same kernels."""
        rows = [row for row in self.processes if _is_of(row, key) and row[ENGINE.name] is not None]
        good = {row["block"]: row[ENGINE.name] for row in rows if row["software"] is not None}
        own = {row["block"]: row[ENGINE.name] for row in rows if row["software"] is None}
        return {block for block, kernels in own.items() if good.get(block) == kernels}

    def _words(self, key: SeriesKey, *, of_last_good: bool = False) -> list[str]:
        """One word per process; for the metric `sign` one for all processes."""
        rows = [row for row in self.processes if (row["software"] is not None) == of_last_good]
        if key.metric == MISSING.name:
            return ["present" for row in rows if row["cell_id"] == key.cell_id]
        if key.metric == SIGN.name:
            hashes, name = {row["software_hash"] for row in rows}, (key.cell_id, key.settings)
            signs = [row for row in self.signs if row["software_hash"] in hashes]
            words = [row["word"] for row in signs if (row["cell_id"], row["settings"]) == name]
            return [word for word in words if word != SIGN.no_answer]
        words = [row[key.metric] for row in rows if _is_of(row, key)]
        return [word for word in words if word is not None]


def _is_of(row: Row, key: SeriesKey) -> bool:
    config = config_name(texts_in(row["settings"]))
    return (row["cell_id"], config) == (key.cell_id, key.settings)


def _usual(word: str, candidate: Candidate) -> str:
    """One of the words that were usual before stands for them all."""
    before = [point.value for point in candidate.series.points[: candidate.since]]
    is_usual = before.count(word) >= SELDOM * len(before) > 0
    return str(candidate.screening.before) if is_usual else word


def read_fresh(
    store: Store, launch: str, confirm_id: str, contrasts: Sequence[Contrast]
) -> FreshTrials:
    nights_until = {"launch": launch, "until": str(date_of(confirm_id))}
    with open_database(store, confirm_id) as database:
        softwares = database.query(SOFTWARES, {"sweep_id": confirm_id}).to_pylist()
        return FreshTrials(
            processes=database.query(
                PROCESSES, nights_until | {"sweep_id": confirm_id}
            ).to_pylist(),
            signs=sign_rows(database, nights_until, contrasts),
            pairs=query(database, "software_pairs", {}),
            softwares={row["software"]: row for row in softwares},
        )


# --- Findings ---


def settle_all(
    suspected: Screened,
    screened: Screened,
    fresh: Mapping[SeriesKey, Remeasured],
    history: History,
    command: Callable[[str], str],
) -> list[Finding]:
    """`screened` is what `suspected` became with tonight's fresh trials, by which those in `fresh` were judged;
    `command` measures a cell again.
    """
    shown = {candidate.key for candidate in screened.candidates}
    gone = [each for each in suspected.candidates if each.key not in shown]
    findings = [
        settle(each, fresh.get(each.key), history, command(each.key.cell_id))
        for each in (*screened.candidates, *(each for each in gone if each.key in fresh))
    ]
    refuted = Confirmation(state="refuted")
    findings += [
        _finding(each, refuted, None, history, command(each.key.cell_id))
        for each in gone
        if each.is_new and each.key not in fresh
    ]
    changed = {each.key for each in findings if each is not None and each.state == "confirmed"}
    return [
        replace(each, **NO_WALL) if wall_of(each.key) in changed else each
        for each in findings
        if each is not None
    ]


def settle(
    candidate: Candidate, fresh: Remeasured | None, history: History, command: str
) -> Finding | None:
    """The finding of a candidate by now; None where it is neither so nor waits any more."""
    earlier = candidate.earlier
    if fresh is not None and fresh.confirmation.state == "confirmed":
        return _finding(candidate, fresh.confirmation, fresh, history, command)
    judged = _by_waiting(candidate, history.is_pinned)
    if earlier is not None and earlier.state == "confirmed":
        if not candidate.is_seen:
            return replace(earlier, key=candidate.key)
        if judged.ratio is None or earlier.blocks:
            return replace(earlier, key=candidate.key, now=candidate.screening.now)
        walls = _walls(candidate, judged, fresh, history)
        return replace(earlier, key=candidate.key, **_amounts(candidate, judged), **walls)
    if fresh is not None and fresh.of_two is None and fresh.confirmation.state == "refuted":
        judged = fresh.confirmation
    becomes = settled(
        FindingState.of(earlier),
        candidate.is_seen,
        is_confirmed=judged.state == "confirmed",
        is_refuted=judged.state == "refuted",
        is_given_up=judged.state == "undecided" and not judged.more_blocks,
    )
    if becomes == FindingState.NONE:
        return None
    if becomes == FindingState.REFUTED and earlier is not None and earlier.state == "refuted":
        return replace(earlier, now=candidate.screening.now)
    return _finding(candidate, judged, fresh, history, command)


def _by_waiting(candidate: Candidate, is_pinned: bool) -> Confirmation:
    metric, since = METRIC_OF[candidate.key.metric], candidate.since
    if not isinstance(metric, Amount):
        words = [word for word in candidate.series.words[since:] if word is not None]
        judged = confirm_words(words, str(candidate.screening.before))
        lacking = max(0, ENOUGH_NIGHTS - len(words))
        return replace(judged, state="undecided", more_blocks=lacking) if lacking else judged
    numbers = candidate.series.numbers
    before = [n for place, n in enumerate(numbers[:since]) if place not in candidate.left_out]
    level = typical(before)  # None with a baseline that was pinned since then
    if candidate.direction == "better" and level is not None:  # as much worse as it is better
        numbers = [number and level * level / number for number in numbers]
    return confirm_by_waiting(
        numbers, since, metric, left_out=candidate.left_out, is_pinned=is_pinned
    )


def _finding(
    candidate: Candidate,
    judged: Confirmation,
    fresh: Remeasured | None,
    history: History,
    command: str,
) -> Finding:
    is_of_pairs = fresh is not None and fresh.confirmation is judged
    cause, moved = _cause(candidate, fresh, history)
    is_failure = candidate.key.metric == FAILURE.name
    return Finding(
        key=candidate.key,
        state="waiting" if judged.state == "undecided" else judged.state,
        direction=candidate.direction,
        **_amounts(candidate, judged, is_of_pairs=is_of_pairs),
        **_walls(candidate, judged, fresh, history, is_of_pairs=is_of_pairs),
        blocks=judged.blocks if is_of_pairs else 0,
        nights=candidate.screening.nights,
        since=candidate.series.points[candidate.since].date,
        cause=cause,
        moved=moved,
        command=command,
        message=history.failures.get(candidate.key.cell_id) if is_failure else None,
    )


def _amounts(
    candidate: Candidate, judged: Confirmation, *, is_of_pairs: bool = False
) -> dict[str, Any]:
    """Before, now and the ratio; where that is of the nights, it is of these two."""
    before, now = candidate.screening.before, candidate.screening.now
    ratio, low, high = judged.ratio, judged.low, judged.high
    if candidate.direction == "better" and ratio and low and high:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    if ratio and not is_of_pairs:
        now = typical(candidate.series.numbers[candidate.since :])
        before = now and now / ratio
    sizes = {"ratio": ratio or candidate.screening.ratio, "ratio_low": low, "ratio_high": high}
    return {"before": before, "now": now, **sizes}


def _cause(
    candidate: Candidate, fresh: Remeasured | None, history: History
) -> tuple[Cause, tuple[Change, ...]]:
    """And what moved: by pairs of two softwares, else on the first night that shows it."""
    if fresh is None and candidate.earlier is not None:
        return candidate.earlier.cause, candidate.earlier.moved
    moved = history.moved(candidate.series, candidate.since)
    if fresh is not None and fresh.of_two is not None:
        if fresh.confirmation.state == "confirmed":
            return "software", fresh.of_two
        pairs = fresh.confirmation  # words have no interval
        if pairs.state != "refuted" or (pairs.low is not None and pairs.low > 1):
            return "unknown", moved  # part of it may be the software's
        moved = tuple(change for change in moved if change.part in (WORKLOAD, *MACHINE))
    parts = {change.part for change in moved}
    is_machine = not parts.isdisjoint(PHYSICAL)
    if not parts.isdisjoint((*SOFTWARE, WORKLOAD)):
        return ("unknown" if is_machine else "software"), moved
    old, new = history.workload_change(candidate.key, candidate.since)
    is_unexplained = not parts.issubset(MACHINE) or bool(old and not new)
    return ("unknown" if is_unexplained and not is_machine else "hardware"), moved


# --- Wall time, where device time changed ---


def wall_of(key: SeriesKey) -> SeriesKey:
    return replace(key, metric=STEADY_WALL.name)


def _walls(
    candidate: Candidate,
    judged: Confirmation,
    fresh: Remeasured | None,
    history: History,
    *,
    is_of_pairs: bool = False,
) -> dict[str, Any]:
    """For a device time: the ratio of wall times from the same pairs or nights, where the loop waits for the CPU."""
    device, key = candidate.series, wall_of(candidate.key)
    wall = next((one for one in history.series if one.key == key), None)
    if device.key.metric != STEADY_DEVICE.name or wall is None or judged.ratio is None:
        return {}
    pairs = list(zip(wall.numbers, device.numbers, strict=True))
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not both or both[-1][0] <= LAUNCH_BOUND * both[-1][1]:
        return {}
    if is_of_pairs:
        of_wall = fresh.wall if fresh is not None else None
    else:
        of_wall = confirm_by_waiting(
            [None if other is None else one for one, other in pairs],
            candidate.since,
            STEADY_WALL,
            left_out=candidate.left_out,
            is_pinned=history.is_pinned,
        )
    if of_wall is None or of_wall.low is None:
        return {}
    ends = {"wall_ratio_low": of_wall.low, "wall_ratio_high": of_wall.high}
    return {"wall_ratio": of_wall.ratio, **ends}
