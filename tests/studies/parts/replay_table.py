"""What stored blocks in random orders decided, as lines for a terminal, and in words."""

from collections.abc import Iterator, Mapping

from cudnn_sweep.analysis.results.contrast import Contrast
from tests.studies.parts.replaying import DECIDED, TARGET, Replayed, ReplayedCell

LEGEND = """\
cells: those with more blocks than a first look takes. decided: by all blocks, as a fixed number. Of their
replays: same, stopped with the verdict of all blocks; turned, with another one; hopeless, as out of reach;
open, undecided when the stored blocks ended. early: replays that decide a cell that all blocks do not.
blocks: of a decided cell, in the mean; of: all that are stored."""
HEADS = (
    "cells", "decided", "same", "turned", "hopeless", "open", "early", "blocks", "of"
)  # fmt: skip
NAME_WIDTH = 64


def head() -> str:
    return _line("sweep, contrast", HEADS)


def row(sweep_id: str, contrast: Contrast, found: Replayed) -> str:
    return _row(f"{sweep_id}, {contrast}", found)


def total(found: Replayed) -> str:
    return _row("all", found)


def changes(found: Replayed, names: Mapping[str, str]) -> Iterator[str]:
    """Of each cell that some replays decide otherwise: how many, and how."""
    for cell in found.cells:
        if cell.found > cell.same:
            yield f"  {names[cell.cell_id]}, {cell.blocks} blocks {cell.verdict}: {_ended(cell)}"


def in_words(found: Replayed) -> str:
    low, high = found.interval
    told = (
        f"{found.share:.1%} of the replays that were decided have the verdict of all blocks (95% interval over "
        f"cells {low:.1%} to {high:.1%}; target: at least {TARGET:.0%})."
    )
    every = found.replays * len(found.decided)
    told += (
        f" Of all {every} replays of decided cells {found.same / max(every, 1):.1%} stop with it, "
        f"{found.out_of_reach / max(every, 1):.1%} as out of reach, and "
        f"{found.used_up / max(every, 1):.1%} are open when the blocks end."
    )
    told += f" Left out: {found.too_few} cells with no more blocks than a first look takes."
    return f"Missed: {told}" if found.is_missed else told


def _ended(cell: ReplayedCell) -> str:
    others = [f"{cell.ended[each]} {each}" for each in DECIDED if cell.ended.get(each)]
    return f"{', '.join(others)} of {sum(cell.ended.values())} replays"


def _row(name: str, found: Replayed) -> str:
    told = (
        len(found.cells),
        len(found.decided),
        found.same,
        found.turned,
        found.out_of_reach,
        found.used_up,
        found.early,
        f"{found.asked:.1f}",
        f"{found.blocks:.1f}",
    )
    return _line(name, [str(each) for each in told])


def _line(name: str, cells: tuple[str, ...] | list[str]) -> str:
    return f"{name:{NAME_WIDTH}}" + "".join(f"{cell:>9}" for cell in cells)
