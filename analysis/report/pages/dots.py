"""What single processes measured, as dots in an SVG that needs no script."""

from collections.abc import Sequence
from html import escape
from math import log

from cudnn_sweep.analysis.report.pages.page import Samples
from cudnn_sweep.analysis.words import given

WIDTH, LABEL, RIGHT, ROW = 640, 150, 16, 26
WIDE = 20.0  # from this ratio of the largest to the smallest on, the axis is logarithmic
LEAST = 0.2  # of the middle: a narrower axis would make a difference look large that is none
COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)")


def dots(samples: Samples) -> str:
    """A figure: a row a setting, a dot a process; the numbers stand in the caption's row and in a title each."""
    values = [value for _, row in samples.rows for value in row]
    low, high = _ends(values) if samples.unit else (min(values), max(values))
    is_log = low > 0 and high / low > WIDE

    def place(value: float) -> float:
        span = log(high / low) if is_log else high - low
        share = 0.5 if not span else (log(value / low) if is_log else value - low) / span
        return LABEL + share * (WIDTH - LABEL - RIGHT)

    height = ROW * len(samples.rows) + 22
    drawn = []
    for row_number, (name, row) in enumerate(samples.rows):
        y = ROW * row_number + ROW / 2
        drawn.append(f'<text x="0" y="{y + 4:.0f}">{escape(name)}</text>')
        drawn.append(f'<line x1="{LABEL}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}"/>')
        drawn += [
            f'<circle cx="{place(value):.1f}" cy="{y:.0f}" r="5" fill="{COLOURS[row_number % len(COLOURS)]}">'
            f"<title>{_label(value, samples)}</title></circle>"
            for value in row
        ]
    ends = (
        f'<text x="{LABEL}" y="{height - 4}">{given(low)}</text>'
        f'<text x="{WIDTH - RIGHT}" y="{height - 4}" text-anchor="end">{_label(high, samples)}</text>'
    )
    scale = ", logarithmic axis" if is_log else ""
    spoken = "; ".join(f"{name}: {', '.join(map(given, row))}" for name, row in samples.rows)
    return (
        f'<figure class="dots"><svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(spoken)}">{"".join(drawn)}{ends}</svg>'
        f"<figcaption>{escape(samples.title)}{scale}</figcaption></figure>"
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Of the axis: where the values are, and at least LEAST apart."""
    low, high = min(values), max(values)
    middle = (low + high) / 2
    return min(low, middle * (1 - LEAST / 2)), max(high, middle * (1 + LEAST / 2))


def _label(value: float, samples: Samples) -> str:
    return f"{given(value)} {escape(samples.unit)}".strip()
