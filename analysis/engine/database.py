"""DuckDB over a store, locked down: a user's SQL can read `records` and nothing else.

DuckDB gets the rows as Arrow data and may open no files but its own spill files. Access to the
store's folder would be unsafe: a COPY inside `with` writes files, yet DuckDB calls it a SELECT."""

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
    "python_enable_replacements": False,  # else SQL sees the Python variables of its callers
    "max_temp_directory_size": "20GB",  # else it fills the disk: a million trials spill a tenth of that
    "enable_external_access": False,
    "enable_progress_bar": False,  # a bar would be printed among the answers
    "lock_configuration": True,
}

MOST_BYTES = 2_500_000_000  # DuckDB's limit: a query over a million trials needs under 4 GB in all
FEW_ROWS = 3000  # copied up to so many: in 0.05 to 0.3 s, which each contrast's question saves
HELD_ROWS = 200_000  # a report copies up to so many: 100,000 cost 0.5 GB, save a fifth of CPU time
UNHELD = ("kernels", "computed")  # a large report has neither; of 100,000 trials 5.6 of 5.9 GB
INTERRUPT_S = 5.0  # longest wait for an interrupted question to end
INTERRUPT_EVERY_S = 0.05  # an interrupt between two statements has no effect, so repeat it
COPIED_VIEW = "create or replace view records as from copied_records"
PAIRS = "from block_pairs($field, $baseline, $candidate, null)"
COPIED_PAIRS = """\
create or replace macro block_pairs(flag, from_value, to_value, of_sweep, is_over := null) as table
from copied_pairs;
"""
SPILLS = "sweep-query-"  # begins the name of a private folder to which DuckDB spills
# Questions with macros plan slowly and return few rows: they use `execute`, which copies rows and
# warns. Other questions use `sql`, which plans twice in DuckDB 2.
warnings.filterwarnings(
    "ignore", "Arrow output on a DB-API result", UserWarning, re.escape(__name__)
)
HINTS = {  # about columns that people look for in `records`
    "cell": "is a name made from workload, problem, input_shape, ...: select these, or cell_id",
    "throttled": "is a value in the list `warnings`: list_contains(warnings, 'throttled')",
    "search_ms": "is tuning_ms of `break_even()`, which has a row for each pair of configs",
}
NO_FILES = (
    "a question may read `records` but no file; `sweep query --export store.duckdb` writes "
    "`records` to a database for plain DuckDB, which reads files, too"
)
OF_THE_QUESTION = (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException)


class Database:
    """Answers SQL over one snapshot of a store."""

    def __init__(
        self, instance: "_Instance", store: Stored, sweep_id: str | None, snapshot: Snapshot
    ) -> None:
        self._instance = instance
        self._connection = instance.connection
        self._store = store
        self._sweep_id = sweep_id
        self._snapshot = snapshot
        self._is_shown = False
        self._view = ""  # the statement that made the view `records`
        self._held: dict[str, str] = {}  # macros that replace those of the same name

    @property
    def torn_files(self) -> tuple[str, ...]:
        """Damaged files, whose rows no answer has. The caller has to report these files."""
        return self._snapshot.torn

    @property
    def is_empty(self) -> bool:
        return not self._snapshot.rows

    def query(self, sql: str, values: Mapping[str, Value | list[Any]] | None = None) -> pa.Table:
        """Return the answer to `sql`. Raises QueryError if it fails or is not a single SELECT."""
        return self._retried(lambda: self._answer(sql, dict(values or {})))

    def ask(self, question: NamedQuery | str, **values: Value) -> pa.Table:
        """Answer a question, given as a NamedQuery or by name. Raises QueryError for a wrong parameter."""
        asked = load_query(question) if isinstance(question, str) else question
        return self.query(asked.sql, asked.values(values))

    def hold_rows(self, asked: str = "") -> None:
        """Copy the rows into a table if there are at most HELD_ROWS. Columns in UNHELD become null.

        `asked`: SQL of the next questions. If given, columns that it does not name become null."""

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
        """Copy the pairs of a contrast into a table, which questions in the `with` block read."""

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
        """Write the view `records` and every macro into the instance's file."""

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
        """Run `ask` in another thread, so that Ctrl-C can interrupt a running SQL statement."""
        found: Future[Answer] = Future()

        def answer() -> None:
            try:
                found.set_result(ask())
            except BaseException as error:  # noqa: BLE001  # raised where the answer is awaited
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
        """Make the view `records`. It has one row for each trial, even if a trial is stored twice.

        A small store is copied into a table. Without the copy, each mention of `records` would read
        the files again, and planning would take longer than answering. If all rows are in local
        part files, the next Database over the same files uses the table again.
        """
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
        rows = self._rows()
        repeated = self._connection.sql(REPEATED_KEYS.format(rows=rows)).to_arrow_table()
        self._connection.register("repeated_keys", repeated)
        view = RECORDS_VIEW if repeated.num_rows else "create or replace view records as {rows}"
        view = view.format(rows=with_config(rows), repeated="from repeated_keys")
        self._instance.make({"quoted": each_macro()["quoted"]})
        if _is_small(self._snapshot):
            # without the view: planning it takes a third of the copy's time
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
        """Make macros over an empty view `records`, because DuckDB plans the view in each macro."""
        if self._instance.has(macros):
            return
        self._connection.execute("create table no_records as from records limit 0")
        self._connection.execute("create or replace view records as from no_records")
        self._instance.make(macros)
        self._connection.execute(self._view)
        self._connection.execute("drop table no_records")

    def _rows(self) -> str:
        """Return a SELECT of the stored rows. To save planning time, it reads no empty table."""
        kinds = {"part_rows": self._snapshot.parts.files, "loose_rows": self._snapshot.loose}
        stored = [name for name, rows in kinds.items() if len(rows)] or kinds
        return " union all ".join(f"select * from {name}" for name in stored)

    def _refuse_all_but_select(self, sql: str) -> None:
        try:
            found = [each.type.name for each in self._connection.extract_statements(sql)]
        except ValueError:  # a kind of statement without a name in DuckDB's Python
            raise QueryError("found no SELECT; allowed is one SELECT") from None
        if found == [duckdb.StatementType.MULTI.name]:
            told = "a PIVOT without listed columns: name them, as `on x in (1, 2)`"
            raise QueryError(f"found {told}; allowed is one SELECT")
        if found != [duckdb.StatementType.SELECT.name]:
            raise QueryError(f"found {', '.join(found) or 'no statement'}; allowed is one SELECT")


def _told(failure: str) -> str:
    """Return DuckDB's error text as a message, with a hint about a known mistake."""
    table = re.search(r"Table (?:Function )?with name (\w+) does not exist", failure)
    if table and table[1] in question_macros():
        return f"{table[1]} is a macro: write `from {table[1]}()`"
    missing = re.search(r'column "(\w+)" not found.*?bindings: ([^\n]*)', failure, re.DOTALL)
    if "file system operations are disabled" in failure:
        failure = NO_FILES
    elif missing:
        name, near = missing[1], re.findall(r'"(\w+)"', missing[2])
        hint = f"`{name}` {HINTS[name]}" if name in HINTS else f"similar names: {', '.join(near)}"
        failure = f"no column {name}{did_you_mean(name, near)}; {hint}"
    return f"the query failed: {failure}"


def left_out(torn: str) -> str:
    return f"left out {torn}: it is damaged or holds no records; a launch sets such files aside"


class _Instance:
    """A locked-down DuckDB connection, and the macros made in it so far."""

    def __init__(
        self, threads: int | None = None, file: str = ":memory:", rows: int | None = None
    ) -> None:
        self._spill = ExitStack()
        folder = ""  # empty if no folder can be made: then nothing spills
        with suppress(OSError):
            # DuckDB, and so a user's SQL, may always write to this folder: it holds nothing else
            parent = Path(tempfile.gettempdir())
            folder = str(self._spill.enter_context(held_folder(SPILLS, parent)))
        self.connection = duckdb.connect(file)
        self._macros: dict[str, str] = {}
        self.copied: Files | None = None  # part files that `copied_records` holds; None: other rows
        own: dict[str, str | bool] = {"temp_directory": folder, "memory_limit": _memory_limit()}
        if threads is not None:
            own["threads"] = str(threads)
        if rows is not None and rows <= HELD_ROWS:
            # else most joins hash all rows, 40% of a report's time
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


_idle: list[_Instance] = []  # reused for small stores: making macros takes half as long as planning


@atexit.register
def close_idle() -> None:
    """Close idle instances; a command that ends by os._exit has to call this function."""
    while _idle:
        _idle.pop().close()


def _part_files(snapshot: Snapshot) -> Files | None:
    """Return what identifies the part files. Return None if a file is remote or a row is loose."""
    if snapshot.loose.num_rows:
        return None
    try:
        found = [os.stat(file) for file in snapshot.parts.files]
    except OSError:  # not on this machine
        return None
    return [(each.st_dev, each.st_ino, each.st_mtime_ns, each.st_size) for each in found]


def _is_small(snapshot: Snapshot) -> bool:
    """Return whether planning takes most of a question's time. One thread is then fastest."""
    return snapshot.rows <= FEW_ROWS


@contextmanager
def open_database(store: Stored, sweep_id: str | None = None) -> Iterator[Database]:
    """Yield a database of the rows that are stored now. `sweep_id` limits it to one sweep."""
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
    """Write `records` and the questions to a file for plain DuckDB. Return the damaged files."""
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
    """Return DuckDB's memory limit. Above it DuckDB spills; more memory might disturb trials."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(MOST_BYTES, physical // 2) // 10**6}MB"
