"""No setting of the config is forgotten anywhere: trials that differ in one alone are never merged.

One store has PyTorch's own config and, for each setting, one config that differs in it alone, each of
them with benchmark off and on; how much slower benchmark makes it is another number for each. Further
cells let every question answer. A test runs this file again over a copy of the package that has
further settings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import md5
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.compare.comparison import compare
from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import load_query, query_names
from cudnn_sweep.analysis.engine.settings import (
    as_text,
    config_name,
    texts_in,
    texts_of,
    usual_texts,
)
from cudnn_sweep.analysis.nights.history import read_history
from cudnn_sweep.analysis.report.content import gather
from cudnn_sweep.analysis.report.sheets import sheets
from cudnn_sweep.analysis.results.contrast import FROZEN, TWINS, Contrast, stored_contrasts
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.schema import (
    RunRecord,
    arrow_schema,
    columns_of,
    setting_name,
    settings,
    to_table,
)
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.orchestrator.planning.decided import contrasts_of, settings_of
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.hardware import environment
from cudnn_sweep.workloads.records.row import SettingValue
from tests.analysis.conftest import make_pair

BLOCKS = 3
NIGHTS = ("night-2026-11-01-lab", "night-2026-11-02-lab")
BENCHMARK = Contrast(field="benchmark", baseline="false", candidate="true")
OTHERS = [column for column in settings() if column != BENCHMARK.field]
CROOKED = 'a, benchmark=true "b" \\'  # text that would break a careless list of settings


def another(column: str) -> SettingValue:
    """A value that is not the usual one."""
    usual, kind = settings()[column].usual, arrow_schema().field(column).type
    if pa.types.is_boolean(kind):
        return not usual
    if pa.types.is_map(kind):
        return {"B": "2", CROOKED: CROOKED}
    if pa.types.is_string(kind):
        return CROOKED
    assert usual is None or isinstance(usual, int | float)
    return (usual or 0) + (0.5 if pa.types.is_floating(kind) else 7)


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeConfig:
    """One config but for benchmark, and the truth about benchmark under it."""

    changes: Mapping[str, Any]
    ratio: float

    @property
    def texts(self) -> dict[str, str]:
        changed = {setting_name(column): as_text(value) for column, value in self.changes.items()}
        return usual_texts() | changed


CONFIGS = [
    MadeConfig(changes={}, ratio=1.05),
    *(
        MadeConfig(changes={name: another(name)}, ratio=1.1 + number / 10)
        for number, name in enumerate(OTHERS)
    ),
]
NAMES = {
    config_name(each.texts | {"benchmark": benchmark})
    for each in CONFIGS
    for benchmark in ("false", "true")
}


CELLS: dict[str, dict[str, Any]] = {
    "cell-a": {},
    "cell-precise": {"precision": "fp32"},
    "cell-turned": {"layout": "channels_last"},
    "cell-elsewhere": {"gpu": "NVIDIA B200", "env_hash": "env-b"},
}


def test_every_field_is_a_column_marked_as_a_setting_with_its_default() -> None:
    assert Config().columns() == {column: mark.usual for column, mark in settings().items()}


@pytest.mark.parametrize("column", Config().columns())
def test_a_field_alone_makes_a_contrast_and_another_name(column: str) -> None:
    default, text, field = Config(), as_text(another(column)), setting_name(column)
    config = replace(default, **{field: another(column)})  # type: ignore[arg-type]
    contrast = Contrast(field=field, baseline=usual_texts()[field], candidate=text)
    assert contrasts_of([config, default]) == (contrast,)
    assert f"{field}={text}" in config_name(settings_of(config))


def test_what_is_hashed_is_what_the_schema_marks() -> None:
    assert set(environment.SOFTWARE) == set(columns_of("software"))
    assert set(environment.HARDWARE) == set(columns_of("hardware"))


@pytest.fixture(scope="module")
def every_config(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = open_store(str(tmp_path_factory.mktemp("settings")))
    blocks = [make_pair(block, 10 + block / 1000, 10 + block / 1000) for block in range(BLOCKS)]
    for night, sweep_id in enumerate(NIGHTS):
        records = [
            replace(
                record,
                **each.changes,
                **changes,
                cell_id=cell_id,
                sweep_id=sweep_id,
                trial_id=f"{cell_id} {number} {record.trial_id}",
                steady_wall_ms=(record.steady_wall_ms or 0)
                * (each.ratio if record.benchmark else 1),
                started_at=record.started_at + timedelta(days=night),
                torch=f"2.{night}.0",
                software_hash=f"software-{night}",
            )
            for cell_id, changes in CELLS.items()
            for number, each in enumerate(CONFIGS)
            for record in chain(*blocks)
        ]
        store.write_part(sweep_id, to_table([*records, *_besides(records, sweep_id)]))
    return store


def _besides(records: list[RunRecord], sweep_id: str) -> Iterator[RunRecord]:
    """An A/A twin; on the second night all of it again with another software, and a crash of each."""
    yield replace(records[0], trial_id="twin", twin=1)
    for record in records if sweep_id == NIGHTS[1] else ():
        key = f"beside {record.trial_id}"
        earlier = record.started_at - timedelta(minutes=1)
        good = replace(record, software="last_good", software_hash="software-0", started_at=earlier)
        yield replace(good, trial_id=key)
        if record.block == 0:
            yield replace(record, trial_id=f"lost {key}", block=9, status="crash", message="boom")


@pytest.fixture(scope="module")
def database(every_config: Store) -> Iterator[Database]:
    with open_database(every_config) as opened:
        yield opened


def _ask(database: Database, name: str) -> list[dict[str, Any]]:
    question = load_query(name)
    rows: list[dict[str, Any]] = database.query(question.sql, question.values({})).to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in query_names() if each != "bans"])
def test_a_question_with_settings_has_a_row_for_each_config(database: Database, name: str) -> None:
    rows = _ask(database, name)
    assert rows, "an answer without rows shows nothing"
    for column in rows[0].keys() & {"settings", "other_settings"}:
        found = [usual_texts() | texts_in(row[column]) for row in rows]
        configs = {config_name(texts | {"benchmark": "false"}) for texts in found}
        assert configs == {config_name(config.texts) for config in CONFIGS}
    if rows[0].keys() >= settings().keys():
        assert {config_name(texts_of(row)) for row in rows} == NAMES


def test_records_have_each_config_as_text_and_as_a_hash(database: Database) -> None:
    grouped = "select any_value(columns(*)) from records group by settings, config_hash"
    rows = database.query(grouped).to_pylist()
    assert {row["settings"] for row in rows} == NAMES
    assert all(row["settings"] == config_name(texts_of(row)) for row in rows)
    assert len({row["config_hash"] for row in rows}) == len(rows) == len(NAMES)


def test_a_config_has_the_same_hash_in_every_store(database: Database) -> None:
    """People keep hashes: a changed one would no longer find the rows that it was kept for."""
    (row,) = database.query(
        "select distinct config_hash from records where settings = 'benchmark=true'"
    ).to_pylist()
    assert row["config_hash"] == md5(b"benchmark=true", usedforsecurity=False).hexdigest()[:16]


def test_a_verdict_is_of_one_config_alone(every_config: Store) -> None:
    found = [
        (config_name(usual_texts() | texts_in(row.other_settings)), row.blocks, row.ratio)
        for row in Verdict.of(every_config, NIGHTS[0], **BENCHMARK.values())
        if row.cell_id == "cell-a"
    ]
    wanted = [(config_name(each.texts), BLOCKS, each.ratio) for each in CONFIGS]
    for (name, blocks, ratio), truth in zip(sorted(found), sorted(wanted), strict=True):
        assert (name, blocks) == truth[:2]
        assert ratio == pytest.approx(truth[2])


@pytest.mark.slow
@pytest.mark.parametrize("column", OTHERS)
def test_each_setting_can_be_asked_about(every_config: Store, column: str) -> None:
    name, candidate = setting_name(column), as_text(another(column))
    contrast = Contrast(field=name, baseline=usual_texts()[name], candidate=candidate)
    found = Verdict.of(every_config, NIGHTS[0], **contrast.values())
    ratios = sorted(row.ratio or 0.0 for row in found if row.cell_id == "cell-a")
    (ratio,) = (config.ratio for config in CONFIGS if column in config.changes)
    assert ratios == pytest.approx([1.0, ratio / 1.05]), "with benchmark off, and with it on"


def test_every_setting_is_among_the_stored_contrasts(every_config: Store) -> None:
    with open_database(every_config, NIGHTS[0]) as database:
        found = stored_contrasts(database)
    expected = {*usual_texts(), FROZEN.field, TWINS.field} - {"errata"}
    assert {each.field for each in found} == expected
    assert found[0] == BENCHMARK, "what most come for"


@pytest.mark.slow
def test_a_report_tells_every_config_apart(every_config: Store) -> None:
    with open_database(every_config, NIGHTS[0]) as database:
        tables = sheets(gather(database, "here", [BENCHMARK], 0.03))
    trials = tables["trials"]
    configs = trials.columns.index("config")
    assert {row[configs] for row in trials.rows} == NAMES
    sheet = tables["verdicts"]
    label = sheet.columns.index("label")
    labels = [row[label] for row in sheet.rows]
    assert len(set(labels)) == len(labels) == len(CELLS) * len(CONFIGS)


@pytest.mark.slow
def test_a_night_follows_every_config(every_config: Store) -> None:
    history = read_history(every_config, "lab", NIGHTS[1], [BENCHMARK])
    assert history is not None
    followed = [one.key for one in history.series if one.key.metric == "steady_wall"]
    assert {key.settings for key in followed} == NAMES
    signs = [one.key for one in history.series if one.key.metric == "sign"]
    assert len({key.settings for key in signs}) == len(CONFIGS)
    assert len(set(signs)) == len(signs) == len(CELLS) * len(CONFIGS)


@pytest.mark.slow
def test_two_sides_compare_config_by_config(database: Database) -> None:
    found = compare(database, "torch=2.0.0", "torch=2.1.0", 0.03)
    names = [config_name(texts_in(row["settings"])) for row in found.rows.to_pylist()]
    assert set(names) == NAMES
    assert len(names) == len(CELLS) * len(NAMES)
