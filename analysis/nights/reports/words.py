"""Texts about findings, series and nights for all reports of a night."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import isfinite, nan
from statistics import median
from typing import Literal, TypeAlias

from cudnn_sweep.analysis.nights.findings import SHARED
from cudnn_sweep.analysis.nights.outcome import Finding, Machine, NightOutcome, NightState
from cudnn_sweep.analysis.nights.series import (
    BITS,
    ENGINE,
    METRIC_OF,
    SIGN,
    Amount,
    Category,
    Change,
    Series,
    SeriesKey,
)
from cudnn_sweep.analysis.words import (
    TWICE,
    change,
    counted,
    duration,
    number,
    one_line,
    part_text,
    percent,
    ratio,
    size,
    some,
)

Group: TypeAlias = Literal["alert", "changed", "waiting", "better", "refuted"]
TITLES: dict[Group, str] = {
    "alert": "Alerts",
    "changed": "Changed with the software",
    "waiting": "Not decided yet",
    "better": "Better than before",
    "refuted": "Refuted when measured again",
}
BLUNT = "too noisy to see the least effect"
WHY: dict[NightState, str] = {"could_not_tell": "Could not tell", "learning": "Still learning"}
MOST_CHARACTERS = 200  # most characters of a failure's message
MOST_KERNELS = 3  # most kernels that are named on each side
BARS = "▁▂▃▄▅▆▇█"
BEYOND = 0.3  # larger distances from the median, as a share of it, are cut off
LEAST_SPAN = 0.1  # least height of a chart, as a share of its largest value
AS_USUAL = 0.02  # smaller changes of a calibration's speed are usual


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingText:
    finding: Finding
    sweep_id: str
    with_gpu: bool = False
    """Whether `cell` includes the name of the GPU."""

    @property
    def key(self) -> SeriesKey:
        return self.finding.key

    @property
    def group(self) -> Group:
        if self.finding.is_alert:
            return "alert"
        if self.finding.is_news:
            return "changed"
        return "better" if self.finding.state == "confirmed" else self.finding.state

    @property
    def is_of_many(self) -> bool:
        return self.key.metric == SHARED

    @property
    def cell(self) -> str:
        return one_line(f"{self.key.cell} on {self.key.gpu}" if self.with_gpu else self.key.cell)

    @property
    def levels(self) -> str:
        """The text `before → now`, with units. Empty for a shared finding."""
        if self.key.metric == BITS.name:
            return "different from before"
        values = (self.finding.before, self.finding.now)
        if self.key.metric == ENGINE.name:
            return _rechosen(*map(str, values))
        return "" if self.is_of_many else " → ".join(amount(self.key, value) for value in values)

    @property
    def change(self) -> str:
        finding = self.finding
        if self.is_of_many:
            place = finding.key.cell.rpartition(" on ")[2]
            text = f"{finding.now} on {place} are "
            text += "slower" if finding.direction == "worse" else "faster"
            if finding.wall_ratio is not None:
                return f"{text}: {_ratio(finding)}"
            return f"{text}, typically by {percent(abs((finding.ratio or 1.0) - 1))}"
        size = self.levels if finding.ratio is None else _ratio(finding)
        message = one_line(finding.message or "")[:MOST_CHARACTERS]
        return f"{size} ({message})" if message else size

    @property
    def size(self) -> str:
        levels = "" if self.change.startswith(self.levels) else f" ({self.levels})"
        return f"{self.change}{levels}"

    @property
    def basis(self) -> str:
        nights = counted(self.finding.nights, "night")
        return f"compared with {nights}, since {self.finding.since}; {_confirmation(self.finding)}"

    @property
    def kernels(self) -> str:
        change = self.finding.kernels
        return _rechosen(change.before, change.now) if change is not None else ""

    @property
    def look(self) -> str:
        """Command that lists the night's failures, if the finding is about a failure."""
        is_failure = self.finding.message is not None
        return f"sweep query failures --sweep-id {self.sweep_id}" if is_failure else ""


def finding_texts(outcome: NightOutcome) -> list[FindingText]:
    several = len({finding.key.gpu for finding in outcome.findings}) > 1
    return [
        FindingText(finding=finding, sweep_id=outcome.night, with_gpu=several)
        for finding in outcome.findings
    ]


def facts(outcome: NightOutcome) -> list[tuple[str, str]]:
    seconds = (outcome.ended_at - outcome.started_at).total_seconds()
    return [
        ("night", outcome.night),
        ("launch file", outcome.launch_file),
        ("suite", outcome.suite),
        ("started", f"{outcome.started_at:%Y-%m-%d %H:%M %Z}".strip()),
        ("took", duration(seconds)),
        *([("GPU hours", number(outcome.gpu_hours))] if outcome.gpu_hours is not None else []),
        *([("not measured", not_measured(outcome))] if outcome.skipped else []),
        ("trials", f"{outcome.recorded_trials:,} of {outcome.planned_trials:,} recorded"),
        ("comparable nights before", f"{outcome.nights:,}"),
        ("series as they were", f"{outcome.fine_series:,}"),
        (f"series {BLUNT}", f"{outcome.blunt_series:,}"),
        ("series with too few nights", f"{outcome.insufficient_series:,}"),
        *(("machine", machine(place)) for place in outcome.machines),
        *(("accepted", line) for line in acceptances(outcome)),
    ]


def not_measured(outcome: NightOutcome) -> str:
    """Return the names of the networks that were not measured, with the reason for the first."""
    return one_line(": ".join([", ".join(outcome.skipped), *outcome.skipped.values()][:2]))


def acceptances(outcome: NightOutcome) -> list[str]:
    """Return a line for each date and reason of accepted changes."""
    by_reason: dict[tuple[date, str], list[SeriesKey]] = {}
    for accepted in outcome.accepted:
        by_reason.setdefault((accepted.first, accepted.reason), []).append(accepted.key)
    lines = []
    for (first, reason), (key, *further) in by_reason.items():
        more = f" and {len(further):,} more series" if further else ""
        words = f"{key.cell} · {key.settings}, {meaning(key)}{more}"
        lines.append(one_line(f"{words}: from {first} on, {reason}"))
    return lines


def machine(place: Machine) -> str:
    trials = f"{place.trials:,} trials"
    words = [place.gpu, place.gpu_uuid, f"on {place.host}", place.cpu_model, trials]
    shares = (("matrix product", place.matmul), ("copy", place.copy))
    measured = [f"{label} {ratio(share)}" for label, share in shares if share is not None]
    name = ", ".join(word for word in words if word)
    is_usual = all(abs(share - 1) < AS_USUAL for _, share in shares if share is not None)
    speeds = f"speed divided by usual speed: {', '.join(measured)}"
    text = "calibration as usual" if is_usual else speeds
    return one_line(f"{name}; {text}" if measured else name)


def how_to_accept(outcome: NightOutcome, finding: Finding, results: str | None = None) -> str:
    """Return the command that accepts a finding. `results` is the value of its `--results`."""
    words = ["sweep", "nightly", outcome.launch_file]
    words += ["--results", results] if results is not None else []
    words += ["--accept", finding.key.series_id, "--from", str(finding.since), "--reason", "TEXT"]
    return shlex.join(words)


def smallest_step(series: Series) -> str:
    metric = METRIC_OF.get(series.key.metric)
    if series.smallest_step is None or not isinstance(metric, Amount):
        return ""
    step, least = (f"{number(100 * share)}%" for share in (series.smallest_step, metric.min_effect))
    return step if series.could_show else f"{step}, the least effect is {least}"


def history(series: Series) -> str:
    """Draw a bar for each night, followed by the first and the last value."""
    values = [word for word in series.words if word is not None]
    words = list(dict.fromkeys(values))
    if words:
        heights = [nan if word is None else words.index(word) for word in series.words]
        ends = f"{values[0]} to {values[-1]}"
    else:
        heights = [nan if value is None else value for value in series.numbers]
        first, last = (amount(series.key, series.points[at].value) for at in (0, -1))
        ends = f"{first} to {last}"
    there = list(filter(isfinite, heights))
    usual = median(there) if there else 0.0
    near = [height for height in there if words or abs(height - usual) <= BEYOND * abs(usual)]
    low, high = min(near, default=0.0), max(near, default=0.0)
    span = max(high - low, LEAST_SPAN * abs(high)) or 1.0
    places = (0.5 + (height - (low + high) / 2) / span for height in heights)
    highest = len(BARS) - 1
    bars = (BARS[round(highest * min(max(at, 0.0), 1.0))] if isfinite(at) else "·" for at in places)
    return f"{''.join(bars)} {ends}"


def meaning(key: SeriesKey) -> str:
    metric = METRIC_OF.get(key.metric)
    return metric.meaning if metric else "times" if key.metric == SHARED else key.metric


def unit(key: SeriesKey) -> str | None:
    metric = METRIC_OF.get(key.metric)
    return metric.unit if isinstance(metric, Amount) else None


def amount(key: SeriesKey, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return "nothing" if value is None else one_line(value)
    if unit(key) == "bytes":
        return size(value)
    return f"{number(value)} ms" if unit(key) == "ms" else number(value)


def moves(changes: Sequence[Change]) -> str:
    return ", ".join(f"{part(change)} {' → '.join(values(change))}" for change in changes)


def values(change: Change) -> tuple[str, str]:
    return part_text(change.part, change.before), part_text(change.part, change.now)


def part(change: Change) -> str:
    return "cudnn-sweep" if change.part == "version" else change.part


def _ratio(finding: Finding) -> str:
    assert finding.ratio is not None
    size = change(finding.ratio, finding.ratio_low, finding.ratio_high)
    if finding.wall_ratio is None:
        return size
    ends = (finding.wall_ratio_low, finding.wall_ratio_high)
    return beside_wall(size, change(finding.wall_ratio, *ends))


def _rechosen(before: str, now: str) -> str:
    """Return `before → now` with only the kernels that differ."""
    old, new = before.split(", "), now.split(", ")
    gone = [name for name in old if name not in new]
    come = [name for name in new if name not in old]
    if not gone and not come:
        return "the same kernels in another order"
    return one_line(" → ".join(some(side, MOST_KERNELS) or "none" for side in (gone, come)))


def beside_wall(device: str, wall: str) -> str:
    return f"device time {device}; the loop is CPU-bound: wall time {wall}"


def percent_or_times(low: float, high: float) -> str:
    """Format a range of ratios, for example as `3 to 5% more` or `2 to 3 times as much`."""
    if 1 / TWICE < low and round(high, 2) < TWICE and (low >= 1 or high < 1):
        sign, word = (1, "more") if low >= 1 else (-1, "less")
        ends = sorted({number(100 * sign * (end - 1)) for end in (low, high)}, key=float)
        return f"{' to '.join(ends)}% {word}"
    ends = list(dict.fromkeys([number(low), number(high)]))
    return f"{' to '.join(ends)} times as much"


def _confirmation(finding: Finding) -> str:
    fresh = "pair"
    if isinstance(METRIC_OF.get(finding.key.metric), Category):
        fresh = "verdict" if finding.key.metric == SIGN.name else "trial"
    by = counted(finding.blocks, f"fresh {fresh}")
    if finding.state == "waiting":
        after = f"undecided after {by}" if finding.blocks else "not confirmed yet"
        return f"{after}, more nights are needed"
    if finding.is_news:
        return "reported once, without an alert"
    return f"{finding.state} by {by if finding.blocks else 'the nights since then'}"


def cause(finding: Finding) -> str:
    if not finding.moved:
        return "nothing known has changed"
    cause = "changed at the same time" if finding.cause == "unknown" else finding.cause
    return f"{cause}: {moves(finding.moved)}"
