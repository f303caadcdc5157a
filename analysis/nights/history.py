"""Reads the nights of a launch file from the store."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.engine.settings import besides_usual, config_name, texts_in
from cudnn_sweep.analysis.nights.outcome import Machine, Version
from cudnn_sweep.analysis.nights.series import Change, NightPoint, Series, SeriesKey
from cudnn_sweep.analysis.results.cell_names import CELLS, whole_names
from cudnn_sweep.analysis.results.contrast import Contrast
from cudnn_sweep.analysis.store.schema import columns_of
from cudnn_sweep.analysis.store.store import Store

Row: TypeAlias = dict[str, Any]
ByName: TypeAlias = dict[tuple[str, str, str], dict[str, Row]]
"""Rows by (cell_id, settings, metric), then by the night's sweep_id."""

SOFTWARE, HARDWARE = columns_of("software"), columns_of("hardware")
WORKLOAD = "workload"  # part name for the code of a user's workload
SOFTWARE_AND_COMMIT = (*SOFTWARE, "commit")  # a new commit alone is no new software
MACHINE = ("gpu_uuid", "host", "cpu_model")
PHYSICAL = ("gpu_uuid", "cpu_model")  # without the host, because each container has a new host name
EVERY_CONFIG = "every config"  # settings of a series `missing`, which is about a whole cell
GPU_HOURS = """
select sum(hours) as gpu_hours
from (
    select epoch(max(ended_at) - min(started_at)) / 3600 as hours
    from records
    where device = 'cuda' and sweep_id in ($night, regexp_replace($night, '^night-', 'confirm-'))
    group by sweep_id, launch_id, slot
)
"""
MACHINES = """
with usual as (
    select
        env_hash,
        precision,
        median(calibration_matmul_tflops) as usual_tflops,
        median(calibration_copy_gbps) as usual_gbps
    from night_machines($launch, $until)
    where night < $night
    group by env_hash, precision  -- each precision has its own calibration
)

select
    gpu,
    gpu_uuid,
    host,
    cpu_model,
    sum(trials)::bigint as trials,
    median(calibration_matmul_tflops / usual_tflops) as matmul,
    median(calibration_copy_gbps / usual_gbps) as copy
from night_machines($launch, $until)
left join usual using (env_hash, precision)
where night = $night
group by gpu, gpu_uuid, host, cpu_model
order by min(env_hash), gpu_uuid, host, cpu_model
"""
NOT_MEASURED: Row = {"word": "missing"}


@dataclass(frozen=True, kw_only=True)
class Night:
    sweep_id: str
    date: date
    planned: int
    reached: int
    """Number of planned trials that the night reached before its time ended."""
    recorded: int
    softwares: Mapping[str, str]
    """The software_hash of most of the night's trials, by env_hash."""
    parts: Mapping[str, str]
    """Value of each part of the hardware, software and machine, by the part's name."""
    in_turns: bool = False
    """Whether the processes of a block took turns."""

    @property
    def is_cut(self) -> bool:
        return self.reached < self.planned

    @property
    def is_whole(self) -> bool:
        return self.recorded >= self.planned


@dataclass(frozen=True, kw_only=True)
class History:
    nights: tuple[Night, ...]
    """Nights on any hardware, from the oldest to tonight."""
    series: tuple[Series, ...]
    """Series on tonight's hardware."""
    is_pinned: bool = False
    """Whether nights are compared with the first month, because a user pinned the first night."""
    workloads: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """Hash of a user's workload, by (sweep_id, env_hash, cell_id)."""
    machines: tuple[Machine, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    """First line of an error of each cell that failed tonight, by cell_id."""
    gpu_hours: float | None = None

    @property
    def tonight(self) -> Night:
        return self.nights[-1]

    def comparable(self, env_hash: str) -> list[Night]:
        return _comparable(self.nights, env_hash)

    @cached_property
    def longest(self) -> str:
        """The env_hash of tonight that has the most comparable nights."""
        return max(sorted(self.tonight.softwares), key=lambda env: len(self.comparable(env)))

    def workload_change(self, key: SeriesKey, at: int) -> tuple[str | None, str | None]:
        """Return the workload's last known hash before night `at`, and its hash on night `at`."""
        *earlier, now = [
            self.workloads.get((night.sweep_id, key.env_hash, key.cell_id))
            for night in self.comparable(key.env_hash)[: at + 1]
        ]
        return next((code for code in reversed(earlier) if code is not None), None), now

    def edited(self, key: SeriesKey, at: int) -> tuple[Change, ...]:
        """Return the change of the workload's code on night `at`, if there is one."""
        old, new = self.workload_change(key, at)
        if old is None or new is None or old == new:
            return ()
        return (Change(part=WORKLOAD, before=old, now=new),)

    def softwares(self, key: SeriesKey) -> list[tuple[str, str | None]]:
        here = self.comparable(key.env_hash)
        codes = [self.workloads.get((night.sweep_id, key.env_hash, key.cell_id)) for night in here]
        known: Iterable[str | None] = accumulate(codes, lambda old, new: new or old)
        return [*zip((night.softwares[key.env_hash] for night in here), known, strict=True)]

    def moved(self, series: Series, at: int) -> tuple[Change, ...]:
        """Return the changes of software, workload and machine on night `at`."""
        if not at:
            return ()
        before, now = self.comparable(series.key.env_hash)[at - 1 : at + 1]
        point = series.points[at]
        measured = [past for past in series.points[:at] if past.value is not None] or [point]
        old, new = (
            {name: getattr(night, name) or "" for name in MACHINE}
            for night in (measured[-1], point)
        )
        return (
            *differences(before.parts, now.parts, SOFTWARE_AND_COMMIT),
            *self.edited(series.key, at),
            *differences(old, new, MACHINE),
        )

    def changes(self) -> tuple[Change, ...]:
        """Return changes of hardware, software, machine and user code since the previous night."""
        if len(self.nights) < 2:
            return ()
        cells = {(series.key.env_hash, series.key.cell_id): series for series in self.series}
        edited = {
            change
            for series in cells.values()
            for change in self.edited(series.key, len(series.points) - 1)
        }
        before, names = self.nights[-2], (*HARDWARE, *SOFTWARE, *MACHINE)
        ordered = sorted(edited, key=lambda change: (change.before, change.now))
        return (*differences(before.parts, self.tonight.parts, names), *ordered)

    def versions(self) -> tuple[Version, ...]:
        return tuple(
            Version(
                date=now.date,
                software_hash=now.softwares[self.longest],
                changes=differences(before.parts, now.parts, SOFTWARE),
            )
            for before, now in pairwise(self.comparable(self.longest))
            if before.softwares[self.longest] != now.softwares[self.longest]
        )

    def new_baseline(self) -> str | None:
        """Return the reason if earlier nights exist but none is comparable with tonight."""
        *earlier, tonight = self.nights
        same = [night for night in earlier if night.softwares.keys() & tonight.softwares.keys()]
        if not earlier or any(night.in_turns == tonight.in_turns for night in same):
            return None
        if same:
            method = "take turns" if tonight.in_turns else "run one after another"
            return f"processes of a block {method}, unlike in the {len(same)} nights before"
        moved = ", ".join(
            f"{change.part} {change.before} → {change.now}"
            for change in differences(earlier[-1].parts, tonight.parts, HARDWARE)
        )
        return f"other hardware than in the {len(earlier)} nights before: {moved}"


def differences(
    before: Mapping[str, object], now: Mapping[str, object], names: Sequence[str]
) -> tuple[Change, ...]:
    """Return the parts whose values differ. Unknown parts of the machine are skipped."""
    return tuple(
        Change(part=name, before=str(before[name]), now=str(now[name]))
        for name in names
        if before[name] != now[name] and not (name in MACHINE and "" in (before[name], now[name]))
    )


def read_history(
    store: Store,
    launch: str,
    tonight: str,
    contrasts: Sequence[Contrast],
    *,
    first: date | None = None,
    skipped: Collection[str] = (),
) -> History | None:
    """Read the nights of `launch` from the date `first` to the sweep_id `tonight`, without the
    models in `skipped`. Return None if `tonight` is not stored."""
    nights_until: dict[str, Value] = {"launch": launch, "until": str(date_of(tonight))}
    with open_database(store) as database:
        machines = database.ask("night_machines", **nights_until).to_pylist()
        by_night = database.ask("nights", **nights_until).to_pylist()
        ids = sorted({row["night"] for row in by_night})
        ids = [sweep_id for sweep_id in ids if first is None or date_of(sweep_id) >= first]
        nights = [_night(sweep_id, by_night, machines) for sweep_id in ids]
        if not nights or nights[-1].sweep_id != tonight:
            return None
        stored = database.query(CELLS).to_pylist()
        rows = database.ask("night_series", **nights_until).to_pylist()
        signs = sign_rows(database, contrasts, **nights_until)
        failed = database.ask("failures", sweep_id=tonight).to_pylist()
        used = database.query(MACHINES, {**nights_until, "night": tonight}).to_pylist()
        gpu_hours = database.query(GPU_HOURS, {"night": tonight}).to_pylist()[0]["gpu_hours"]
    measured = [row for row in rows + signs if row["night"] in ids]
    names = whole_names(stored)
    cells = {row["cell_id"]: (names[row["cell_id"]], row["gpu"]) for row in stored}
    return History(
        nights=tuple(nights),
        series=tuple(
            series
            for env_hash in sorted(nights[-1].softwares)
            for series in _series(measured, env_hash, nights, cells)
            if not series.key.cell.startswith(tuple(skipped))
        ),
        is_pinned=first is not None,
        workloads={
            (row["night"], row["env_hash"], row["cell_id"]): row["workload_hash"]
            for row in rows
            if row["workload_hash"] is not None
        },
        machines=tuple(Machine(**row) for row in used),
        failures={
            row["cell_id"]: row["message"].splitlines()[0] for row in failed if row["message"]
        },
        gpu_hours=gpu_hours,
    )


def date_of(sweep_id: str) -> date:
    return date.fromisoformat(sweep_id.partition("-")[2][:10])


def sign_rows(
    database: Database, contrasts: Sequence[Contrast], **nights_until: Value
) -> list[Row]:
    """Return the rows of the metric `sign`, which says whether a contrast helps or hurts."""
    rows = []
    for contrast in contrasts:
        for row in database.ask("night_signs", **nights_until, **contrast.values()).to_pylist():
            shared = besides_usual(texts_in(row["other_settings"])).items()
            settings = " ".join([row["contrast"], *(f"{name}={text}" for name, text in shared)])
            rows.append({**row, "metric": "sign", "value": None, "settings": settings})
    return rows


def _night(sweep_id: str, every_row: list[Row], machines: list[Row]) -> Night:
    rows = [row for row in every_row if row["night"] == sweep_id]
    there = [row for row in machines if row["night"] == sweep_id]
    installed = {
        name: {str(row[name]) for row in rows} for name in (*HARDWARE, *SOFTWARE_AND_COMMIT)
    }
    machine = {name: {row[name] or "" for row in there} for name in MACHINE}
    softwares: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: -row["recorded"]):
        softwares.setdefault(row["env_hash"], row["software_hash"])
    return Night(
        sweep_id=sweep_id,
        date=date_of(sweep_id),
        planned=max(row["planned"] for row in rows),
        reached=max(row["reached"] for row in rows),
        recorded=sum(row["recorded"] for row in rows),
        softwares=softwares,
        parts={name: ", ".join(sorted(texts)) for name, texts in (installed | machine).items()},
        in_turns=any(row["in_turns"] for row in rows),
    )


def _series(
    rows: Iterable[Row],
    env_hash: str,
    nights: Sequence[Night],
    cells: Mapping[str, tuple[str, str]],
) -> Iterator[Series]:
    """Yield the series of one env_hash. `cells` has the name and GPU of each cell_id."""
    by_name: ByName = {}
    for row in rows:
        if row["env_hash"] == env_hash:
            name = (row["cell_id"], row["settings"], row["metric"])
            by_name.setdefault(name, {})[row["night"]] = row
    here = _comparable(nights, env_hash)
    measured = _without_retired(by_name, here)
    for (cell_id, settings, metric), by_night in (measured | _presence(measured, here)).items():
        (cell, gpu), is_config = cells[cell_id], metric not in ("sign", "missing")
        key = SeriesKey(
            metric=metric,
            env_hash=env_hash,
            gpu=gpu,
            cell_id=cell_id,
            cell=cell,
            settings=config_name(texts_in(settings)) if is_config else settings,
        )
        points = (_point(night, env_hash, by_night.get(night.sweep_id, {})) for night in here)
        yield Series(key=key, points=tuple(points))


def _comparable(nights: Sequence[Night], env_hash: str) -> list[Night]:
    in_turns = nights[-1].in_turns
    return [night for night in nights if env_hash in night.softwares and night.in_turns == in_turns]


def _without_retired(measured: ByName, nights: Sequence[Night]) -> ByName:
    """Drop cells and configs that are no longer in the suite."""
    last_whole = max((night.sweep_id for night in nights if night.is_whole), default="")
    last: dict[str, str] = {}
    retired: set[tuple[str, str]] = set()
    for (cell_id, settings, metric), by_night in measured.items():
        if metric == "failure":
            last[cell_id] = max(last.get(cell_id, ""), *by_night)
            if max(by_night) < last_whole:
                retired.add((cell_id, settings))
    return {
        name: by_night
        for name, by_night in measured.items()
        if last.get(name[0], "") >= last_whole and name[:2] not in retired
    }


def _presence(measured: ByName, nights: Sequence[Night]) -> ByName:
    """Return each cell's rows of the metric `missing`. A cell is not missing if the night was cut,
    or if the suite no longer has the cell."""
    presence: ByName = {}
    for (cell_id, _, metric), by_night in measured.items():
        if metric == "failure":
            there = {night: {**row, "word": "present"} for night, row in by_night.items()}
            presence.setdefault((cell_id, EVERY_CONFIG, "missing"), {}).update(there)
    lossy = [night.sweep_id for night in nights if not night.is_cut and not night.is_whole]
    for by_night in presence.values():
        first = min(by_night)
        by_night |= {date: NOT_MEASURED for date in lossy if date > first and date not in by_night}
    return presence


def _point(night: Night, env_hash: str, row: Row) -> NightPoint:
    value = row.get("value")
    return NightPoint(
        date=night.date,
        value=row.get("word") if value is None else value,
        software_hash=night.softwares[env_hash],
        **{name: row.get(name) for name in MACHINE},
    )
