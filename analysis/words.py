"""Formats numbers, ratios, intervals, times, sizes, counts and lists as text."""

import math
from collections.abc import Callable, Sequence

TWICE = 2.0  # larger ratios are shown as "times as much" instead of percent
MIB, GIB = 2.0**20, 2.0**30


def number(value: float | None) -> str:
    """Format a float with three significant digits, or an int with all its digits."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if not value or not math.isfinite(value):
        return f"{value + 0.0:g}"  # no -0
    rounded = float(f"{value:.3g}")
    if abs(rounded) < 1e-4:
        return f"{rounded:.3g}"
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


def figure(value: float) -> str:
    """Format a value like `number`, but show all digits of a float without a fraction."""
    return number(int(value) if value == int(value) else value)


def given(value: float) -> str:
    """Format a value with four significant digits, or as an integer if it is 1000 or more."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def two_digits(value: float) -> str:
    if value < 10 or not math.isfinite(value):
        return f"{value:.2g}"
    return f"{float(f'{value:.2g}'):,.0f}"


def ratio(value: float | None) -> str:
    """Format a ratio with three decimals, or with three significant digits if it is 10 or more."""
    return f"{value:.3f}" if value is not None and abs(value) < 10 else number(value)


def interval(
    low: float | None, high: float | None, text: Callable[[float], str] = ratio, to: str = " to "
) -> str:
    """Format an interval as ` (low to high)`. Return "" if an end is None."""
    return "" if low is None or high is None else f" ({text(low)}{to}{text(high)})"


def percent(share: float, decimals: int = 0, sign: str = "") -> str:
    """Format a share such as 0.03 in percent. `sign="+"` adds a plus to positive shares."""
    return f"{share:{sign}.{decimals}%}"


def change(value: float, low: float | None, high: float | None, of: str = "") -> str:
    """Format a ratio as `12.0% less` or `3.10 times as much`, with its 95% interval.

    If `of` is " time", the text is `12.0% less time` or `2.50 times as fast`, for example.
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
    """Format a time, for example as `12 ms`, `0.12 s`, `4 min 10 s` or `3 h 05 min`."""
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
    """Format a number of bytes in GiB or MiB."""
    return f"{number(count / GIB)} GiB" if count >= GIB else f"{number(count / MIB)} MiB"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(parts: Sequence[str]) -> str:
    """Join the parts as `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def some(parts: Sequence[str], most: int) -> str:
    """Join the first `most` parts and count the rest, as in `a, b and 3 more`."""
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more:,} more" if more > 0 else "")


def printable(text: str) -> str:
    """Replace unprintable characters by U+FFFD. Keep line ends and tabs."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def one_line(text: str) -> str:
    """Replace line ends by spaces, and unprintable characters by U+FFFD."""
    return printable(text).replace("\n", " ")


def cudnn_version(number: int) -> str:
    """Format cuDNN's version number. 91900 becomes `9.19.0`, and 8907 becomes `8.9.7`."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def part_text(part: str, value: str) -> str:
    """Format the value of `part` for display. A cuDNN number is shown as a version."""
    return cudnn_version(int(value)) if part == "cudnn" and value.isdecimal() else value
