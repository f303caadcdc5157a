"""Describes a night that is run, and stores these files beside the results:

    nightly/NAME/night-2026-11-21-NAME.json    a night's outcome
    nightly/NAME/told.json                     alerts that were posted
    nightly/NAME/baseline.json                 the pinned night
    nightly/NAME/accepted.json                 accepted changes, oldest first

`launch_name` returns NAME. Each file has the form `{"crc32": ..., "content": ...}`. To edit a file
by hand, replace its checksum by "edited".
"""

import json
import shlex
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter

from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nights.findings import SHARED
from cudnn_sweep.analysis.nights.outcome import Acceptance, Finding, NightOutcome
from cudnn_sweep.analysis.nights.reports.report import from_json, to_json
from cudnn_sweep.analysis.nights.reports.words import meaning
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.location import Location
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.cluster.errors import ClusterError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.nightly.news import Webhook, find_webhook
from cudnn_sweep.orchestrator.planning.decided import contrasts_of
from cudnn_sweep.orchestrator.planning.options import LaunchOptions, NightOptions, read_date
from cudnn_sweep.orchestrator.planning.request import SweepRequest, request_of
from cudnn_sweep.orchestrator.planning.spec import (
    NightlyKeys,
    NightName,
    SweepSpec,
    is_night_of,
    launch_name,
)
from cudnn_sweep.orchestrator.remote.destinations import Destination, Here, destination_of
from cudnn_sweep.orchestrator.remote.job import NightJob
from cudnn_sweep.orchestrator.running.run_sweep import Place
from cudnn_sweep.workloads.cells.suite import FIXED_BLOCKS, CellAxes, SuiteSpec
from cudnn_sweep.workloads.hashes import checksum

NO_SUITE = SuiteSpec(cells=[CellAxes(workload="noop")])  # used if a night's suite is unreadable
COMPARED_WITH = timedelta(days=100)  # period of earlier nights that a cluster job gets
MOST_NAMED = 10  # alerts named in a message
MOST_CHARACTERS = 200  # that a message quotes from an unreadable file
SENT = "told.json"
BY_HAND = "edited"  # replaces the checksum of a file that a user has edited
AGAIN = "restore the file, or use --night DATE --no-measure to compare its night again"
T = TypeVar("T")
SentAlert: TypeAlias = tuple[str, date]  # series_id, and the first night of the finding
DATE = TypeAdapter(date)
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

    def keep(self, sweep_id: str, text: str) -> None:
        """Write the outcome of a cluster job. Raises ReportError if it is of another night."""
        outcome = from_json(text)
        if outcome.night != sweep_id:
            raise ReportError(f"found the outcome of {outcome.night!r}, wanted that of {sweep_id}")
        self.write(outcome)

    def of(self, name: NightName) -> NightOutcome | None:
        return self._outcome(f"{name.sweep_id}.json")

    def before(self, name: NightName, *, measured: bool = True) -> NightOutcome | None:
        """Return the previous night's outcome. If `measured`, skip nights without trials."""
        nights = [night for night in self._nights() if night < f"{name.sweep_id}.json"]
        outcomes = map(self._outcome, reversed(nights))
        return next((it for it in outcomes if not measured or it and it.recorded_trials), None)

    def last(self) -> NightOutcome | None:
        """Return the outcome of the last night with trials. Raises SpecError for a damaged file."""
        outcomes = (self._read(night, from_json) for night in reversed(self._nights()))
        return next((outcome for outcome in outcomes if outcome and outcome.recorded_trials), None)

    def unreadable(self, name: NightName) -> list[str]:
        """Return an error message for each unreadable file up to this night."""
        faults = []
        nights = [night for night in self._nights() if night <= f"{name.sweep_id}.json"]
        for file in (*nights, SENT):
            try:
                self._sent() if file == SENT else self._read(file, from_json)
            except SpecError as error:
                faults.append(str(error))
        return faults

    def is_last(self, name: NightName) -> bool:
        return all(night <= f"{name.sweep_id}.json" for night in self._nights())

    def sent_alerts(self) -> list[SentAlert]:
        with suppress(SpecError):  # alerts are sent again if the file is damaged
            return self._sent()
        return []

    def write_sent_alerts(self, sent: list[SentAlert]) -> None:
        self._write(SENT, SENT_ALERTS.dump_json(sent, indent=1).decode())

    def baseline(self) -> date | None:
        otherwise = "--pin replaces the file, --unpin removes it"
        return self._read("baseline.json", DATE.validate_json, otherwise)

    def pin(self, first: date) -> None:
        self._write("baseline.json", DATE.dump_json(first).decode())

    def unpin(self) -> None:
        self.store.folder.remove(self._path("baseline.json"))

    def accepted(self) -> list[Acceptance]:
        otherwise = "restore the file, or remove it and repeat each --accept"
        return self._read("accepted.json", ACCEPTED.validate_json, otherwise) or []

    def accept(self, new: Sequence[Acceptance]) -> None:
        content = ACCEPTED.dump_json([*self.accepted(), *new], indent=1)
        self._write("accepted.json", content.decode())

    def _nights(self) -> list[str]:
        names = self.store.folder.names(self._path(""), ".json")
        return [name for name in names if name.startswith("night-")]

    def _outcome(self, night: str) -> NightOutcome | None:
        with suppress(SpecError):
            return self._read(night, from_json)
        return None

    def _sent(self) -> list[SentAlert]:
        return self._read(SENT, SENT_ALERTS.validate_json, "alerts are sent again") or []

    def _read(self, name: str, parse: Callable[[str], T], otherwise: str = AGAIN) -> T | None:
        """Return the parsed file, or None if it is missing. Raises SpecError for a damaged file."""
        folder, path = self.store.folder, self._path(name)
        try:
            text = folder.read(path).to_pybytes().decode(errors="replace")
        except FileNotFoundError:
            return None
        try:
            return parse(_content_of(text))
        except (ReportError, ValueError, RecursionError) as error:
            why = str(error).partition("\n")[0][:MOST_CHARACTERS]
            shown = f"{folder.shown(path)} cannot be read ({why})"
            raise SpecError(f"{shown}: {text[:MOST_CHARACTERS]!r}; {otherwise}") from None

    def _write(self, name: str, text: str) -> None:
        file = f'{{"crc32": "{checksum(json.loads(text))}", "content":\n{text}}}\n'
        self.store.folder.write(self._path(name), pa.py_buffer(file.encode()))

    def _path(self, name: str) -> str:
        return f"nightly/{self.launch}/{name}".rstrip("/")


def _content_of(text: str) -> str:
    """Return a file's `content` as JSON. Raises ValueError if the checksum is wrong."""
    file = json.loads(text)
    if not isinstance(file, dict) or file.keys() != {"crc32", "content"}:
        raise ValueError('it is not {"crc32": ..., "content": ...}')
    if file["crc32"] not in (checksum(file["content"]), BY_HAND):
        raise ValueError(
            f'its checksum is wrong, so it is damaged; if you edited it, set "crc32" to "{BY_HAND}"'
        )
    return json.dumps(file["content"])


@dataclass(frozen=True, kw_only=True, slots=True)
class NightRequest:
    options: NightOptions
    keys: NightlyKeys
    request: SweepRequest
    name: NightName
    host: str = field(default_factory=socket.gethostname)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    place: Place | None = None
    """Machine or cluster on which this process measures, if it does."""
    destination: Destination = field(default_factory=Here)
    webhook: Webhook | SpecError | None = None
    """Webhook of the launch file, or the error that it caused."""
    fault: Exception | None = None
    """Error that is raised after the night is reported."""

    @property
    def suite(self) -> SuiteSpec:
        return self.request.suite

    @property
    def minutes(self) -> float:
        return self.request.budget_minutes or self.keys.minutes

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        return contrasts_of(self.suite.every_config)

    @property
    def reports(self) -> Path:
        """Folder of the reports, with a folder for each date."""
        if self.options.reports is not None:
            return self.options.reports
        where = Location(self.request.results)
        beside = Path("nightly-reports") if where.is_url else where.folder / "nightly"
        return beside / self.name.launch / "reports"

    def diary(self) -> Diary:
        return Diary(store=self.store(), launch=self.name.launch)

    def store(self) -> Store:
        return open_store(self.request.results)

    def job(self) -> NightJob:
        since = self.diary().baseline() or self.name.date - COMPARED_WITH
        return NightJob(
            options=self.options, keys=self.keys, name=self.name, host=self.host, since=since
        )

    def again(self, cell_id: str | None = None) -> str:
        """Return the command that measures a cell again, or all cells if `cell_id` is None."""
        words = [self.options.program, "launch", str(self.options.file)]
        words += ["--suite", self.request.suite_name]
        if self.options.results is not None:
            words += ["--results", self.options.results]
        only = [] if cell_id is None else ["--only", f"cell_id={cell_id}"]
        return shlex.join([*words, "--new", *only])


def read_night(
    options: NightOptions, environment: Mapping[str, str], place: Place | None = None
) -> NightRequest:
    """Read the launch file. Store errors in its suite, `last_good` or webhook in the night. Raise
    others, and errors in a typed suite. `place` replaces the file's destination."""
    file = read_launch_file(options.file, SweepSpec)
    keys = file.sweep.nightly
    name = NightName(date=options.night or date.today(), launch=launch_name(file))
    launch = LaunchOptions(
        file=options.file,
        suite=options.suite or keys.suite,
        results=options.results,
        sweep_id=name.sweep_id,
        minutes=options.minutes or keys.minutes,
        dry_run=options.dry_run,
        program=options.program,
    )
    destination = destination_of(file)
    fault: Exception | None = None
    webhook: Webhook | SpecError | None = None
    try:
        request = request_of(file, launch)
        if request.suite.is_race:
            raise SpecError(
                f"suite {request.suite_name}: replicates: found `until: best`; a night allows a number or "
                "`until: decided`"
            )
        is_here = options.measure and place is None and isinstance(destination, Here)
        if is_here and keys.last_good is not None and not shutil.which(keys.last_good):
            raise SpecError(
                f"metadata.sweep.nightly.last_good: found no program {keys.last_good}; allowed: the Python of a "
                "virtual environment, such as /opt/good/bin/python"
            )
    except (ClusterError, OrchestratorError) as error:
        if options.suite is not None:  # errors in a suite that the user typed are raised at once
            raise
        fault = error
        results = Location(options.results or file.sweep.results).text
        request = SweepRequest(
            options=launch, suite_name=keys.suite, suite=NO_SUITE, results=results
        )
    try:
        webhook = find_webhook(keys.webhook, environment) if keys.webhook is not None else None
    except SpecError as error:  # a night also runs without a webhook
        webhook = error
    # Each night has the same number of blocks, so that nights can be compared.
    request = replace(request, suite=request.suite.with_blocks(FIXED_BLOCKS), may_skip=True)
    return NightRequest(
        options=options,
        keys=keys,
        request=request,
        name=name,
        place=place if options.measure else None,
        destination=destination,
        webhook=webhook,
        fault=fault,
    )


def accept_change(options: NightOptions, target: str, first: str | None, reason: str | None) -> str:
    """Accept the last night's alerts of a series, a cell or a metric. Return a message. Raises
    SpecError if there is no such alert, or if the date or the reason is invalid."""
    if first is None or not (reason or "").strip():
        raise SpecError(
            f"--accept {target}: needs --from DATE (the change's first night) and --reason TEXT"
        )
    night, diary = read_date(first, "--from"), _diary(options)
    last = diary.last()
    if last is None:
        raise SpecError(f"--accept {target}: there is no night of {diary.launch} yet")
    keys = [
        found.key
        for found in (*last.findings, *last.members)
        if found.is_alert and found.key.metric != SHARED
        if target in (found.key.series_id, found.key.cell_id, found.key.metric, found.shared)
    ]
    if not keys:
        named = [f"{alert.key.series_id} ({alert.key.cell})" for alert in last.alerts[:MOST_NAMED]]
        raise SpecError(
            f"--accept {target}: no alert of {last.night} has this series, cell or metric; "
            f"its alerts: {', '.join(named) or 'none'}"
        )
    if night > last.date:
        raise SpecError(f"--from {night}: this night is after the last night, {last.date}")
    why, on = str(reason).strip(), last.date
    diary.accept([Acceptance(key=key, first=night, reason=why, told_on=on) for key in keys])
    series = "; ".join(f"{key.cell} · {key.settings}: {meaning(key)}" for key in keys[:MOST_NAMED])
    more = f"; and {len(keys) - MOST_NAMED} more" if keys[MOST_NAMED:] else ""
    return f"Accepted from {night} on: {series}{more}. The next night compares with the nights since then."


def pin_baseline(options: NightOptions, first: date | None) -> str:
    """Pin the night `first`, or unpin if it is None. Return a message. Raises SpecError."""
    diary = _diary(options)
    if first is None:
        diary.unpin()
        return f"Nights of {diary.launch} are compared with the month before them."
    name = NightName(date=first, launch=diary.launch)
    nights = [night for night in diary.store.sweep_ids() if is_night_of(night, diary.launch)]
    if name.sweep_id not in nights:
        last = ", ".join(nights[-5:]) or "none"
        raise SpecError(f"--pin {first}: there is no {name.sweep_id}; the last nights: {last}")
    diary.pin(first)
    return f"Nights of {diary.launch} are compared with the month that begins on {first}."


def _diary(options: NightOptions) -> Diary:
    file = read_launch_file(options.file, SweepSpec)
    return Diary(store=open_store(options.results or file.sweep.results), launch=launch_name(file))
