"""SQL from a stranger, and answers that are hard to write: a table or a line, and never a hang."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from cudnn_sweep.analysis.engine import formats
from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import Value, load_query, query_names
from cudnn_sweep.analysis.errors import QueryError
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.orchestrator.terminal.drawing import draw

SWEEP = [sys.executable, "-m", "cudnn_sweep.orchestrator.cli"]
RESULTS = Path(__file__).parents[2] / "docs/results/h200-2026-11-21/quick"
LONG_S = 10.0
SAID = """
select from records where group by all order limit with as union except values () * , . ; count sum
max read_csv read_text glob '/etc/passwd' attach copy to install load pragma set export import
checkpoint call update delete insert into create drop 1 0 -1 1e308 'x' "y" null nan trial_id
steady_wall_ms [ ] { } :: varchar date interval -- /* */ $1 $x range(9) unnest struct_pack
list_value case when then end over partition pivot on using '290000-01-01'::date
'infinity'::timestamp '1 day'::interval 'a'::blob 2::hugeint update extensions test_all_types()
duckdb_settings() getenv('HOME') query('select 1')
"""
WORDS = [*SAID.split(), "\x00"]
HARD = (
    "update extensions",
    "select date '290000-01-01' as d",
    "select 'infinity'::timestamp as t",
    "select * from test_all_types()",
    "select 1 as a, 2 as a, 3 as a_1",
    "select '=cmd|x' as \"=x\", ' +1' as b, '\r-1' as c",
    "select chr(27) || ']0;pwned' || chr(7) as steers",
)


def written(answer: pa.Table) -> dict[str, str]:
    return {
        "csv": formats.to_csv(answer),
        "json": formats.to_json(answer),
        "markdown": formats.to_markdown(answer),
        "table": draw(answer, None),
        "blocks": draw(answer, 10),
    }


def asked(
    database: Database, sql: str, values: Mapping[str, Value] | None = None
) -> dict[str, str] | None:
    """None where it is refused in words."""
    try:
        return written(database.query(sql, values or {}))
    except QueryError:
        return None


@pytest.mark.slow
def test_no_statement_ends_in_anything_but_an_answer_or_a_refusal(
    attempts: Callable[[int, int], int], seed: int, tmp_path: Path
) -> None:
    """Words at random, and questions of ours with some of their words lost or replaced."""
    dice, ends = random.Random(seed), Counter[str]()
    questions = [load_query(name) for name in query_names()]
    with open_database(open_store(str(RESULTS))) as database:
        for number in range(attempts(40, 1000)):
            if number % 4:
                values = None
                sql = " ".join(dice.choices(WORDS, k=dice.randint(1, 14)))
                sql = f"select {sql}" if dice.random() < 0.7 else sql
            else:
                question = dice.choice(questions)
                sql, values = mutated(question.sql, dice), question.values({})
            began = time.process_time()
            ends["refused" if asked(database, sql, values) is None else "answered"] += 1
            assert time.process_time() - began < LONG_S, sql
    print(dict(ends))


def mutated(sql: str, dice: random.Random) -> str:
    words = sql.split(" ")
    for _ in range(dice.randint(0, 2)):
        at = dice.randrange(len(words))
        words[at : at + 1] = dice.choice([[], [words[at]] * 2, [dice.choice(WORDS)]])
    return " ".join(words)


@pytest.mark.parametrize("sql", HARD)
def test_answer_that_is_hard_to_write_is_written_or_refused(sql: str) -> None:
    with open_database(open_store(str(RESULTS))) as database:
        answer = asked(database, sql)
    assert "update" in sql or "all_types" in sql or answer is not None
    for text in (answer or {}).values():
        assert "\x1b" not in text or text.startswith(("steers\n", '[\n{"')), (
            "in a file it may stand"
        )


def test_columns_of_one_name_are_kept_apart() -> None:
    table = pa.table([[1], [2], [3]], names=["a", "a", "a_1"])
    assert formats.to_json(table) == '[\n{"a": 1, "a_2": 2, "a_1": 3}\n]\n'


def test_text_is_no_formula_no_markup_and_steers_no_terminal() -> None:
    texts = ["=1", " @x", "\r=1", "<b>", "![x](http://h)", "@someone", "\x1b[31m", "a_b-1 | c"]
    table = pa.table({"text": texts})
    rows = formats.to_csv(table).split("\n")
    assert rows[1] == "'=1" and rows[2] == "' @x"
    marked = formats.to_markdown(table)
    for sign in ("<b>", "![x]", "http://h", " @someone", "\x1b"):
        assert sign not in marked
    assert "a_b-1 \\| c" in marked
    assert "\x1b" not in draw(table, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_runaway_question_ends_at_once(number: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    sql = "select count(*) from range(1000000000000)"
    asking = subprocess.Popen(
        [*SWEEP, "query", sql, "--results", str(RESULTS)], stderr=subprocess.PIPE, text=True
    )
    time.sleep(2.0)
    asking.send_signal(number)
    _, said = asking.communicate(timeout=LONG_S)
    assert asking.returncode == 128 + number
    assert "Traceback" not in said
