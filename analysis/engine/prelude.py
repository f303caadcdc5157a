"""Makes SQL for plain DuckDB: the view `records`, and a macro for each question."""

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache

from cudnn_sweep.analysis.engine.axes import axes_macros
from cudnn_sweep.analysis.engine.queries import (
    ANALYSIS,
    NamedQuery,
    QueryParameter,
    literal,
    load_query,
    query_names,
)
from cudnn_sweep.analysis.engine.settings import (
    QUOTED_MACRO,
    settings_macros,
    sql_type,
    with_config,
)
from cudnn_sweep.analysis.store.schema import arrow_schema
from cudnn_sweep.analysis.store.store import SWEEP, Store
from cudnn_sweep.analysis.store.stored import Stored

REPEATED_KEYS = """\
select sweep_id, trial_id from ({rows}) group by sweep_id, trial_id having count(*) > 1"""

# If a trial has several rows, the view shows the first row of the highest retry, like progress.py.
# Trials with one row are selected separately, so that filters on them are fast.
RECORDS_VIEW = """\
create or replace view records as
with stored as not materialized (
{rows}
),
repeated as (
{repeated}
)
select * from stored anti join repeated using (sweep_id, trial_id)
union all
select * from (select * from stored semi join repeated using (sweep_id, trial_id))
qualify row_number() over (
    partition by sweep_id, trial_id
    order by retry desc, ended_at, attempt_id, coalesce(ends_launch, false) desc
) = 1;
"""


PATTERN = "sweep=*/**/*.parquet"
OTHER_COLUMNS = ("launch",)  # columns of questions that `records` does not have

HTTPFS_HINT = """\
-- To read an object store, plain DuckDB needs its extension httpfs and your credentials:
-- INSTALL httpfs; LOAD httpfs;
"""


def prelude_sql(store: Stored) -> str:
    """Return SQL that plain DuckDB has to run before a question."""
    hint = "" if all(each.folder.is_local for each in store.stores) else HTTPFS_HINT
    stored = [rows for each in store.stores for rows in _stored_rows(each)]
    rows = "\nunion all by name\n".join([_no_rows(), *stored])
    view = RECORDS_VIEW.format(
        rows=with_config(rows), repeated=REPEATED_KEYS.format(rows="from stored")
    )
    # DuckDB plans the body of a macro when it creates the macro, faster if `records` is empty.
    empty = (
        f"create or replace table no_records as {with_config(_no_rows())};\n"
        "create or replace view records as from no_records;\n"
    )
    every = [macros(), *question_macros().values()]
    return hint + QUOTED_MACRO + empty + "\n".join(every) + view + "drop table no_records;\n"


def macros() -> str:
    """Return the SQL of all macros except those of questions."""
    scripts = (ANALYSIS / "macros").iterdir()
    texts = [script.read_text() for script in sorted(scripts, key=lambda script: script.name)]
    return "\n".join([settings_macros(), axes_macros(), *texts, _reported_cases()])


def _reported_cases() -> str:
    """Return a macro with the rows of reported_cases.json, which `make docs` writes."""
    rows = json.loads((ANALYSIS / "reported_cases.json").read_text("utf-8"))
    values = ",\n".join(f"    ({', '.join(map(literal, row.values()))})" for row in rows)
    return (
        "create or replace macro reported_cases() as table\n"
        f"select * replace (bound::double as bound) from (values\n{values}\n) as cases ({', '.join(rows[0])});\n"
    )


@lru_cache(maxsize=64)
def macros_in(sql: str) -> Mapping[str, str]:
    """Return the macros that a query needs, in the order in which they have to be created."""
    every = {**each_macro(), **question_macros()}
    named: set[str] = set()
    todo = [sql]
    while todo:
        text = todo.pop().lower()
        # A column may have the name of a question, so only a name before `(` calls the question.
        called = question_macros().keys() & re.findall(r"\b(\w+)\s*\(", text)
        found = (each_macro().keys() & re.findall(r"\w+", text) | called) - named
        named |= found
        todo += [every[name] for name in found]
    return {name: statement for name, statement in every.items() if name in named}


@cache
def each_macro() -> Mapping[str, str]:
    parts = re.split(r"^(?=create or replace macro (\w+))", macros(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _no_rows() -> str:
    columns = ",\n".join(
        f"    null::{sql_type(field.type)} as {field.name}" for field in arrow_schema()
    )
    return f"select\n{columns}\nwhere false"


def _stored_rows(store: Store) -> list[str]:
    """Return a list with one SELECT of the stored rows. It is empty if no rows are stored."""
    paths, torn = store.files(), store.torn_files()
    whole = [path for path in paths if path not in torn]
    if not whole:
        return []
    are_all = not torn and not store.strays() and len(store.folder.files_below(SWEEP)) == len(paths)
    names = [PATTERN] if are_all else whole
    listed = ", ".join(literal(store.folder.url(name)) for name in names)
    options = "union_by_name = true, hive_partitioning = false"
    return [f"select * from read_parquet([{listed}], {options})"]


# Each question is also a table macro, so that other SQL can select from it:
#     select problem, ratio from helps_or_hurts(min_effect := 0.05) where device_verdict = 'helps'
# A parameter with the name of a column has the prefix `of_`, because it would hide the column.
@cache
def question_macros() -> Mapping[str, str]:
    return {name: _macro(load_query(name)) for name in query_names()}


def macro_parameter(parameter: QueryParameter) -> str:
    is_column = parameter.name in (*arrow_schema().names, *OTHER_COLUMNS)
    return f"of_{parameter.name}" if is_column else parameter.name


def _macro(asked: NamedQuery) -> str:
    lines = [line for line in asked.sql.splitlines() if not line.startswith("--")]
    body = "\n".join(lines).strip().removesuffix(";")
    for each in asked.parameters:
        body = re.sub(rf"\${each.name}\b", macro_parameter(each), body)
    defaults = [f"{macro_parameter(each)} := {literal(each.default)}" for each in asked.parameters]
    return f"create or replace macro {asked.name}({', '.join(defaults)}) as table\n{body};\n"
