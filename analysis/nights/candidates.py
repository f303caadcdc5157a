"""Finds the candidates, which are changes that may be real, and judges them by fresh trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.settings import config_name, texts_in
from cudnn_sweep.analysis.nights.detect import (
    LOOKS,
    confirm,
    confirm_by_nights,
    confirm_words,
    newest,
    screen,
    screen_words,
    smallest_step,
)
from cudnn_sweep.analysis.nights.findings import Memory
from cudnn_sweep.analysis.nights.history import (
    SOFTWARE_AND_COMMIT,
    History,
    Row,
    date_of,
    differences,
    sign_rows,
)
from cudnn_sweep.analysis.nights.outcome import Direction, Finding
from cudnn_sweep.analysis.nights.series import (
    ENGINE,
    LAUNCH_BOUND,
    METRIC_OF,
    MISSING,
    REPEATS,
    SIGN,
    STEADY_DEVICE,
    STEADY_WALL,
    Amount,
    Category,
    Change,
    Confirmation,
    Screening,
    Series,
    SeriesKey,
    typical,
)
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.store import Store

DIRECTIONS: dict[str, Direction] = {"worse": "worse", "better": "better", "different": "other"}
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    series: Series
    direction: Direction
    since: int
    """Index of the first point that shows the change."""
    screening: Screening
    is_seen: bool
    """Whether tonight's values show the change. False if only an older alert lasts."""
    earlier: Finding | None
    """Last night's finding about the same change. None if the change is new."""
    left_out: frozenset[int]
    """Indices of the points that other nights are not compared with."""
    alert: Finding | None = None
    """Last night's alert of the series, if the change has grown since then."""

    @property
    def key(self) -> SeriesKey:
        return self.series.key

    @property
    def is_new(self) -> bool:
        """Whether fresh trials must measure the change."""
        is_word = isinstance(METRIC_OF[self.key.metric], Category)
        is_known = self.earlier and not (is_word and self.earlier.state == "waiting")
        return self.is_seen and self.direction != "better" and not is_known and not self.is_news

    @property
    def is_news(self) -> bool:
        return self.screening.is_news and self.earlier is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Screened:
    candidates: tuple[Candidate, ...]
    series: tuple[Series, ...]
    """All series of tonight, with `smallest_step`, `is_judged` and `could_show` set."""


def screen_all(history: History, memory: Memory) -> Screened:
    earlier = {finding.key.series_id: finding for finding in memory.findings}
    by_key = {series.key: series for series in history.series}
    rechosen = {
        key
        for key, series in by_key.items()
        if key.metric == ENGINE.name
        and screen_words(series.words, ENGINE, softwares=history.softwares(key)).is_news
    }
    candidates: list[Candidate | None] = []
    judged: list[Series] = []
    for whole in history.series:
        series = _of_this_machine(whole, by_key.get(whole.key.of(STEADY_DEVICE)))
        left_out, finding = memory.nights_left_out(series), earlier.get(series.key.series_id)
        softwares = history.softwares(series.key)
        is_new = newest(softwares) == len(series.points) - 1
        metric = METRIC_OF[series.key.metric]
        is_word = isinstance(metric, Category) and not metric.is_drawn
        is_again = {"waiting": is_new, "refuted": is_new or is_word}
        if finding and is_again.get(finding.state):
            finding = None
        if isinstance(metric, Amount) and metric.unit == "ms":  # times may be odd with new software
            is_new = is_new and series.key.of(ENGINE) in rechosen
        elif finding and finding.state == "waiting":  # its nights are not usual yet
            left_out |= {
                at for at, point in enumerate(series.points) if point.date >= finding.since
            }
        screening, seen = _screened(
            series, left_out, softwares, is_new=is_new, is_pinned=history.is_pinned
        )
        if series is not whole and series.points[-1].value is not None and not seen.is_judged:
            seen = replace(seen, is_judged=True, could_show=False)  # too few nights on this machine
        judged.append(replace(seen, points=whole.points))
        candidates.append(_candidate(series, screening, finding, left_out))
    return Screened(candidates=tuple(filter(None, candidates)), series=tuple(judged))


def _of_this_machine(series: Series, device: Series | None) -> Series:
    """Drop other machines' wall times if the loop is CPU-bound. CPUs differ by several percent."""
    wall, tonight = series.numbers[-1], series.points[-1]
    gpu = device.numbers[-1] if device is not None else None
    is_wall = series.key.metric == STEADY_WALL.name
    if not is_wall or wall is None or gpu is None or wall <= LAUNCH_BOUND * gpu:
        return series
    elsewhere = {
        point
        for point in series.points
        if point.host and point.host != tonight.host and point.gpu_uuid != tonight.gpu_uuid
    }
    here = (replace(point, value=None) if point in elsewhere else point for point in series.points)
    return replace(series, points=tuple(here)) if elsewhere else series


def _screened(
    series: Series,
    left_out: frozenset[int],
    softwares: Sequence[object],
    *,
    is_new: bool,
    is_pinned: bool,
) -> tuple[Screening, Series]:
    metric, numbers, step = METRIC_OF[series.key.metric], series.numbers, None
    if isinstance(metric, Amount):
        screening = screen(numbers, metric, left_out, is_pinned=is_pinned, is_new=is_new)
        step = smallest_step(numbers, metric, left_out, is_pinned=is_pinned)
        could_show = step is not None and step <= metric.min_effect
    else:
        screening = screen_words(series.words, metric, left_out=left_out, softwares=softwares)
        could_show = screening.could_show
    if screening.state == "insufficient_data":
        return screening, replace(series, is_judged=False)
    return screening, replace(series, smallest_step=step, could_show=could_show)


def _candidate(
    series: Series, screening: Screening, earlier: Finding | None, left_out: frozenset[int]
) -> Candidate | None:
    direction, since = DIRECTIONS.get(screening.state), screening.first_bad_night_index
    is_seen, alert = direction is not None, None
    if earlier is not None and _lasts(earlier, screening):
        is_seen, direction = direction == earlier.direction, earlier.direction
        since = series.place_of(earlier.since)
        if is_seen and since is not None and (grown := _grown_since(series, earlier, since)):
            since, earlier, alert = grown, None, earlier
        elif not is_seen:
            screening = replace(screening, before=earlier.before, now=series.points[-1].value)
    elif since is not None:
        earlier = earlier if earlier is not None and earlier.direction == direction else None
        if isinstance(screening.before, float):
            since = _with_new_software(series, screening.before, since)
        elif earlier is not None:  # the value is a word
            since = series.place_of(earlier.since)
    if direction is None or since is None:
        return None
    return Candidate(
        series=series,
        direction=direction,
        since=since,
        screening=screening,
        is_seen=is_seen,
        earlier=earlier,
        left_out=left_out,
        alert=alert,
    )


def _lasts(earlier: Finding, screening: Screening) -> bool:
    """Return whether last night's alert or gain still exists."""
    is_mended = screening.is_mended and screening.state != "insufficient_data"
    is_shown = DIRECTIONS.get(screening.state) == earlier.direction
    is_over = is_mended or earlier.direction == "better"
    return earlier.state == "confirmed" and (is_shown or not is_over)


def _grown_since(series: Series, alert: Finding, since: int) -> int | None:
    """Return the index of the night on which an alert grew. Return None if it did not grow."""
    metric, own, reported = METRIC_OF[series.key.metric], series.numbers[since:], alert.ratio_high
    if not isinstance(metric, Amount) or not isinstance(alert.before, float) or reported is None:
        return None
    first = screen(own, metric).first_bad_night_index
    now = typical(own[first:])
    if first is None or now is None or now <= reported * alert.before:
        return None
    is_confirmed = confirm_by_nights(own, first, metric).state == "confirmed"
    return since + first if is_confirmed else None


def _with_new_software(series: Series, before: float, since: int) -> int:
    """Move `since` to a later change of software if values until then are still near `before`."""
    points, numbers = series.points, series.numbers
    for at in range(since + 1, len(points)):
        suspect, now = typical(numbers[since:at]), typical(numbers[at:])
        is_new = points[at].software_hash != points[at - 1].software_hash
        if is_new and suspect and now and abs(log(suspect / before)) < abs(log(suspect / now)):
            since = at
    return since


@dataclass(frozen=True, kw_only=True, slots=True)
class Remeasured:
    confirmation: Confirmation
    of_two: tuple[Change, ...] | None
    """Differences between the current and the last good software. None if only one of them ran. For
    a Category, also None if software is not the cause."""
    wall: Confirmation | None = None
    """Judgement of the wall times in the same pairs, if the metric is the device time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshTrials:
    """Fresh trials of new candidates, with the current or the last good software."""

    processes: Sequence[Row]
    signs: Sequence[Row]
    pairs: Sequence[Row]
    softwares: Mapping[str | None, Row]
    """Versions of each software, by its name. The key None is the current software."""

    def differences(self) -> tuple[Change, ...] | None:
        own = self.softwares.get(None)
        last_good = [parts for name, parts in self.softwares.items() if name is not None]
        return differences(last_good[0], own, SOFTWARE_AND_COMMIT) if own and last_good else None

    def judge_all(
        self, candidates: Sequence[Candidate], of_two: tuple[Change, ...] | None, *, is_cut: bool
    ) -> dict[SeriesKey, Remeasured]:
        """Judge candidates (only words if `of_two` is None). If `is_cut`, trials may be missing."""
        judged = {}
        for candidate in candidates:
            key, metric = candidate.key, METRIC_OF[candidate.key.metric]
            if isinstance(metric, Category):
                judged[key] = self._judge_words(candidate, of_two, is_cut=is_cut)
            elif of_two is not None:
                judged[key] = self._judge_pairs(key, metric, of_two)
        return judged

    def _judge_pairs(
        self, key: SeriesKey, metric: Amount, of_two: tuple[Change, ...]
    ) -> Remeasured:
        ratios, alike = self._log_ratios(key, metric), self._alike(key)
        pairs = confirm([*ratios.values()], metric.min_effect, [block in alike for block in ratios])
        if len(ratios) < min(LOOKS):  # too few pairs for a test
            pairs = replace(pairs, state="undecided")
        wall = None
        if metric == STEADY_DEVICE:
            blocks = ratios.keys() if pairs.blocks == len(ratios) else ratios.keys() & alike
            walls = self._log_ratios(key, STEADY_WALL)
            of_blocks = [ratio for block, ratio in walls.items() if block in blocks]
            wall = confirm(of_blocks, STEADY_WALL.min_effect)
        has_wall = wall is not None and wall.blocks == pairs.blocks
        return Remeasured(confirmation=pairs, of_two=of_two, wall=wall if has_wall else None)

    def _judge_words(
        self, candidate: Candidate, of_two: tuple[Change, ...] | None, *, is_cut: bool
    ) -> Remeasured:
        """Judge a Category. The cause is software if the last good software gives the old value."""
        key, before = candidate.key, str(candidate.screening.before)
        words, good = self._words(key), {*self._words(key, of_last_good=True)}
        judged = confirm_words(words, before, is_strict=key.metric == REPEATS.name)
        if key.metric == MISSING.name and not words:
            judged = Confirmation(state="confirmed")
        if is_cut and key.metric != SIGN.name and len(words) < min(LOOKS):
            judged = replace(judged, state="undecided")
        is_software = judged.state == "confirmed" and good == {before}
        return Remeasured(confirmation=judged, of_two=of_two if is_software else None)

    def _log_ratios(self, key: SeriesKey, metric: Amount) -> dict[int, float]:
        """Return each block's log ratio of current to last good software."""
        rows = [row for row in self.pairs if row["metric"] == metric.name and _is_of(row, key)]
        now, good = (metric.logs([row[of] for row in rows]) for of in ("candidate", "baseline"))
        ratios: list[float] = (now - good).tolist()
        return dict(zip((row["block"] for row in rows), ratios, strict=True))

    def _alike(self, key: SeriesKey) -> set[int]:
        """Return the blocks in which current and last good software ran the same kernels."""
        rows = [row for row in self.processes if _is_of(row, key) and row[ENGINE.name] is not None]
        good = {(row["block"], row[ENGINE.name]) for row in rows if row["software"] is not None}
        own = {(row["block"], row[ENGINE.name]) for row in rows if row["software"] is None}
        return {block for block, _ in good & own}

    def _words(self, key: SeriesKey, *, of_last_good: bool = False) -> list[str]:
        """Return the words of the fresh processes, or the verdicts for the metric `sign`."""
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


def read_fresh(
    store: Store, launch: str, confirm_id: str, contrasts: Sequence[Contrast]
) -> FreshTrials:
    until = str(date_of(confirm_id))
    with open_database(store, confirm_id) as database:

        def rows(sql: str, **values: str) -> list[Row]:
            return list(database.query(sql, {"sweep_id": confirm_id, **values}).to_pylist())

        return FreshTrials(
            processes=rows(PROCESSES, launch=launch, until=until),
            signs=sign_rows(database, contrasts, launch=launch, until=until),
            pairs=database.ask("software_pairs").to_pylist(),
            softwares={row["software"]: row for row in rows(SOFTWARES)},
        )
