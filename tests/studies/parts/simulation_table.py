"""What the verdicts did on made-up sweeps, as lines for a terminal, and in words."""

from collections.abc import Sequence

from tests.studies.parts.simulation import (
    EMPTY_TARGET,
    TARGETS,
    EmptyCaches,
    Figures,
    Share,
    UnpairedFigures,
)

LEGEND = """\
In percent, ± one Monte-Carlo standard error. none, 3%, 5%, 8%: cells with that true effect. found:
verdict helps or hurts; alone: each cell tested alone, without Benjamini and Hochberg; at 0: alone, with
a minimum effect of 0."""

HELD_TO_TARGETS = {
    "coverage": ("ratio in", "interval"),
    "break_even_coverage": ("break-even", "in interval"),
    "null_found": ("none:", "found"),
    "null_found_alone": ("none:", "alone"),
    "null_found_at_zero": ("none:", "at 0"),
    "null_break_even": ("none:", "break-even"),
    "least_found_alone": ("3%:", "alone"),
    "least_equivalent": ("3%:", "equivalent"),
    "found_wrongly": ("found", "wrongly"),
}
OTHERS = {
    "null_equivalent": ("none:", "equivalent"),
    "found_5": ("5%:", "found"),
    "found_8": ("8%:", "found"),
}
EMPTY_CACHES = f"""\
Break-even with an empty compute cache: intervals that contain the true break-even point (target: at least
{EMPTY_TARGET:.0%}), by the scatter of cold costs between processes and the blocks that met an empty cache.
A single such block gives no interval."""
UNPAIRED = """\
Without pairs: each config is a software of its own, and no two processes share a block (as `sweep compare` and
comparisons between cells have it); {cells} cells per line."""
UNPAIRED_COLUMNS = {
    "coverage": ("ratio in", "interval"),
    "null_found": ("none:", "found"),
    "found_wrongly": ("found", "wrongly"),
    "found_8": ("8%:", "found"),
}
UNTIL = """\
Until decided: cells are examined after {looks} blocks and stop when decided or out of reach. Each
look spends an equal share of the error. fewer: how many times fewer blocks than the most (target: at least {fewer:.0f});
{cells} cells per line."""
FEW = 20  # cells of which no share is told
Columns = dict[str, tuple[str, str]]


def head(columns: Columns) -> str:
    above, below = zip(*columns.values(), strict=True)
    return "\n".join([_line("", "", above), _line("noise", "blocks", below)])


def targets() -> str:
    return _line("target", "", [_target(*TARGETS[name]) for name in HELD_TO_TARGETS])


def row(figures: Figures, columns: Columns) -> str:
    missed = figures.missed()
    told = [_told(figures.share(name)) + ("!" if name in missed else " ") for name in columns]
    blocks = f"≤ {figures.blocks}" if figures.is_until else str(figures.blocks)
    return _line(figures.noise.name, blocks, told)


def until_row(figures: Figures, columns: Columns) -> str:
    missed = "!" if "fewer" in figures.missed() else " "
    return f"{row(figures, columns)}{figures.fewer:>11.1f}{missed}"


def unpaired_row(figures: UnpairedFigures) -> str:
    missed = figures.missed()
    told = [
        _told(figures.share(name)) + ("!" if name in missed else " ") for name in UNPAIRED_COLUMNS
    ]
    return _line(figures.noise.name, str(figures.blocks), told)


def empty_caches_row(row: EmptyCaches) -> str:
    missed = " !" if row.is_missed else ""
    return _line(f"cold cost {row.scatter:.0%}", str(row.blocks), [_told(row.coverage) + missed])


def in_words(
    every: Sequence[Figures],
    unpaired: Sequence[UnpairedFigures],
    empty: Sequence[EmptyCaches],
) -> str:
    """Whether the targets are met, and where nothing is promised."""
    held = [figures for figures in every if figures.is_promised]
    misses = [_misses(figures) for figures in held if figures.missed()]
    misses += [f"{_misses(figures)}, without pairs" for figures in unpaired if figures.missed()]
    misses += [_missed_payback(row) for row in empty if row.is_missed]
    missing = "; ".join(misses)
    sweeps = len(held) + len(unpaired)
    told = f"Missed: {missing}." if missing else f"Every target is met in these {sweeps} sweeps."
    beyond = sorted({figures.noise.name for figures in every if not figures.is_promised})
    return f"{told} Nothing is promised for: {', '.join(beyond)}."


def _missed_payback(row: EmptyCaches) -> str:
    return f"payback with empty caches, cold cost {row.scatter:.0%}, {row.blocks} blocks"


def _misses(figures: Figures | UnpairedFigures) -> str:
    names = ", ".join(figures.missed())
    is_until = isinstance(figures, Figures) and figures.is_until
    blocks = f"at most {figures.blocks}" if is_until else str(figures.blocks)
    return f"{names} under {figures.noise.name} with {blocks} blocks"


def _line(name: str, blocks: str, cells: Sequence[str]) -> str:
    return (f"{name:17}{blocks:>7}" + "".join(f"{cell:>12}" for cell in cells)).rstrip()


def _target(low: float, high: float) -> str:
    if low == 0:
        return f"≤ {100 * high:.0f} "
    return f"≥ {100 * low:.0f} " if high == 1 else f"{100 * low:.0f} to {100 * high:.0f} "


def _told(share: Share) -> str:
    if share.cells < FEW:
        return f"{share.hits} of {share.cells}"
    return f"{100 * share.value:.1f} ±{100 * share.error:.1f}"
