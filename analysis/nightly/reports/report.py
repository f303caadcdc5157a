"""Every report of a night, as files in a folder of its date; one file each in this folder declares a format."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.nightly import reports as here
from cudnn_sweep.analysis.nightly.outcome import NightOutcome
from cudnn_sweep.analysis.nightly.series import Series
from cudnn_sweep.analysis.storing.folder import LocalFolder, naming


@dataclass(frozen=True, kw_only=True, slots=True)
class NightReport:
    """`render` gets the night and the history of each of its series, judged or not."""

    file: str
    """The name of the file that each night writes: no other report's."""
    render: Callable[[NightOutcome, Sequence[Series]], str]


LATEST = "latest"
SUMMARY = "night.md"
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def night_reports() -> list[NightReport]:
    return sorted(declared(here, NightReport), key=lambda report: report.file)


def write_reports(
    outcome: NightOutcome,
    series: Sequence[Series],
    folder: Path,
    *,
    step_summary: Path | None = None,
) -> list[Path]:
    """Write them into `folder/DATE`; the Markdown is also added to `step_summary`, a file that a CI step shows.

    Returns the files, each of which is written whole or not at all. Raises StoreError where one cannot be.
    """
    dated = folder / outcome.date.isoformat()
    texts = {dated / each.file: each.render(outcome, series) for each in night_reports()}
    for path, text in texts.items():
        LocalFolder(str(dated)).write(path.name, pa.py_buffer(text.encode()))
    if step_summary:
        with naming(f"write {step_summary}"), step_summary.open("a", encoding="utf-8") as file:
            file.write(texts[dated / SUMMARY])
    with suppress(OSError):  # a disk without links: the reports are there all the same
        _link_latest(folder)
    return list(texts)


def _link_latest(folder: Path) -> None:
    """Replaced in one step, so that whoever reads it finds one or the other."""
    last = max(each.name for each in folder.iterdir() if DATE.fullmatch(each.name))
    new = folder / f".{LATEST}"
    new.unlink(missing_ok=True)
    new.symlink_to(last, target_is_directory=True)
    new.replace(folder / LATEST)
