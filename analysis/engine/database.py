"""Runs SQL in DuckDB over the rows of a store. SQL of a user can read only the view `records`.

DuckDB gets the rows as Arrow data and cannot open files. Otherwise a COPY inside `with` could write
files, because DuckDB classifies it as a SELECT."""

import atexit
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from cudnn_sweep.analysis.engine.prelude import (
    RECORDS_VIEW,
    REPEATED_KEYS,
    each_macro,
    macros_in,
    question_macros,
)
from cudnn_sweep.analysis.engine.queries import NamedQuery, Value, literal, load_query
from cudnn_sweep.analysis.engine.settings import sql_type, with_config
from cudnn_sweep.analysis.errors import QueryError, did_you_mean
from cudnn_sweep.analysis.store.schema import arrow_schema
from cudnn_sweep.analysis.store.snapshot import Snapshot
from cudnn_sweep.analysis.store.store import LISTINGS
from cudnn_sweep.analysis.store.stored import Stored, has_lost
from cudnn_sweep.cluster.leftovers import held_folder

Answer = TypeVar("Answer")
Files: TypeAlias = list[tuple[int, int, int, int]]

LOCKED: dict[str, str | bool] = {
    "TimeZone": "UTC",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # True lets SQL read Python variables
    "max_temp_directory_size": "20GB",  # so that DuckDB does not fill the disk
    "enable_external_access": False,
    "enable_progress_bar": False,  # a bar would be mixed with the output
    "lock_configuration": True,
}

MOST_BYTES = 2_500_000_000  # DuckDB's memory limit; a process then needs less than 4 GB
FEW_ROWS = 3000  # up to this many rows are copied into a table, in 0.05 to 0.3 s
HELD_ROWS = 200_000  # a report copies up to this many rows; 100,000 take 0.5 GB
UNHELD = ("kernels", "computed")  # large columns that a report of many rows leaves out
INTERRUPT_S = 5.0  # longest wait for the end of an interrupted query
INTERRUPT_EVERY_S = 0.05  # time between two interrupts of a query
COPIED_VIEW = "create or replace view records as from copied_records"
PAIRS = "from block_pairs($field, $baseline, $candidate, null)"
COPIED_PAIRS = """\
create or replace macro block_pairs(flag, from_value, to_value, of_sweep, is_over := null) as table
from copied_pairs;
"""
# Queries with macros use `execute`, because `sql` would plan them twice. `execute` gives a warning.
warnings.filterwarnings(
    "ignore", "Arrow output on a DB-API result", UserWarning, re.escape(__name__)
)
HINTS = {  # for names that users expect in `records`
    "cell": "is made of workload, problem, input_shape, ...; select those, or cell_id",
    "throttled": "is a value in the list `warnings`; use list_contains(warnings, 'throttled')",
    "search_ms": "is a column of `break_even()`; try `select search_ms from break_even()`",
}
NO_FILES = (
    "a query cannot read files; `sweep query --export store.duckdb` writes `records` to a database "
    "for plain DuckDB, which can read files"
)
OF_THE_QUESTION = (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException)


class Database:
    """Runs queries over one snapshot of a store."""

    def __init__(
        self, instance: "_Instance", store: Stored, sweep_id: str | None, snapshot: Snapshot
    ) -> None:
        self._instance = instance
        self._connection = instance.connection
        self._store = store
        self._sweep_id = sweep_id
        self._snapshot = snapshot
        self._is_shown = False
        self._view = ""  # the statement that creates the view `records`
        self._held: dict[str, str] = {}  # macros that replace others of the same name

    @property
    def torn_files(self) -> tuple[str, ...]:
        """Damaged files, whose rows are missing. The caller has to report them."""
        return self._snapshot.torn

    @property
    def is_empty(self) -> bool:
        return not self._snapshot.rows

    def query(self, sql: str, values: Mapping[str, Value | list[Any]] | None = None) -> pa.Table:
        """Run `sql` and return its rows. Raise QueryError if it fails or is not a single SELECT."""
        return self._retried(lambda: self._answer(sql, dict(values or {})))

    def ask(self, question: NamedQuery | str, **values: Value) -> pa.Table:
        """Run a question and return its rows. Raise QueryError if a parameter is wrong."""
        asked = load_query(question) if isinstance(question, str) else question
        return self.query(asked.sql, asked.values(values))

    def hold_rows(self, asked: str = "") -> None:
        """Copy a store of up to HELD_ROWS rows. Columns in UNHELD or not in `asked` are null."""

        def copy() -> None:
            self._show_records()
            if FEW_ROWS < self._snapshot.rows <= HELD_ROWS:
                named = re.findall(r"\w+", "\n".join([asked, *macros_in(asked).values()]))
                unread = {*UNHELD, *({*arrow_schema().names} - {*named} if asked else ())}
                nulls = ", ".join(
                    f"null::{sql_type(field.type)} as {field.name}"
                    for field in arrow_schema()
                    if field.name in unread
                )
                self._copy_records(f"* replace ({nulls})")

        self._retried(copy)

    @contextmanager
    def pairs_held(self, **contrast: Value) -> Iterator[None]:
        """Copy the pairs of a contrast into a table. Queries in the `with` block read it."""

        def copy() -> None:
            self._show_records()
            self._make(macros_in(PAIRS))
            self._connection.execute(f"create or replace table copied_pairs as {PAIRS}", contrast)

        self._retried(copy)
        self._held = {"block_pairs": COPIED_PAIRS}
        try:
            yield
        finally:
            self._held = {}
            self._connection.execute("drop table copied_pairs")

    def keep(self) -> None:
        """Store the view `records` and all macros in the database file."""

        def make() -> None:
            self._show_records()
            if not _is_small(self._snapshot):
                self._copy_records()
            self._make({**each_macro(), **question_macros()})

        self._retried(make)

    def _retried(self, ask: Callable[[], Answer]) -> Answer:
        for _ in range(LISTINGS):
            try:
                return self._interruptible(ask)
            except (duckdb.Error, pa.ArrowException) as error:
                failure = error
            if not has_lost(self._store, self._snapshot) and not self._finds_damage(failure):
                break
            self._snapshot = self._store.snapshot(self._sweep_id)
            self._is_shown = False
        raise QueryError(_told(str(failure))) from failure

    def _answer(self, sql: str, values: dict[str, Value | list[Any]]) -> pa.Table:
        self._refuse_all_but_select(sql)
        self._show_records()
        macros = macros_in(sql)
        self._make({**macros, **self._held})
        if macros:
            return self._connection.execute(sql, values or None).to_arrow_table()
        return self._connection.sql(sql, params=values or None).to_arrow_table()

    def _interruptible(self, ask: Callable[[], Answer]) -> Answer:
        """Run `ask` in a thread, so that Ctrl-C can interrupt its SQL."""
        found: Future[Answer] = Future()

        def answer() -> None:
            try:
                found.set_result(ask())
            except BaseException as error:  # noqa: BLE001  # raised again by `result()`
                found.set_exception(error)

        thread = Thread(target=answer, daemon=True)
        thread.start()
        try:
            return found.result()
        except KeyboardInterrupt:
            ends = monotonic() + INTERRUPT_S
            while thread.is_alive() and monotonic() < ends:
                self._connection.interrupt()
                thread.join(INTERRUPT_EVERY_S)
            raise

    def _finds_damage(self, failure: Exception) -> bool:
        if isinstance(failure, OF_THE_QUESTION):
            return False
        return any(store.has_damage() for store in self._store.stores)

    def _show_records(self) -> None:
        """Create the view `records`. The next Database may use the copy of a small store again."""
        if self._is_shown:
            return
        files = _part_files(self._snapshot) if _is_small(self._snapshot) else None
        if files and files == self._instance.copied:
            self._show(COPIED_VIEW)
        else:
            self._instance.copied = None
            self._read_records()
            self._instance.copied = files
        self._is_shown = True

    def _read_records(self) -> None:
        self._connection.register("loose_rows", self._snapshot.loose.combine_chunks())
        self._connection.register("part_rows", self._snapshot.parts)
        kinds = {"part_rows": self._snapshot.parts.files, "loose_rows": self._snapshot.loose}
        stored = [name for name, rows in kinds.items() if len(rows)] or kinds  # no empty tables
        rows = " union all ".join(f"select * from {name}" for name in stored)
        repeated = self._connection.sql(REPEATED_KEYS.format(rows=rows)).to_arrow_table()
        self._connection.register("repeated_keys", repeated)
        view = RECORDS_VIEW if repeated.num_rows else "create or replace view records as {rows}"
        view = view.format(rows=with_config(rows), repeated="from repeated_keys")
        self._instance.make({"quoted": each_macro()["quoted"]})
        if _is_small(self._snapshot):
            # copied without the view, because planning the view takes time
            self._connection.execute(view.replace("view records", "table copied_records", 1))
            view = COPIED_VIEW
        self._show(view)

    def _copy_records(self, columns: str = "*") -> None:
        copied = f"create or replace table copied_records as select {columns} from records"
        self._connection.execute(copied)
        self._show(COPIED_VIEW)

    def _show(self, view: str) -> None:
        self._view = view
        self._connection.execute(view)

    def _make(self, macros: Mapping[str, str]) -> None:
        """Create macros while `records` is empty, because DuckDB then plans them faster."""
        if self._instance.has(macros):
            return
        self._connection.execute("create table no_records as from records limit 0")
        self._connection.execute("create or replace view records as from no_records")
        self._instance.make(macros)
        self._connection.execute(self._view)
        self._connection.execute("drop table no_records")

    def _refuse_all_but_select(self, sql: str) -> None:
        try:
            found = [each.type.name for each in self._connection.extract_statements(sql)]
        except ValueError:  # DuckDB's Python does not know this kind of statement
            raise QueryError("found no SELECT; allowed is one SELECT") from None
        if found == [duckdb.StatementType.MULTI.name]:
            raise QueryError("a PIVOT has to list its columns, for example `on x in (1, 2)`")
        if found != [duckdb.StatementType.SELECT.name]:
            raise QueryError(f"found {', '.join(found) or 'no statement'}; allowed is one SELECT")


def _told(failure: str) -> str:
    """Return a message for DuckDB's error, with a hint if the mistake is known."""
    table = re.search(r"Table (?:Function )?with name (\w+) does not exist", failure)
    if table and table[1] in question_macros():
        return f"{table[1]} is a macro, not a table; write `from {table[1]}()`"
    missing = re.search(r'column "(\w+)" not found.*?bindings: ([^\n]*)', failure, re.DOTALL)
    if "file system operations are disabled" in failure:
        failure = NO_FILES
    elif missing:
        name, near = missing[1], re.findall(r'"(\w+)"', missing[2])
        hint = f"`{name}` {HINTS[name]}" if name in HINTS else f"similar names: {', '.join(near)}"
        failure = f"no column {name}{did_you_mean(name, near)}; {hint}"
    return f"the query failed: {failure}"


def left_out(torn: str) -> str:
    return f"{torn} was left out (damaged, or without records); the next launch sets it aside"


class _Instance:
    """A restricted DuckDB connection, and the macros that it already has."""

    def __init__(
        self, threads: int | None = None, file: str = ":memory:", rows: int | None = None
    ) -> None:
        self._spill = ExitStack()
        folder = ""  # if no folder can be made, DuckDB does not spill
        with suppress(OSError):
            # a user's SQL can write to this folder, so nothing else is in it
            parent = Path(tempfile.gettempdir())
            folder = str(self._spill.enter_context(held_folder("sweep-query-", parent)))
        self.connection = duckdb.connect(file)
        self._macros: dict[str, str] = {}
        self.copied: Files | None = None  # files whose rows are in `copied_records`, if known
        own: dict[str, str | bool] = {"temp_directory": folder, "memory_limit": _memory_limit()}
        if threads is not None:
            own["threads"] = str(threads)
        if rows is not None and rows <= HELD_ROWS:
            # without this, most joins hash all rows, which is slow
            own["disabled_optimizers"] = "build_side_probe_side"
        for name, value in (own | LOCKED).items():
            self.connection.execute(f"set {name} = {literal(value)}")

    def has(self, macros: Mapping[str, str]) -> bool:
        return macros.items() <= self._macros.items()

    def make(self, macros: Mapping[str, str]) -> None:
        for name, statement in macros.items():
            if self._macros.get(name) != statement:
                self.connection.execute(statement)
                self._macros[name] = statement

    def forget_rows(self) -> None:
        for view in ("loose_rows", "part_rows", "repeated_keys"):
            self.connection.unregister(view)
        if self.copied is None:
            self.connection.execute("drop table if exists copied_records")

    def close(self) -> None:
        self.connection.close()
        self._spill.close()


_idle: list[_Instance] = []  # reused for small stores, because creating macros takes time


@atexit.register
def close_idle() -> None:
    """Close unused connections. Call this before os._exit."""
    while _idle:
        _idle.pop().close()


def _part_files(snapshot: Snapshot) -> Files | None:
    """Identify the part files. Return None if some rows are loose or on another machine."""
    if snapshot.loose.num_rows:
        return None
    try:
        found = [os.stat(file) for file in snapshot.parts.files]
    except OSError:  # the files are not on this machine
        return None
    return [(each.st_dev, each.st_ino, each.st_mtime_ns, each.st_size) for each in found]


def _is_small(snapshot: Snapshot) -> bool:
    """Return whether a snapshot is so small that one thread is fastest."""
    return snapshot.rows <= FEW_ROWS


@contextmanager
def open_database(store: Stored, sweep_id: str | None = None) -> Iterator[Database]:
    """Open a database over the rows that are stored now, of one sweep or of all sweeps."""
    snapshot = store.snapshot(sweep_id)
    is_small = _is_small(snapshot)
    instance = _small_instance() if is_small else _Instance(rows=snapshot.rows)
    try:
        yield Database(instance, store, sweep_id, snapshot)
        if is_small and not _idle:
            instance.forget_rows()
            _idle.append(instance)
    finally:
        if instance not in _idle:
            instance.close()


def export(store: Stored, file: Path) -> tuple[str, ...]:
    """Write `records` and all questions to a DuckDB file. Return the damaged files."""
    instance = _Instance(file=str(file))
    try:
        database = Database(instance, store, None, store.snapshot())
        database.keep()
        return database.torn_files
    finally:
        instance.close()


def _small_instance() -> _Instance:
    try:
        return _idle.pop()
    except IndexError:
        return _Instance(threads=1)


def _memory_limit() -> str:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(MOST_BYTES, physical // 2) // 10**6}MB"
