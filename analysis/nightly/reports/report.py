"""A format in which every night is reported: one file each in this folder declares it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.series import Series


@dataclass(frozen=True, kw_only=True, slots=True)
class NightReport:
    """`render` gets the night and the history of each of its series, judged or not."""

    file: str
    """The name of the file that each night writes: no other report's."""
    render: Callable[[NightOutcome, Sequence[Series]], str]
