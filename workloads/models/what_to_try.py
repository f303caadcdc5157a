"""What to try where a network cannot take what it is given: a few words behind the error, or none."""

import re

from cudnn_sweep.workloads.problem import Shape

OFTEN = 32  # networks that halve their input up to five times take its multiples
DIFFERING_SIZES = re.compile(r"[Ss]izes? of tensors? .*must match")
EXAMPLE = (
    "{image: {shape: [batch, 3, height, width]}, label: {shape: [batch], dtype: int64, below: 10}}"
)
MISSING_INPUT = re.compile(r"missing \d+ required (positional|keyword-only) argument")


def what_to_try(error: BaseException, shape: Shape) -> str:
    """`shape` is that of the input: batch, channels, then space."""
    if isinstance(error, TypeError) and MISSING_INPUT.search(str(error)):
        return f"; it was called with one tensor: describe all that it takes, as in --inputs '{EXAMPLE}'"
    if DIFFERING_SIZES.search(str(error)) and any(size % OFTEN for size in shape[2:]):
        return f"; the network may not take these sizes: try multiples of {OFTEN}"
    return ""
