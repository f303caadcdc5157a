"""Writes a night's report in all formats to a dated folder, and reads the JSON of a night.

docs/nightly.md explains the keys of the JSON. Within one `schema_version`, keys may be added, but
no key is removed or changes its meaning.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path

import pyarrow as pa
from pydantic import TypeAdapter

from cudnn_sweep.analysis.answers.answer import STATES, Answer, formats
from cudnn_sweep.analysis.answers.as_json import lines_of
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nights.outcome import Acceptance, Finding, LeftOut, NightOutcome
from cudnn_sweep.analysis.nights.reports.cases import cases, numbers
from cudnn_sweep.analysis.nights.reports.sections import headline, sections
from cudnn_sweep.analysis.nights.reports.words import unit
from cudnn_sweep.analysis.nights.series import Series, SeriesKey
from cudnn_sweep.analysis.store.folder import LocalFolder, naming

# In version 1, fine_series includes blunt_series. Version 3 added the state `learning`.
SCHEMA_VERSION = 3
OF_A_SERIES = ("findings", "members", "left_out", "accepted")  # fields whose rows have a SeriesKey
OUTCOME = TypeAdapter(NightOutcome)
LATEST = "latest"
NAMES = {".xml": "junit.xml"}  # others are called `night`
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def answer_of(outcome: NightOutcome, series: Sequence[Series] = ()) -> Answer:
    return Answer(
        kind="night",
        subject=outcome.night,
        state=STATES[outcome.exit_code],
        headline=headline(outcome),
        sections=sections(outcome, series),
        values=_values(outcome, series),
        cases=list(cases(outcome, series)),
        families=list(numbers(outcome, series)),
        labels={"nightly": outcome.night.partition(f"{outcome.date}-")[2]},
    )


def texts_of(outcome: NightOutcome, series: Sequence[Series]) -> dict[str, str]:
    answer = answer_of(outcome, series)
    names = {suffix: NAMES.get(suffix, f"night{suffix}") for suffix in formats()}
    return {names[suffix]: form.render(answer) for suffix, form in formats().items()}


def write_reports(
    outcome: NightOutcome,
    series: Sequence[Series],
    folder: Path,
    *,
    step_summary: Path | None = None,
) -> list[Path]:
    """Write all reports to `folder/DATE`. Return the paths. Raise StoreError if a write fails."""
    dated = folder / outcome.date.isoformat()
    texts = {dated / name: text for name, text in texts_of(outcome, series).items()}
    for path, text in texts.items():
        LocalFolder(str(dated)).write(path.name, pa.py_buffer(text.encode()))
    if step_summary:
        with naming(f"write {step_summary}"), step_summary.open("a", encoding="utf-8") as file:
            file.write(texts[dated / "night.md"])
    with suppress(OSError):  # some disks have no links
        _link_latest(folder)
    return list(texts)


def _link_latest(folder: Path) -> None:
    """Point the link `latest` to the folder of the newest date, in one atomic step."""
    last = max(path.name for path in folder.iterdir() if DATE.fullmatch(path.name))
    new = folder / f".{LATEST}"
    new.unlink(missing_ok=True)
    new.symlink_to(last, target_is_directory=True)
    new.replace(folder / LATEST)


def to_json(outcome: NightOutcome) -> str:
    """Return the outcome as JSON with all digits."""
    return lines_of(_values(outcome))


def _values(outcome: NightOutcome, series: Sequence[Series] = ()) -> dict[str, object]:
    values: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "exit_code": outcome.exit_code,
        **asdict(outcome),
        **{name: [_flat(finding) for finding in getattr(outcome, name)] for name in OF_A_SERIES},
    }
    if series:
        values["series"] = [_series_row(entry) for entry in series]
    return values


def _series_row(series: Series) -> dict[str, object]:
    shown = {name: getattr(series, name) for name in ("is_judged", "smallest_step", "could_show")}
    return {"series_id": series.key.series_id, **asdict(series.key), **shown}


def _flat(finding: Finding | LeftOut | Acceptance) -> dict[str, object]:
    values = asdict(finding)
    if isinstance(finding, Finding):
        values |= {"unit": unit(finding.key), "is_alert": finding.is_alert}
    return {"series_id": finding.key.series_id, **values.pop("key"), **values}


def from_json(text: str) -> NightOutcome:
    """Read a night's outcome from JSON. Raise ReportError if the text is invalid or too new."""
    try:
        values = json.loads(text)
        version = values["schema_version"]
        if version > SCHEMA_VERSION:
            allowed = f"allowed is {SCHEMA_VERSION} or lower"
            raise ReportError(f"The night's JSON has schema version {version}, {allowed}.")
        for row in (row for name in OF_A_SERIES for row in values.get(name, [])):
            row["key"] = {field.name: row[field.name] for field in fields(SeriesKey)}
        return OUTCOME.validate_python(values)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportError(f"This text is not the JSON of a night: {error}") from error
