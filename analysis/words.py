"""Text of numbers, ratios, intervals, times, sizes, counts and lists; no other module formats them."""

import math
from collections.abc import Callable, Sequence

TWICE = 2.0  # a ratio beyond it reads better as "times" than in percent
MIB, GIB = 2.0**20, 2.0**30


def number(value: float | None, missing: str = "") -> str:
    """Return a number as text: a float with three significant digits, an int with all digits."""
    if value is None:
        return missing
    if isinstance(value, int):
        return f"{value:,}"
    if not value or not math.isfinite(value):
        return f"{value + 0.0:g}"  # no -0
    rounded = float(f"{value:.3g}")
    if abs(rounded) < 1e-4:
        return f"{rounded:.3g}"
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


def figure(value: float) -> str:
    """Return a value as `number` does, but show a whole float like an int, with all its digits."""
    return number(int(value) if value == int(value) else value)


def given(value: float) -> str:
    """Return a value with up to four significant digits, but 1000 and more as integers: `1,234`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def two_digits(value: float) -> str:
    """Return a number rounded to two significant digits, with commas between thousands."""
    if value < 10 or not math.isfinite(value):
        return f"{value:.2g}"
    return f"{float(f'{value:.2g}'):,.0f}"


def ratio(value: float | None) -> str:
    """Return a ratio with three decimals; from 10 on, with three significant digits."""
    return f"{value:.3f}" if value is not None and abs(value) < 10 else number(value)


def interval(
    low: float | None, high: float | None, text: Callable[[float], str] = ratio, to: str = " to "
) -> str:
    """Return ` (low to high)` to put after a value, or an empty text if an end is None."""
    return "" if low is None or high is None else f" ({text(low)}{to}{text(high)})"


def percent(share: float, decimals: int = 0, sign: str = "") -> str:
    """Return a share (0.03) in percent; `sign="+"` puts a plus before positive shares."""
    return f"{share:{sign}.{decimals}%}"


def change(value: float, low: float | None, high: float | None, of: str = "") -> str:
    """Return a ratio as `12.0% less` or `3.10 times as much`, then its 95% interval, if known.

    If `of` is " time": `12.0% less time`, `3.10 times the time` or `2.50 times as fast`.
    """
    ends = [end for end in (low, high) if end]
    if 1 / TWICE < value and round(value, 2) < TWICE:
        sign, word = (1, "more") if value >= 1 else (-1, "less")
        size, behind = 100 * sign * (value - 1), f"% {word}{of}"
        ends, unit = [100 * sign * (end - 1) for end in ends], "%"
    else:
        as_fast = bool(of) and value < 1
        behind = f" times {'as fast' if as_fast else 'the' + of if of else 'as much'}"
        size, unit = 1 / value if as_fast else value, ""
        ends = [1 / end if as_fast else end for end in ends]
    inner = f" (95% interval {number(min(ends))} to {number(max(ends))}{unit})" if ends[1:] else ""
    return f"{number(size)}{behind}{inner}"


def milliseconds(value: float | None) -> str:
    return "" if value is None else f"{number(value)} ms"


def clock(seconds: float) -> str:
    """Return a time such as `12 ms`, `0.12 s`, `4 min 10 s` or `3 h 05 min`."""
    if seconds < 0:
        return f"-{clock(-seconds)}"
    if seconds < 0.1:
        return f"{two_digits(1000 * seconds)} ms"
    if seconds < 100:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def duration(seconds: float) -> str:
    for unit_s, unit in ((3600, "hour"), (60, "minute")):
        if seconds >= unit_s:
            return f"{number(seconds / unit_s)} {unit}s"
    return f"{number(seconds)} seconds"


def size(count: float) -> str:
    """Return `count` bytes in GiB or MiB."""
    return f"{number(count / GIB)} GiB" if count >= GIB else f"{number(count / MIB)} MiB"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(parts: Sequence[str]) -> str:
    """Return the parts as `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def some(parts: Sequence[str], most: int) -> str:
    """Return the first `most` parts and how many parts follow: `a, b and 3 more`."""
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more:,} more" if more > 0 else "")


def printable(text: str) -> str:
    """Return a user's text with U+FFFD in place of unprintable characters, except line ends and tabs."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def one_line(text: str) -> str:
    """Return the text without line ends, fit for a comment in a script."""
    return printable(text).replace("\n", " ")


def cudnn_version(number: int) -> str:
    """Return cuDNN's version as NVIDIA writes it: 9.19.0 for 91900 and, before version 9, 8.9.7 for 8907."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def part_text(part: str, value: str) -> str:
    """Return `value` for display: as a version if `part` is `cudnn` and the value is a number."""
    return cudnn_version(int(value)) if part == "cudnn" and value.isdecimal() else value
