"""What the pages say of kept choices, from the rows of docs/results/h100-2026-11-24/freeze.

make docs        # writes docs/your-model.md's sentences and the table beside the rows
"""

from functools import cache
from pathlib import Path
from textwrap import fill

from cudnn_sweep.analysis.results.advice import Freeze
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.analysis.words import counted, interval, milliseconds, percent, ratio

WIDTH = 118
DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "results/h100-2026-11-24/freeze"
GAINED, TABLE = DOCS / "your-model.md", FOLDER / "README.md"
BEGIN, END = "<!-- kept: made by `make docs` -->\n", "<!-- end of kept -->\n"
NEARLY_ALL = 0.95  # of the gain of on
NAMES = {
    "cells.py:c3d": "C3D, first convolution",
    "cells.py:conv5": "5x5 behind a 1x1",
    "cells.py:group32": "3x3 in 32 groups behind a 1x1",
    "cells.py:r3d18_stem": "R3D-18, first convolution",
    "cells.py:speech": "speech, first convolution",
    "cells.py:vgg256": "3x3 of VGG",
    "cells.py:UNet3d": "**3D U-Net**, 16 filters",
    "nets.diffusion:DiffusionUNet": "**U-Net of a diffusion model**",
    "nets.patch_embedding:PatchEmbedding": "patch embedding by Conv3d",
    "nets.unet:UNet": "**U-Net of volumes**, 32 filters",
    "torchvision.models.video:r2plus1d_18": "**R(2+1)D-18**",
    "torchvision.models.video:r3d_18": "**R3D-18**",
    "torchvision.models:alexnet": "**AlexNet**",
    "torchvision.models:resnext50_32x4d": "**ResNeXt-50**",
}


@cache
def rows() -> list[Freeze]:
    """Without the U-Nets that ran in another layout (docs/corrections.md)."""
    return [
        row
        for row in Freeze.of(open_store(str(FOLDER)))
        if not (row.layout == "channels_last" and "UNet" in row.workload)
    ]


@cache
def gains() -> list[Freeze]:
    """Those in which on surely gains, the largest gain first."""
    told = [row for row in rows() if row.kept is not None]
    return sorted(told, key=lambda row: row.on_ratio)


def kept_by(clock: str) -> tuple[int, int]:
    """In how many of them frozen keeps nearly all, by its estimate, and how many they are."""
    told = [row for row in gains() if row.kept_by == clock]
    return sum(row.kept >= NEARLY_ALL for row in told), len(told)


def gained() -> str:
    """docs/your-model.md: what freezing gained."""
    (nearly_all, told), (on_gpu, waiting) = kept_by("wall"), kept_by("device")
    text = (
        f"Of {len(rows())} cells on an H100, on surely saved time in {told}: its interval lies below off. Frozen kept at "
        f"least {percent(NEARLY_ALL)} of that gain in {nearly_all}. In {waiting} more, whose loops wait for the CPU, on "
        f"surely saved time on the GPU; frozen kept at least {percent(NEARLY_ALL)} of that in {on_gpu}. These are "
        "estimates of one block each: [each cell](results/h100-2026-11-24/freeze/README.md#what-was-measured) stands "
        "there with its interval. First steps took as long as with off, but for plans that are compiled at run time. Ten "
        "fresh processes of a frozen model took the same plans each time. To find the rules took 6 to 24 s for a small "
        "model, 19 to 116 s for a network."
    )
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def table() -> str:
    """The page beside the rows: every cell in which on surely gains, and how many keep it."""
    head = "| model | off | on | frozen | on / off | frozen / off | kept | rules | first step off / on / frozen |"
    lines = [head, f"|---|{'---:|' * 7}---|"]
    for row in gains():
        name = f"{NAMES[row.workload]}, {row.input_shape}, {row.precision.replace('amp_', '')}"
        times = [milliseconds(each) for each in (row.off_ms, row.on_ms, row.frozen_ms)]
        ratios = [
            f"{ratio(getattr(row, f'{way}_ratio'))}"
            f"{interval(getattr(row, f'{way}_ratio_low'), getattr(row, f'{way}_ratio_high'))}"
            for way in ("on", "frozen")
        ]
        firsts = (row.off_first_ms, row.on_first_ms, row.frozen_first_ms)
        first = " / ".join("–" if each is None else f"{each / 1000:.3g}" for each in firsts)
        told = [name + (", inference" if row.direction == "inference" else ""), *times, *ratios]
        share = f"{percent(row.kept)}{interval(row.kept_low, row.kept_high, percent)}"
        share += " GPU" if row.kept_by == "device" else ""
        lines.append(f"| {' | '.join([*told, share, str(row.rules), first])} |")
    (nearly_all, wall), (on_gpu, waiting) = kept_by("wall"), kept_by("device")
    others = counted(len(rows()) - len(gains()), "more row")
    text = (
        f"Of the {wall} whose wall time gains, {nearly_all} keep at least {percent(NEARLY_ALL)} of the gain by their "
        f"estimates; of the {waiting} `GPU` ones {on_gpu}. In {others} the interval of on holds 1, so no share of a gain "
        "is told."
    )
    return "\n".join([*lines, "", fill(text, WIDTH, break_long_words=False), ""])


def _filled(page: Path, text: str) -> str:
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


def your_model() -> str:
    return _filled(GAINED, gained())


def results_page() -> str:
    return _filled(TABLE, table())
