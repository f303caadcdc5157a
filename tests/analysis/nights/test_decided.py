"""What the detector decides about series with edges: lengths, late steps, gaps, odd nights, new software.

`python -m tests.analysis.nights.test_decided` writes what it decides now.
"""

import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cudnn_sweep.analysis.nights.detect import (
    confirm,
    confirm_by_nights,
    screen,
    screen_words,
    smallest_step,
)
from cudnn_sweep.analysis.nights.series import (
    METRIC_OF,
    PEAK_MEMORY,
    STEADY_WALL,
    Category,
    Confirmation,
    Screening,
)

KEPT = Path(__file__).with_name("decided.txt.xz")
# Of the usual time: fine, worse, better, at the least effect, just below the line; no value.
FACTORS = {"f": 1.0, "w": 1.06, "b": 0.94, "e": 1.03, "l": 1.0195, ".": None}
TAILS = [
    "fww",
    "wfw",
    "wwf",
    "www",
    "ffw",
    "wff",
    "fbb",
    "bfb",
    "bbb",
    "eee",
    "fee",
    "fll",
    "w.w",
    "ww.",
    "wfwfw",
    "bbbbbbb",
    "wwwwwwww",
    "fffffff..ww",
]
LENGTHS = (3, 4, 8, 12, 34)  # nights before the tail


def numbers(nights: int, tail: str, *, odd: bool) -> list[float | None]:
    """Return times that move by half a percent, then the tail; `odd`: one night is 20% slower."""
    usual = [10 * (1 + 0.005 * ((night * 7) % 5 - 2) / 2) for night in range(nights)]
    if odd:
        usual[nights // 2] = 12.0
    factors = [FACTORS[letter] for letter in tail]
    return [*usual, *(None if factor is None else 10 * factor for factor in factors)]


def in_short(result: Screening | Confirmation) -> str:
    if isinstance(result, Confirmation):
        ends = (result.ratio, result.low, result.high)
        amounts = " ".join("-" if end is None else f"{end:.4f}" for end in ends)
        return f"{result.state} {amounts} of {result.blocks}, {result.more_blocks} more"
    amounts = " ".join(
        f"{end:.4f}" if isinstance(end, float) else f"{end}"
        for end in (result.before, result.now, result.ratio)
    )
    flags = [name for name in ("is_mended", "could_show", "is_news") if getattr(result, name)]
    at = result.first_bad_night_index
    return f"{result.state} {amounts} from {at} of {result.nights} {' '.join(flags)}".strip()


def of_numbers() -> Iterator[str]:
    for nights in LENGTHS:
        for tail in TAILS:
            for odd in (False, True):
                values = numbers(nights, tail, odd=odd)
                head = f"{nights}{' odd' * odd} {tail}"
                yield f"{head}: {in_short(screen(values, STEADY_WALL))}"
                yield f"{head}, new: {in_short(screen(values, STEADY_WALL, is_new=True))}"
                left_out, bytes_ = {nights - 1}, [v and v * 2**28 for v in values]
                pinned = screen(bytes_, PEAK_MEMORY, left_out, is_pinned=True, is_new=True)
                yield f"{head}, pinned: {in_short(pinned)}"
                for first in (nights, nights + len(tail) - 1):
                    found = confirm_by_nights(values, first, STEADY_WALL)
                    yield f"{head}, nights from {first}: {in_short(found)}"
                step = smallest_step(values, STEADY_WALL, left_out, is_pinned=odd)
                yield f"{head}, step: {step and round(step, 5)}"


def of_creeps() -> Iterator[str]:
    for nights in (30, 34, 50):
        values = [10 * 1.002**night for night in range(nights)]
        yield f"creep {nights}: {in_short(screen(values, STEADY_WALL))}"
        yield f"creep {nights}, pinned: {in_short(screen(values, STEADY_WALL, is_pinned=True))}"
        gain = screen(values[::-1], STEADY_WALL)
        yield f"gain {nights}: {in_short(gain)}"
        for first in (nights - 7, nights - 6):
            late = confirm_by_nights(values, first, STEADY_WALL, {2}, is_pinned=nights == 34)
            yield f"creep {nights}, nights from {first}: {in_short(late)}"


def of_words() -> Iterator[str]:
    generator = np.random.default_rng(7)
    metrics = [metric for metric in METRIC_OF.values() if isinstance(metric, Category)]
    ends = ["", "b", "bb", "bab", "abb", "bba", "c", "cbc", ".", "b.b", "bbbbbbb", "ccbb"]
    for nights in (1, 2, 5, 6, 9, 10, 13, 30):
        for end in ends:
            shares = [0.85, 0.15] if nights % 2 else [1.0, 0.0]
            letters = "".join(generator.choice(["a", "b"], size=nights, p=shares)) + end
            for metric in metrics:
                yield f"{letters} {metric.name}: {of_letters(letters, metric)}"


def of_letters(letters: str, metric: Category) -> str:
    words = {"a": metric.good or "a", "b": "b", "c": "c", ".": metric.no_answer}
    values = [words[letter] for letter in letters]
    half = len(letters) // 2
    softwares = (
        [1] * len(letters),
        [1] * half + [2] * (len(letters) - half),
        [1] * (len(letters) - 1) + [2],
    )
    alone = screen_words(values, metric, left_out={half})
    found = [screen_words(values, metric, softwares=software) for software in softwares]
    return "; ".join(dict.fromkeys(map(in_short, [alone, *found])))


def of_pairs() -> Iterator[str]:
    generator = np.random.default_rng(11)
    for blocks in (0, 1, 2, 5, 6, 7, 11, 12, 13, 24, 47, 48, 60):
        for step, scatter in ((0.05, 0.01), (0.05, 0.03), (0.0, 0.02), (0.03, 0.0), (0.2, 0.2)):
            ratios = [float(step + scatter * noise) for noise in generator.standard_normal(blocks)]
            alike = [place % 3 > 0 for place in range(blocks)]
            closer = [
                ratio if same else 3 * ratio for ratio, same in zip(ratios, alike, strict=True)
            ]
            found = confirm(ratios, 0.03), confirm(closer, 0.03, alike)
            yield f"{blocks} pairs, {step} {scatter}: {'; '.join(map(in_short, found))}"


def decided() -> Sequence[str]:
    return [*of_numbers(), *of_creeps(), *of_words(), *of_pairs()]


def kept_lines() -> list[str]:
    return lzma.decompress(KEPT.read_bytes()).decode().splitlines()


def test_each_series_is_decided_as_kept() -> None:
    kept, found = kept_lines(), decided()
    changed = [pair for pair in zip(kept, found, strict=True) if pair[0] != pair[1]]
    assert not changed, changed[:3]


def test_kept_series_meet_every_state() -> None:
    states = {line.partition(": ")[2].split()[0] for line in kept_lines()}
    screened = {"fine", "worse", "better", "different", "insufficient_data"}
    assert states >= screened | {"confirmed", "refuted", "undecided"}


if __name__ == "__main__":
    KEPT.write_bytes(lzma.compress("\n".join(decided()).encode()))
