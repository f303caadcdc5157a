"""What nights leave beside the results for later ones: outcomes, what was told, the pinned baseline.

    nightly/NAME/night-2026-11-21-NAME.json    a night's outcome, as `night.json` of its reports
    nightly/NAME/told.json                     the alerts that were told, so that they are told once
    nightly/NAME/baseline.json                 the night from which on nights are compared
    nightly/NAME/accepted.json                 changes that somebody accepted, oldest first

NAME is the launch file's. A night that is compared again overwrites its outcome; nothing is removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from cudnn_sweep.analysis.errors import ReportError
from cudnn_sweep.analysis.nightly.outcome import Acceptance, Finding, NightOutcome
from cudnn_sweep.analysis.nightly.reports.as_json import from_json, to_json
from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.night_name import NightName


class SentAlert(BaseModel):
    """An alert that somebody has heard of."""

    metric: str
    env_hash: str
    cell_id: str
    settings: str
    since: date


class Baseline(BaseModel):
    first: date
    """The night from which on nights are compared, and to whose month."""


SHOWN = 200  # characters of a file that is not what it should be
SENT_ALERTS = TypeAdapter(list[SentAlert])
ACCEPTED = TypeAdapter(list[Acceptance])


def as_sent_alert(finding: Finding) -> SentAlert:
    key = finding.key
    return SentAlert(
        metric=key.metric,
        env_hash=key.env_hash,
        cell_id=key.cell_id,
        settings=key.settings,
        since=finding.since,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Diary:
    store: Store
    launch: str

    def write(self, outcome: NightOutcome) -> None:
        self._write(f"{outcome.night}.json", to_json(outcome))

    def of(self, name: NightName) -> NightOutcome | None:
        """What an earlier start of this night made of it."""
        return self._outcome(f"{name.sweep_id}.json")

    def before(self, name: NightName, *, measured: bool = True) -> NightOutcome | None:
        """The last outcome of an earlier night, of one that measured something or of any."""
        nights = [night for night in self._nights() if night < f"{name.sweep_id}.json"]
        return self._last(nights) if measured or not nights else self._outcome(nights[-1])

    def last(self) -> NightOutcome | None:
        """That of all nights."""
        return self._last(self._nights())

    def _last(self, nights: list[str]) -> NightOutcome | None:
        for night in reversed(nights):
            outcome = self._outcome(night)
            if outcome is not None and outcome.recorded_trials:
                return outcome
        return None

    def unreadable(self, name: NightName) -> list[str]:
        """Where outcomes of earlier nights lie that cannot be read: callers say so."""
        earlier = [night for night in self._nights() if night < f"{name.sweep_id}.json"]
        return [self._shown(night) for night in earlier if self._outcome(night) is None]

    def _outcome(self, night: str) -> NightOutcome | None:
        try:
            return from_json(self._read(night) or "")
        except ReportError:
            return None

    def is_last(self, name: NightName) -> bool:
        return all(night <= f"{name.sweep_id}.json" for night in self._nights())

    def sent_alerts(self) -> list[SentAlert]:
        text = self._read("told.json")
        try:
            return SENT_ALERTS.validate_json(text) if text else []
        except ValidationError:  # then they are told once more
            return []

    def write_sent_alerts(self, told: list[SentAlert]) -> None:
        self._write("told.json", SENT_ALERTS.dump_json(told, indent=1).decode())

    def baseline(self) -> date | None:
        text = self._read("baseline.json")
        try:
            return None if text is None else Baseline.model_validate_json(text).first
        except ValidationError:
            raise SpecError(
                f"{self._shown('baseline.json')} is no pinned baseline: {(text or '')[:SHOWN]!r}"
            ) from None

    def pin(self, first: date) -> None:
        self._write("baseline.json", Baseline(first=first).model_dump_json())

    def unpin(self) -> None:
        self.store.folder.remove(self._path("baseline.json"))

    def accepted(self) -> list[Acceptance]:
        text = self._read("accepted.json")
        try:
            return ACCEPTED.validate_json(text) if text else []
        except ValidationError:
            raise SpecError(
                f"{self._shown('accepted.json')} holds no accepted changes: {text}"
            ) from None

    def accept(self, new: Sequence[Acceptance]) -> None:
        content = ACCEPTED.dump_json([*self.accepted(), *new], indent=1)
        self._write("accepted.json", content.decode())

    def _nights(self) -> list[str]:
        names = self.store.folder.names(self._path(""), ".json")
        return [name for name in names if name.startswith("night-")]

    def _read(self, name: str) -> str | None:
        try:
            content: bytes = self.store.folder.read(self._path(name)).to_pybytes()
        except FileNotFoundError:
            return None
        return content.decode(errors="replace")

    def _write(self, name: str, text: str) -> None:
        self.store.folder.write(self._path(name), pa.py_buffer(text.encode()))

    def _path(self, name: str) -> str:
        return f"nightly/{self.launch}/{name}".rstrip("/")

    def _shown(self, name: str) -> str:
        return self.store.folder.shown(self._path(name))
