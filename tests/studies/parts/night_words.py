"""Made-up nights of words: kernels that processes draw, bits, failures and missing cells, by the code of a real night."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from cudnn_sweep.analysis.nights.candidates import Candidate, FreshTrials, Remeasured
from cudnn_sweep.analysis.nights.findings import remembered
from cudnn_sweep.analysis.nights.history import History, Row
from cudnn_sweep.analysis.nights.outcome import NightOutcome
from cudnn_sweep.analysis.nights.series import (
    ENGINE,
    FAILURE,
    MISSING,
    REPEATS,
    Category,
    Series,
    SeriesKey,
)
from cudnn_sweep.analysis.nights.settle import compare_night
from tests.made_up_night import history_of, key_of, made_up_night, points_of
from tests.studies.parts.simulated_nights import FRESH, PROCESSES

CHANGE = 30  # the night of a change
IN_TIME = 3  # nights for it to be found in
FIRST = date(2026, 1, 1)
MOST_FALSE = 1.0  # alerts of nothing in 100 series and 30 nights


@dataclass(frozen=True, kw_only=True, slots=True)
class WordNights:
    """What the processes of a night show, by chance."""

    meaning: str
    metric: Category
    usual: Mapping[str, float]
    """The probability of each word."""
    changed: Mapping[str, float] | None = None
    """The same from night CHANGE on, if something changes."""
    is_held: bool = True
    """Whether its alerts are false: what does not repeat is no false alert, only its night is by chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordFigures:
    nights: WordNights
    alerts: float
    """In 100 series and 30 nights; before the change if there is one."""
    found: float | None
    """Share of the changes with an alert within IN_TIME nights."""

    @property
    def is_missed(self) -> bool:
        return self.nights.is_held and self.alerts > MOST_FALSE


def simulate_words(series: int, nights: int, seed: int) -> Iterator[WordFigures]:
    for place, each in enumerate(WORDS):
        yield try_words(each, series, nights, np.random.default_rng([seed, place]))


def try_words(
    words: WordNights, series: int, nights: int, generator: np.random.Generator
) -> WordFigures:
    shape = (series, nights, PROCESSES + FRESH)
    drawn = _drawn(words.usual, shape, generator)
    if words.changed is not None:
        drawn[:, CHANGE:] = _drawn(words.changed, shape, generator)[:, CHANGE:]
    alerts = [*_alerts(words.metric, drawn)]
    last = nights if words.changed is None else CHANGE
    false = [alert for alert, night in alerts if night < last]
    in_time = {key for (key, _), night in alerts if CHANGE <= night < CHANGE + IN_TIME}
    return WordFigures(
        nights=words,
        alerts=100 * 30 * len(false) / series / last,
        found=None if words.changed is None else len(in_time) / series,
    )


def _drawn(
    chances: Mapping[str, float], shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    return generator.choice([*chances], shape, p=[*chances.values()])


def _alerts(metric: Category, drawn: np.ndarray) -> Iterator[tuple[tuple[str, date], int]]:
    """Each new alert, as its series and its begin, and the night that raised it."""
    series, nights, _ = drawn.shape
    keys = [key_of(metric.name, cell_id=f"cell {place}") for place in range(series)]
    words = [[_word(metric, each[:PROCESSES]) for each in one] for one in drawn]
    before: NightOutcome | None = None
    known: set[tuple[str, date]] = set()
    for tonight in range(nights):
        before = _compared(keys, words, drawn[:, tonight], tonight, before)
        alerts = {(each.key.series_id, each.since) for each in before.alerts}
        yield from ((alert, tonight) for alert in alerts - known)
        known |= alerts


def _compared(
    keys: Sequence[SeriesKey],
    words: list[list[str]],
    processes: np.ndarray,
    tonight: int,
    before: NightOutcome | None,
) -> NightOutcome:
    """Tonight's outcome. The fresh processes of a suspect join the night's kernels."""

    def measure(candidates: Sequence[Candidate]) -> Mapping[SeriesKey, Remeasured]:
        rows: list[Row] = []
        for each in candidates:
            place, key = keys.index(each.key), each.key
            fresh = processes[place, PROCESSES:]
            rows += [
                _row(key, block, word) for block, word in enumerate(fresh) if word != "missing"
            ]
            if key.metric == ENGINE.name:
                words[place][tonight] = _word(ENGINE, processes[place])
        trials = FreshTrials(processes=rows, signs=[], pairs=[], softwares={})
        return trials.judge_all(candidates, None, is_cut=False)

    def read() -> History:
        return _history(keys, words, tonight)

    history = read()
    blank = replace(made_up_night()[0], night="tonight", date=history.tonight.date)
    memory = remembered(before, (), history)
    return compare_night(blank, history, memory, measure, read, lambda _: "again")[0]


def _history(keys: Sequence[SeriesKey], words: list[list[str]], tonight: int) -> History:
    nights = [*zip(keys, (one[: tonight + 1] for one in words), strict=True)]
    series = tuple(Series(key=key, points=points_of(values, FIRST)) for key, values in nights)
    return replace(history_of(*nights[0], FIRST), series=series)


def _row(key: SeriesKey, block: int, word: str) -> Row:
    named = {"cell_id": key.cell_id, "settings": key.settings, "software": None, "block": block}
    return {**named, key.metric: word}


def _word(metric: Category, processes: Sequence[str]) -> str:
    """The night's, as the question night_series has it."""
    shown = [str(each) for each in processes]
    if metric == ENGINE:
        return max(sorted(set(shown)), key=shown.count)
    if metric == MISSING:
        return shown[0]
    return next((word for word in shown if word != metric.good), str(metric.good))


def _kernels(*shares: float) -> dict[str, float]:
    return {f"kernel {place}": share for place, share in enumerate(shares)}


def _bits(share: float) -> dict[str, float]:
    return {"repeat": 1 - share, "differ between processes": share}


WORDS = (
    *(
        WordNights(
            meaning="kernels drawn " + " / ".join(f"{100 * share:.0f}" for share in shares),
            metric=ENGINE,
            usual=_kernels(*shares),
        )
        for shares in (
            (0.95, 0.05),
            (0.9, 0.1),
            (0.8, 0.2),
            (0.6, 0.4),
            (0.5, 0.2, 0.1, 0.1, 0.05, 0.05),
        )
    ),
    WordNights(
        meaning="other kernels from night 30 on",
        metric=ENGINE,
        usual=_kernels(1.0),
        changed={"another": 1.0},
    ),
    *(
        WordNights(
            meaning=f"bits of {100 * share:g}% of processes differ",
            metric=REPEATS,
            usual=_bits(share),
            is_held=False,
        )
        for share in (0.005, 0.02, 0.1)
    ),
    WordNights(
        meaning="bits of half of the processes differ from night 30 on",
        metric=REPEATS,
        usual=_bits(0.0),
        changed=_bits(0.5),
    ),
    WordNights(meaning="2% of trials crash", metric=FAILURE, usual={"ok": 0.98, "crash": 0.02}),
    WordNights(
        meaning="each trial crashes from night 30 on",
        metric=FAILURE,
        usual={"ok": 1.0},
        changed={"crash": 1.0},
    ),
    WordNights(
        meaning="cells missing in 2% of nights",
        metric=MISSING,
        usual={"present": 0.98, "missing": 0.02},
    ),
    WordNights(
        meaning="cells missing from night 30 on",
        metric=MISSING,
        usual={"present": 1.0},
        changed={"missing": 1.0},
    ),
)
