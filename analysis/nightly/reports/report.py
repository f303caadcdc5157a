"""Every report of a night, as files in a folder of its date; and JSON, which reads back into the same value. Each other
file in this folder declares a format.

The keys of the JSON are the fields of NightOutcome. A finding is one flat row, in which the key of its series stands
beside its other fields. docs/nightly.md has the further keys. A key may be added within a version; none is dropped or given
another meaning.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pyarrow as pa
from pydantic import TypeAdapter

from cudnn_sweep.analysis.asking.declared import declared
from cudnn_sweep.analysis.asking.formats import json_value
from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nightly import reports as here
from cudnn_sweep.analysis.nightly.outcome import Acceptance, Finding, LeftOut, NightOutcome
from cudnn_sweep.analysis.nightly.reports.words import unit
from cudnn_sweep.analysis.nightly.series import Series, SeriesKey
from cudnn_sweep.analysis.storing.folder import LocalFolder, naming


@dataclass(frozen=True, kw_only=True, slots=True)
class NightReport:
    """`render` gets the night and the history of each of its series, judged or not."""

    file: str
    """The name of the file that each night writes: no other report's."""
    render: Callable[[NightOutcome, Sequence[Series]], str]


# In 1 fine_series counted the blunt ones too; to 2 a night with too few before it was one that could not tell.
SCHEMA_VERSION = 3
OF_THE_KEY = tuple(field.name for field in fields(SeriesKey))
OF_A_SERIES = ("findings", "members", "left_out", "accepted")  # what has a key
OUTCOME = TypeAdapter(NightOutcome)
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


# --- JSON ---


def to_json(outcome: NightOutcome, series: Sequence[Series] = ()) -> str:
    """A line a finding and a series, a line for every other key."""
    values: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "exit_code": outcome.exit_code,
        **asdict(outcome),
        **{name: [_flat(each) for each in getattr(outcome, name)] for name in OF_A_SERIES},
    }
    if series:
        values["series"] = [_series_row(each) for each in series]
    lines = [f" {json.dumps(name)}: {_text(json_value(value))}" for name, value in values.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _series_row(series: Series) -> dict[str, object]:
    """Without its points, which the stored rows have."""
    shown = {name: getattr(series, name) for name in ("is_judged", "smallest_step", "could_show")}
    return {"series_id": series.key.series_id, **asdict(series.key), **shown}


def _flat(one: Finding | LeftOut | Acceptance) -> dict[str, object]:
    values = asdict(one)
    if isinstance(one, Finding):
        values |= {"unit": unit(one.key), "is_alert": one.is_alert}
    return {"series_id": one.key.series_id, **values.pop("key"), **values}


def from_json(text: str) -> NightOutcome:
    """Raises ReportError where it is no night's JSON, or one of a later version."""
    try:
        found = json.loads(text)
        version = found["schema_version"]
        if version > SCHEMA_VERSION:
            raise ReportError(f"a night's JSON of version {version}: {SCHEMA_VERSION} is read here")
        for row in (row for name in OF_A_SERIES for row in found.get(name, [])):
            row["key"] = {name: row[name] for name in OF_THE_KEY}
        return OUTCOME.validate_python(found)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportError(f"no night's JSON: {error}") from error


def _text(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = ",\n".join(f"  {_text(row)}" for row in value)
        return f"[\n{rows}\n ]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


REPORT = NightReport(file="night.json", render=to_json)
