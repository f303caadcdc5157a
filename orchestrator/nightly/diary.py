"""Diary: what nights leave beside the results for later ones.

    nightly/NAME/night-2026-11-21-NAME.json    a night's outcome, as `night.json` of its reports
    nightly/NAME/told.json                     alerts that were posted, so that each is posted once
    nightly/NAME/baseline.json                 the pinned night
    nightly/NAME/accepted.json                 accepted changes, oldest first

NAME is the launch file's. A night that is compared again overwrites its outcome; nothing is removed.
Each file is `{"crc32": ..., "content": ...}`, and is not believed where its checksum does not fit. Whoever
edits one writes "edited" for the checksum.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter

from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nightly.outcome import Acceptance, Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import from_json, to_json
from cudnn_sweep.analysis.nightly.reports.words import meaning
from cudnn_sweep.analysis.nightly.shared import SHARED
from cudnn_sweep.analysis.storing.store import Store, open_store
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.options import NightOptions
from cudnn_sweep.orchestrator.planning.spec import (
    NightName,
    SweepSpec,
    is_night_of,
    launch_name,
    read_date,
)

MOST_NAMED = 10  # of what could have been meant
T = TypeVar("T")
SHOWN = 200  # characters of a file that is not what it should be
BY_HAND = "edited"
SENT = "told.json"
AGAIN = "restore it, or compare that night again: --night DATE --no-measure"
DATE = TypeAdapter(date)
SentAlert: TypeAlias = tuple[str, date]  # its series_id, and since when
SENT_ALERTS = TypeAdapter(list[SentAlert])
ACCEPTED = TypeAdapter(list[Acceptance])


def as_sent_alert(finding: Finding) -> SentAlert:
    return finding.key.series_id, finding.since


@dataclass(frozen=True, kw_only=True, slots=True)
class Diary:
    store: Store
    launch: str

    def write(self, outcome: NightOutcome) -> None:
        self._write(f"{outcome.night}.json", to_json(outcome).rstrip())

    def keep(self, sweep_id: str, outcome: str) -> None:
        """What became of a night elsewhere. Raises ReportError where that is no such night's JSON."""
        found = from_json(outcome)
        if found.night != sweep_id:
            raise ReportError(f"the outcome of {sweep_id}: found that of {found.night!r}")
        self.write(found)

    def of(self, name: NightName) -> NightOutcome | None:
        """What an earlier start of this night made of it."""
        return self._outcome(f"{name.sweep_id}.json")

    def before(self, name: NightName, *, measured: bool = True) -> NightOutcome | None:
        """The last outcome of an earlier night, of one that measured something or of any."""
        nights = [night for night in self._nights() if night < f"{name.sweep_id}.json"]
        outcomes = (self._outcome(night) for night in reversed(nights))
        fitting = (each for each in outcomes if not measured or each and each.recorded_trials)
        return next(fitting, None)

    def last(self) -> NightOutcome | None:
        """That of all nights. Raises SpecError where a later one cannot be read."""
        outcomes = (self._read(night, from_json) for night in reversed(self._nights()))
        return next((each for each in outcomes if each and each.recorded_trials), None)

    def unreadable(self, name: NightName) -> list[str]:
        """What this night does without, since it cannot be read: callers say so."""
        nights = [each for each in self._nights() if each <= f"{name.sweep_id}.json"]
        found = []
        for each in (*nights, SENT):
            try:
                self._told() if each == SENT else self._read(each, from_json)
            except SpecError as error:
                found.append(str(error))
        return found

    def _outcome(self, night: str) -> NightOutcome | None:
        try:
            return self._read(night, from_json)
        except SpecError:
            return None

    def is_last(self, name: NightName) -> bool:
        return all(night <= f"{name.sweep_id}.json" for night in self._nights())

    def sent_alerts(self) -> list[SentAlert]:
        try:
            return self._told()
        except SpecError:  # then they are told once more
            return []

    def _told(self) -> list[SentAlert]:
        return self._read(SENT, SENT_ALERTS.validate_json, "alerts are told again") or []

    def write_sent_alerts(self, told: list[SentAlert]) -> None:
        self._write(SENT, SENT_ALERTS.dump_json(told, indent=1).decode())

    def baseline(self) -> date | None:
        otherwise = "--pin DATE and --unpin replace it"
        return self._read("baseline.json", DATE.validate_json, otherwise)

    def pin(self, first: date) -> None:
        self._write("baseline.json", DATE.dump_json(first).decode())

    def unpin(self) -> None:
        self.store.folder.remove(self._path("baseline.json"))

    def accepted(self) -> list[Acceptance]:
        otherwise = "restore it, or remove it and --accept again"
        return self._read("accepted.json", ACCEPTED.validate_json, otherwise) or []

    def accept(self, new: Sequence[Acceptance]) -> None:
        content = ACCEPTED.dump_json([*self.accepted(), *new], indent=1)
        self._write("accepted.json", content.decode())

    def _nights(self) -> list[str]:
        names = self.store.folder.names(self._path(""), ".json")
        return [name for name in names if name.startswith("night-")]

    def _read(self, name: str, parse: Callable[[str], T], otherwise: str = AGAIN) -> T | None:
        """None where there is no such file. Raises SpecError where it is not as it was written."""
        try:
            content: bytes = self.store.folder.read(self._path(name)).to_pybytes()
        except FileNotFoundError:
            return None
        text = content.decode(errors="replace")
        try:
            return parse(_believed(text))
        except (ReportError, ValueError, RecursionError) as error:
            why = str(error).partition("\n")[0][:SHOWN]
            raise SpecError(
                f"{self._shown(name)} cannot be read ({why}): {text[:SHOWN]!r}; {otherwise}"
            ) from None

    def _write(self, name: str, text: str) -> None:
        whole = f'{{"crc32": "{_crc32(json.loads(text))}", "content":\n{text}}}\n'
        self.store.folder.write(self._path(name), pa.py_buffer(whole.encode()))

    def _path(self, name: str) -> str:
        return f"nightly/{self.launch}/{name}".rstrip("/")

    def _shown(self, name: str) -> str:
        return self.store.folder.shown(self._path(name))


def _believed(text: str) -> str:
    """The content of a file's text. Raises ValueError where its checksum does not fit."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.keys() != {"crc32", "content"}:
        raise ValueError('it is not {"crc32": ..., "content": ...}')
    if found["crc32"] not in (_crc32(found["content"]), BY_HAND):
        raise ValueError(
            f'its checksum does not fit: it is damaged, or was edited without "crc32": "{BY_HAND}"'
        )
    return json.dumps(found["content"])


def _crc32(value: object) -> str:
    """Of what the JSON says, however it is laid out."""
    return f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"


def accept_change(options: NightOptions, what: str, first: str | None, reason: str | None) -> str:
    """In words what is accepted: of the last night the alert of a series, or those of a cell or metric.

    Raises SpecError where there is none, or the date or the reason is no good.
    """
    if first is None or not (reason or "").strip():
        raise SpecError(
            f"--accept {what}: needs --from DATE, the first night of what is accepted, and --reason TEXT"
        )
    night = read_date(first, "--from")
    diary = _diary(options)
    last = diary.last()
    if last is None:
        raise SpecError(f"--accept {what}: there is no night of {diary.launch} yet")
    accepted = _accepted(last, what, night, str(reason).strip())
    diary.accept(accepted)
    named = "; ".join(
        f"{each.key.cell} · {each.key.settings}: {meaning(each.key)}"
        for each in accepted[:MOST_NAMED]
    )
    more = f"; and {len(accepted) - MOST_NAMED} more" if accepted[MOST_NAMED:] else ""
    return f"Accepted from {night} on: {named}{more}. The next night compares with the nights since then."


def _accepted(last: NightOutcome, what: str, night: date, reason: str) -> list[Acceptance]:
    alerts = [
        finding
        for finding in (*last.findings, *last.members)
        if finding.is_alert
        and finding.key.metric != SHARED
        and what in (finding.key.series_id, finding.key.cell_id, finding.key.metric, finding.shared)
    ]
    if not alerts:
        allowed = [f"{each.key.series_id} ({each.key.cell})" for each in last.alerts[:MOST_NAMED]]
        raise SpecError(
            f"--accept {what}: no alert of {last.night} is of such a series, cell or metric; "
            f"its alerts: {', '.join(allowed) or 'none'}"
        )
    if night > last.date:
        raise SpecError(f"--from {night}: is after the last night, {last.date}")
    return [
        Acceptance(key=alert.key, first=night, reason=reason, told_on=last.date) for alert in alerts
    ]


def pin_baseline(options: NightOptions, first: date | None) -> str:
    """In words what is pinned now; None unpins. Raises SpecError where there is no such night."""
    diary = _diary(options)
    launch = diary.launch
    if first is None:
        diary.unpin()
        return f"Nights of {launch} are compared with the month before them."
    name = NightName(date=first, launch=launch)
    nights = [each for each in diary.store.sweep_ids() if is_night_of(each, launch)]
    if name.sweep_id not in nights:
        found = ", ".join(nights[-5:]) or "none"
        raise SpecError(f"--pin {first}: there is no {name.sweep_id}; the last nights: {found}")
    diary.pin(first)
    return f"Nights of {launch} are compared with the month from {first} on."


def _diary(options: NightOptions) -> Diary:
    file = read_launch_file(options.file, SweepSpec)
    return Diary(store=open_store(options.results or file.sweep.results), launch=launch_name(file))
