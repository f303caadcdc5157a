"""Results after a bad disk, a foreign program and a careless hand: no wrong number, nothing stands still."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.engine.prelude import prelude_sql
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.store import parquet
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.running.run_sweep import open_results

Attempts = Callable[[int, int], int]
Plant = Callable[[Path, pa.Table], object]
EVERY_VALUE = "select md5(string_agg(r::varchar order by trial_id)) as digest from records r"
COUNT = "select count(*) as trials from records"
SWEEP = "night-1"
SAMPLES = "steady_wall_samples_ms"
LARGE, SMALL = 0, parquet.SMALL_BYTES  # from how many bytes on a file is read in pieces


@pytest.fixture
def rows(measured: pa.Table) -> pa.Table:
    at = measured.column_names.index("sweep_id")
    return measured.set_column(at, "sweep_id", pa.array([SWEEP] * len(measured)))


@pytest.fixture
def results(tmp_path: Path, rows: pa.Table) -> Path:
    """A part, and two loose files."""
    store = open_store(str(tmp_path / "results"))
    store.write_part(SWEEP, rows.slice(2))
    for at in range(2):
        content = parquet.encode(rows.slice(at, 1))
        stem = f"sweep={SWEEP}/trials/{rows['trial_id'][at]}-{rows['attempt_id'][at]}"
        store.folder.write(parquet.file_name(stem, content), content)
    return tmp_path / "results"


def asked(results: Path) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    """A digest of every value of every row, and what was left out."""
    with open_database(open_store(str(results))) as database:
        found = database.query(EVERY_VALUE).to_pylist()
        return found, database.torn_files


def flip(content: bytearray, dice: random.Random) -> None:
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def zero(content: bytearray, dice: random.Random) -> None:
    start = dice.randrange(len(content))
    length = min(dice.randrange(1, 64), len(content) - start)
    content[start : start + length] = bytes(length)


def cut(content: bytearray, dice: random.Random) -> None:
    del content[dice.randrange(len(content)) :]


def insert(content: bytearray, dice: random.Random) -> None:
    content.insert(dice.randrange(len(content)), dice.randrange(256))


def swap(content: bytearray, dice: random.Random) -> None:
    one, other = dice.randrange(len(content)), dice.randrange(len(content))
    content[one], content[other] = content[other], content[one]


DAMAGES = (flip, flip, flip, flip, zero, cut, insert, swap)  # mostly single bits


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["part, read whole", "part, read in pieces", "loose file"])
def test_no_damage_changes_an_answer_without_a_word(
    kind: str,
    tmp_path: Path,
    rows: pa.Table,
    attempts: Attempts,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet, "SMALL_BYTES", LARGE if "pieces" in kind else SMALL)
    results = tmp_path / "results"
    store = open_store(str(results))
    if kind == "loose file":
        content = parquet.encode(rows.slice(0, 1))
        stem = f"sweep={SWEEP}/trials/a-b"
        store.folder.write(parquet.file_name(stem, content), content)
    else:
        store.write_part(SWEEP, rows)
    whole, dice = asked(results), random.Random(seed)
    (file,) = [results / path for path in store.files()]
    intact = file.read_bytes()
    ends: Counter[str] = Counter()
    for _ in range(attempts(12, 300)):
        content = bytearray(intact)
        damage = dice.choice(DAMAGES)
        damage(content, dice)
        file.write_bytes(content)
        found, left_out = asked(results)
        ends[f"{damage.__name__}, {'named' if left_out else 'unharmed'}"] += 1
        assert left_out == (str(file),) or (found, left_out) == whole
    file.write_bytes(intact)
    assert asked(results) == whole
    print(f"{kind}: {dict(ends)}")


def test_a_flipped_bit_changes_no_sum_here_but_does_in_duckdb_alone(
    tmp_path: Path,
    rows: pa.Table,
    attempts: Attempts,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why DuckDB opens no file itself. Of a large file the name holds no checksum of the pages."""
    monkeypatch.setattr(parquet, "SMALL_BYTES", LARGE)
    store = open_store(str(tmp_path))
    store.write_part(SWEEP, rows)
    (path,) = store.files()
    file = tmp_path / path
    group = pq.read_metadata(file).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    (column,) = [each for each in columns if each.path_in_schema.startswith(f"{SAMPLES}.")]

    def ours() -> object:
        return parquet.open_fragment(store.folder, path).to_table(columns=[SAMPLES]).to_pydict()

    def duckdb_alone() -> object:
        return duckdb.execute(f"select sum(list_sum({SAMPLES})) from '{file}'").fetchall()

    intact, dice = file.read_bytes(), random.Random(seed)
    whole = {read: read() for read in (ours, duckdb_alone)}
    ends: Counter[str] = Counter()
    start, end = column.data_page_offset, column.data_page_offset + column.total_compressed_size
    for _ in range(attempts(60, 600)):
        page = bytearray(intact[start:end])
        flip(page, dice)
        file.write_bytes(intact[:start] + page + intact[end:])
        for read, before in whole.items():
            try:
                outcome = "the same" if read() == before else "WRONG"
            except (duckdb.Error, *parquet.UNREADABLE):
                outcome = "refused"
            ends[f"{read.__name__}: {outcome}"] += 1
    print(f"DuckDB {duckdb.__version__}, pyarrow {pa.__version__}: {dict(ends)}")
    assert ends["ours: WRONG"] == 0
    assert ends["duckdb_alone: WRONG"] > 0


@pytest.mark.slow
def test_damaged_part_is_left_out_by_every_question_and_set_aside_by_a_launch(
    results: Path, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "SMALL_BYTES", LARGE)
    store = open_store(str(results))
    store.write_part("night-2", rows.slice(0, 4))
    (part,) = results.glob("sweep=night-2/part-*")
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 1
    part.write_bytes(content)
    assert {state.sweep_id for state in open_store(str(results)).sweeps()} == {SWEEP}
    assert open_store(str(results)).torn_files() == [str(part.relative_to(results))]
    said = StringIO()
    open_results(str(results), Console(file=said, width=400))
    assert f"{part.name}.torn" in said.getvalue()
    assert asked(results)[1] == ()


def rows_that(change: Callable[[pa.Table], pa.Table], name: str = "changed.parquet") -> Plant:
    """A file of the rows, which are changed."""
    return lambda folder, rows: pq.write_table(change(rows), folder / name)


def having(rows: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(column), column, values)


def of_another_type(column: str, kind: pa.DataType) -> Plant:
    def change(rows: pa.Table) -> pa.Table:
        values = range(len(rows)) if pa.types.is_integer(kind) else [None] * len(rows)
        return having(rows, column, pa.array(values, kind))

    return rows_that(change)


def without(column: str) -> Plant:
    return rows_that(lambda rows: rows.drop_columns([column]))


def nulls_in(column: str) -> Plant:
    return rows_that(
        lambda rows: having(rows, column, pa.nulls(len(rows), rows.schema.field(column).type))
    )


def in_the_year(year: int, column: str) -> Plant:
    def change(rows: pa.Table) -> pa.Table:
        us = pa.array([round((year - 1970) * 365.2425 * 86_400e6)] * len(rows), pa.int64())
        return having(rows, column, us.cast(rows.schema.field(column).type))

    return rows_that(change)


def with_a_damaged_footer(folder: Path, rows: pa.Table) -> None:
    """A column's name that is no UTF-8."""
    pq.write_table(rows, folder / "footer.parquet")
    content = (folder / "footer.parquet").read_bytes()
    at = content.rindex(b"attempt_id")
    (folder / "footer.parquet").write_bytes(content[:at] + b"\xff" + content[at + 1 :])


def named_in_latin_1(folder: Path, rows: pa.Table) -> None:
    pq.write_table(rows, folder / "rows.parquet")
    os.rename(folder / "rows.parquet", os.fsencode(folder) + b"/caf\xe9.parquet")


def deeper(folder: Path, rows: pa.Table) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    pq.write_table(
        having(rows, "trial_id", pa.array(["odd"] * len(rows))), folder / "a" / "b" / "x.parquet"
    )


def bytes_of(content: bytes) -> Plant:
    return lambda folder, _: (folder / "bytes.parquet").write_bytes(content)


def link_to(target: str) -> Plant:
    return lambda folder, _: (folder / "link.parquet").symlink_to(target)


def results_above(folder: Path) -> Path:
    return next(each for each in folder.parents if each.name == "results")


def with_trials_that_are_a_link_to_itself(folder: Path, rows: pa.Table) -> None:
    (results_above(folder) / "sweep=loop").mkdir()
    (results_above(folder) / "sweep=loop" / "trials").symlink_to("trials")


def a_sweep_called(name: str) -> Plant:
    def plant(folder: Path, rows: pa.Table) -> None:
        (results_above(folder) / name / "trials").mkdir(parents=True)
        pq.write_table(rows, results_above(folder) / name / "x.parquet")

    return plant


OTHER_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "block": (pa.int32(), pa.string(), pa.float64()),
    "retry": (pa.int8(), pa.string()),
    "replicate": (pa.uint64(),),
    "sweep_id": (pa.int64(), pa.large_string(), pa.binary()),
    "trial_id": (pa.int64(), pa.list_(pa.string())),
    "attempt_id": (pa.int64(),),
    "status": (pa.bool_(),),
    "ended_at": (pa.timestamp("ns", tz="UTC"), pa.timestamp("us"), pa.int64(), pa.string()),
    "started_at": (pa.timestamp("ms", tz="UTC"), pa.date32()),
    "steady_wall_ms": (pa.float32(), pa.string(), pa.int64()),
    "benchmark": (pa.int64(), pa.string()),
    "warnings": (pa.string(), pa.list_(pa.int64())),
    "gpu": (pa.binary(), pa.float64()),
    "message": (pa.int64(),),
    "problem": (pa.int64(), pa.list_(pa.string())),
    "direction": (pa.binary(),),
    "torch": (pa.float64(),),
}
CONTENTS = [b"", b"x", b"PAR1", b"PAR1PAR1", b"PARE", b"PAR1" + bytes(5000) + b"PAR1"]
CONTENTS += [b"PAR1" + b"\xff" * 4 + b"PAR1", b"#!/bin/sh\nrm -rf /\n", b"\x89PNG\r\n\x1a\n" * 99]
TARGETS = ("/etc/passwd", "/dev/zero", "/dev/null", "nowhere", "link.parquet", "/", "..")
SWEEP_NAMES = ("sweep=night-1 (copy)", "sweep=.x", "sweep=é", "sweep=", "sweep=a b", "sweep=..")
GARBAGE: dict[str, Plant] = {
    **{
        f"{column} as {kind}": of_another_type(column, kind)
        for column, kinds in OTHER_TYPES.items()
        for kind in kinds
    },
    **{f"no {column}": without(column) for column in parquet.KEYS},
    **{f"nulls in {column}": nulls_in(column) for column in parquet.KEYS},
    **{
        f"{column} in the year {year}": in_the_year(year, column)
        for column in parquet.DATES
        for year in (-500, 1969, 10_001, 200_000)
    },
    **{f"{len(content)} bytes, {content[:9]!r}": bytes_of(content) for content in CONTENTS},
    **{f"a link to {target}": link_to(target) for target in TARGETS},
    **{f"a folder {name}": a_sweep_called(name) for name in SWEEP_NAMES},
    "a file sweep=x": lambda folder, _: (results_above(folder) / "sweep=x").write_text("no folder"),
    "one column": rows_that(lambda _: pa.table({"note": ["x"]})),
    "a name twice": rows_that(lambda rows: rows.append_column("status", rows["status"])),
    "a dictionary": rows_that(lambda rows: having(rows, "gpu", rows["gpu"].dictionary_encode())),
    "a name that promises other bytes": rows_that(lambda rows: rows, "part-0.crc-00000000.parquet"),
    "the same rows once more": rows_that(lambda rows: rows),
    "no rows": rows_that(lambda rows: rows.slice(0, 0)),
    "a folder": lambda folder, _: (folder / "folder.parquet").mkdir(),
    "a pipe": lambda folder, _: os.mkfifo(folder / "pipe.parquet"),
    "a damaged footer": with_a_damaged_footer,
    "a name in Latin 1": named_in_latin_1,
    "folders in the folder": deeper,
    "trials that are a link to itself": with_trials_that_are_a_link_to_itself,
}
PLACES = ("trials", "")


def cases(attempts: Attempts, seed: int) -> Iterator[tuple[str, Plant, str]]:
    every = [(name, plant, place) for name, plant in GARBAGE.items() for place in PLACES]
    count = attempts(2, len(every))
    yield from every if count >= len(every) else random.Random(seed).sample(every, count)


@pytest.mark.slow
def test_no_stray_thing_stops_the_rest_or_counts(
    results: Path, rows: pa.Table, attempts: Attempts, seed: int
) -> None:
    """A question, one of ours, plain DuckDB, and what a launch does first and last."""
    question = load_query("helps_or_hurts")
    clean = asked(results)
    done = 0
    for name, plant, place in cases(attempts, seed):
        here = results.with_name("attacked") / f"{done}" / "results"
        shutil.copytree(results, here)
        plant(here / f"sweep={SWEEP}" / place, rows)
        told = f"{name} in {place or 'the sweep'}"
        with open_database(open_store(str(here))) as database:
            assert database.query(COUNT).to_pylist() == [{"trials": len(rows)}], told
            database.query(question.sql, question.values({}))
        with duckdb.connect() as plain:
            plain.execute(prelude_sql(open_store(str(here))))
            assert plain.sql(COUNT).fetchall() == [(len(rows),)], told
        store = open_results(str(here), Console(quiet=True))
        assert len(store.stored_trials(SWEEP)) == len(rows), told
        store.compact(SWEEP)
        assert asked(here)[0] == clean[0], told
        assert not store.torn_files(), told
        done += 1
    print(f"{done} cases")
