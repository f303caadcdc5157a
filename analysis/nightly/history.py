"""The nights that are stored, and what each measured: the series that tonight is compared in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, TypeAlias

from cudnn_sweep.analysis.answering.cell_names import CELLS, whole_names
from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.database import Database, open_database
from cudnn_sweep.analysis.asking.queries import Value, load_query
from cudnn_sweep.analysis.asking.settings import besides_usual, config_name, texts_in
from cudnn_sweep.analysis.nightly.machines import MACHINE, differences, machines_of, parts_of
from cudnn_sweep.analysis.nightly.outcome import Change, Machine, NightPoint, Series, SeriesKey
from cudnn_sweep.analysis.storing.schema import columns_of
from cudnn_sweep.analysis.storing.store import Store

Row: TypeAlias = dict[str, Any]
ByName: TypeAlias = dict[tuple[str, str, str], dict[str, Row]]
"""Rows by night, by cell, settings and metric."""

SOFTWARE, HARDWARE = columns_of("software"), columns_of("hardware")
WORKLOAD = "workload"  # of the software too, where cells are of a user's own
SOFTWARE_AND_COMMIT = (*SOFTWARE, "commit")  # a commit alone is no other software
EVERY_CONFIG = "every config"  # of a cell that is missing
MISSING: Row = {"word": "missing", "value": None, "processes": 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One night's hardware and software."""

    env_hash: str
    software_hash: str
    parts: Mapping[str, str]
    """SOFTWARE, HARDWARE and `commit`, as text."""
    recorded: int


@dataclass(frozen=True, kw_only=True)
class Night:
    sweep_id: str
    date: date
    planned: int
    """How many trials the night's plan has."""
    reached: int
    """How far in its plan blocks had their turn."""
    measured: tuple[Measured, ...]
    """What was measured, by hardware and software: more than one where nodes differ."""
    in_turns: bool = False
    """Whether processes of its blocks took turns: times that were taken otherwise do not compare."""
    machines: Mapping[str, str] = field(default_factory=dict)
    """The parts of MACHINE, as text; several in one text where it ran on several machines."""

    @cached_property
    def env_hashes(self) -> frozenset[str]:
        return frozenset(each.env_hash for each in self.measured)

    @property
    def recorded(self) -> int:
        return sum(each.recorded for each in self.measured)

    @property
    def is_cut(self) -> bool:
        """Its time was up before every block of its plan had its turn."""
        return self.reached < self.planned

    @property
    def is_whole(self) -> bool:
        """All of its plan is recorded: what it has not, its suite has not."""
        return self.recorded >= self.planned

    def software_of(self, env_hash: str) -> str:
        """The software_hash that most of the night's trials ran with, on this hardware."""
        here = [each for each in self.measured if each.env_hash == env_hash]
        return max(here, key=lambda each: each.recorded).software_hash

    def parts(self, names: Iterable[str]) -> dict[str, str]:
        """What each of these parts was, by name; several in one text where nodes differ."""
        return {
            name: self.machines.get(name, "")
            if name in MACHINE
            else ", ".join(sorted({each.parts[name] for each in self.measured}))
            for name in names
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    nights: tuple[Night, ...]
    """Oldest first, tonight last, whatever their hardware."""
    series: tuple[Series, ...]
    """The series of tonight's hardware."""
    workloads: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The workload_hash by the night's sweep_id, env_hash and cell_id; bundled workloads have none."""
    machines: tuple[Machine, ...] = ()
    """The machines that tonight ran on."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """By cell_id, what the last of tonight's failed trials said."""

    @property
    def tonight(self) -> Night:
        return self.nights[-1]

    def comparable(self, env_hash: str) -> list[Night]:
        return _like(self.nights, env_hash)

    def workload_change(self, key: SeriesKey, at: int) -> tuple[str | None, str | None]:
        """The workload_hash of a series' cell on the comparable night `at`, after the last one known
        before it.
        """
        hashes = [
            self.workloads.get((night.sweep_id, key.env_hash, key.cell_id))
            for night in self.comparable(key.env_hash)[: at + 1]
        ]
        known = [each for each in hashes[:-1] if each is not None]
        return (known[-1] if known else None), hashes[-1]

    def edited(self, key: SeriesKey, at: int) -> tuple[Change, ...]:
        """That change, where both are known and it is one."""
        old, new = self.workload_change(key, at)
        if old is None or new is None or old == new:
            return ()
        return (Change(part=WORKLOAD, before=old, now=new),)

    def edited_tonight(self) -> tuple[Change, ...]:
        """Code of a user's own that is not what it was."""
        cells = {(one.key.env_hash, one.key.cell_id): one for one in self.series}
        found = {
            change for one in cells.values() for change in self.edited(one.key, len(one.points) - 1)
        }
        return tuple(sorted(found, key=lambda change: (change.before, change.now)))


def changes(before: Night, now: Night, names: Sequence[str]) -> tuple[Change, ...]:
    """The parts that are not what they were."""
    return differences(before.parts(names), now.parts(names), names)


def read_history(
    store: Store,
    launch: str,
    tonight: str,
    contrasts: Sequence[Contrast],
    *,
    first: date | None = None,
) -> History | None:
    """The nights of one launch file up to `tonight`, a sweep_id; None where tonight has no record.

    `first`: nights before it are another baseline.
    """
    until = tonight.removeprefix("night-")[:10]
    asked: dict[str, Value] = {"launch": launch, "until": until}
    with open_database(store) as database:
        machines = ask(database, "night_machines", asked)
        nights = _nights(ask(database, "nights", asked), machines, first)
        if not nights or nights[-1].sweep_id != tonight:
            return None
        stored = database.query(CELLS).to_pylist()
        rows = ask(database, "night_series", asked)
        signs = series_signs(database, asked, contrasts)
        failed = ask(database, "failures", {"sweep_id": tonight})
    here = {night.sweep_id for night in nights}
    measured = [row for row in rows + signs if row["night"] in here]
    names = whole_names(stored)
    cells = {row["cell_id"]: (names[row["cell_id"]], row["gpu"]) for row in stored}
    series = [
        series
        for env_hash in sorted(nights[-1].env_hashes)
        for series in _series(measured, env_hash, nights, cells)
    ]
    workloads = {
        (row["night"], row["env_hash"], row["cell_id"]): row["workload_hash"]
        for row in rows
        if row["workload_hash"] is not None
    }
    return History(
        nights=tuple(nights),
        series=tuple(series),
        workloads=workloads,
        machines=machines_of(machines, tonight),
        failures={
            row["cell_id"]: row["message"].splitlines()[0] for row in failed if row["message"]
        },
    )


def series_signs(
    database: Database, asked: Mapping[str, Value], contrasts: Sequence[Contrast]
) -> list[Row]:
    """Whether each setting helped or hurt, on every night and in every confirmation."""
    return [
        _as_sign(row)
        for contrast in contrasts
        for row in ask(database, "night_signs", {**asked, **contrast.values()})
    ]


def ask(database: Database, name: str, values: Mapping[str, Value]) -> list[Row]:
    question = load_query(name)
    rows: list[Row] = database.query(question.sql, question.values(values)).to_pylist()
    return rows


def _nights(rows: list[Row], machines: list[Row], first: date | None) -> list[Night]:
    by_night: dict[str, list[Row]] = {}
    for row in rows:
        by_night.setdefault(row["night"], []).append(row)
    nights = [
        _night(sweep_id, each, parts_of(machines, sweep_id))
        for sweep_id, each in sorted(by_night.items())
    ]
    return [night for night in nights if first is None or night.date >= first]


def _night(sweep_id: str, rows: list[Row], machines: Mapping[str, str]) -> Night:
    return Night(
        sweep_id=sweep_id,
        date=date.fromisoformat(sweep_id.removeprefix("night-")[:10]),
        planned=max(row["planned"] for row in rows),
        reached=max(row["reached"] for row in rows),
        in_turns=any(row["in_turns"] for row in rows),
        machines=machines,
        measured=tuple(
            Measured(
                env_hash=row["env_hash"],
                software_hash=row["software_hash"],
                parts={name: str(row[name]) for name in (*HARDWARE, *SOFTWARE_AND_COMMIT)},
                recorded=row["recorded"],
            )
            for row in rows
        ),
    )


def _as_sign(row: Row) -> Row:
    """Named by its contrast, and by what else is not as PyTorch has it."""
    others = besides_usual(texts_in(row["other_settings"])).items()
    settings = " ".join([row["contrast"], *(f"{name}={text}" for name, text in others)])
    return {**row, "metric": "sign", "value": None, "settings": settings}


def _series(
    rows: Iterable[Row], env_hash: str, nights: list[Night], cells: Mapping[str, tuple[str, str]]
) -> Iterator[Series]:
    """Of one kind of hardware."""
    found: ByName = {}
    for row in rows:
        if row["env_hash"] == env_hash:
            key = (row["cell_id"], row["settings"], row["metric"])
            found.setdefault(key, {})[row["night"]] = row
    here = _like(nights, env_hash)
    softwares = [night.software_of(env_hash) for night in here]
    measured = _without_retired(found, here)
    for (cell_id, settings, metric), by_night in (measured | _presence(measured, here)).items():
        yield Series(
            key=_key(env_hash, cell_id, cells, settings, metric),
            points=tuple(
                _point(night, software, by_night.get(night.sweep_id))
                for night, software in zip(here, softwares, strict=True)
            ),
        )


def _like(nights: Sequence[Night], env_hash: str) -> list[Night]:
    """Those on this hardware that measured as the last one of all did."""
    in_turns = nights[-1].in_turns
    return [
        night for night in nights if env_hash in night.env_hashes and night.in_turns == in_turns
    ]


def _without_retired(measured: ByName, nights: list[Night]) -> ByName:
    """But for cells, and configs of a cell, that the suite has no more."""
    last_whole = max((night.sweep_id for night in nights if night.is_whole), default="")
    last: dict[str, str] = {}
    retired: set[tuple[str, str]] = set()
    for (cell_id, settings, metric), by_night in measured.items():
        if metric == "failure":
            last[cell_id] = max(last.get(cell_id, ""), *by_night)
            if max(by_night) < last_whole:
                retired.add((cell_id, settings))
    return {
        key: by_night
        for key, by_night in measured.items()
        if last.get(key[0], "") >= last_whole and key[:2] not in retired
    }


def _presence(measured: ByName, nights: list[Night]) -> ByName:
    """A series for each cell: on which nights it was measured, and on which it was missing.

    A night that was cut does not tell: its turn may not have come. In one that is whole nothing is missing.
    """
    found: ByName = {}
    for (cell_id, _, metric), by_night in measured.items():
        if metric == "failure":
            of = found.setdefault((cell_id, EVERY_CONFIG, "missing"), {})
            of.update({night: {**row, "word": "present"} for night, row in by_night.items()})
    for by_night in found.values():
        for night in nights:
            is_past = night.sweep_id > min(by_night)
            tells = is_past and not night.is_cut and not night.is_whole
            if tells and night.sweep_id not in by_night:
                by_night[night.sweep_id] = MISSING
    return found


def _point(night: Night, software: str, row: Row | None) -> NightPoint:
    value: float | str | None = None
    if row is not None:
        value = row["word"] if row["value"] is None else row["value"]
    return NightPoint(
        night=night.sweep_id,
        date=night.date,
        value=value,
        processes=0 if row is None else row["processes"],
        software_hash=software,
        **{name: None if row is None else row.get(name) for name in MACHINE},
    )


def _key(
    env_hash: str, cell_id: str, cells: Mapping[str, tuple[str, str]], settings: str, metric: str
) -> SeriesKey:
    """`cells`: of each its name and its GPU."""
    name, gpu = cells[cell_id]
    plain = metric in ("sign", "missing")
    return SeriesKey(
        metric=metric,
        env_hash=env_hash,
        gpu=gpu,
        cell_id=cell_id,
        cell=name,
        settings=settings if plain else config_name(texts_in(settings)),
    )
