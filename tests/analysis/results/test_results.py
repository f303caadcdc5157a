"""The Python door, and the notebook that shows it."""

import subprocess
import sys
from pathlib import Path

import polars
import pytest

from cudnn_sweep.analysis import AnalysisError, Results, open_results
from cudnn_sweep.analysis.engine.queries import query_names
from cudnn_sweep.analysis.store.store import Store

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def results(kept_store: Store) -> Results:
    return open_results(kept_store.location)


def test_every_column_of_records_becomes_pandas_and_polars(results: Results) -> None:
    answer = results.sql("select * from records")
    frame, other = answer.to_pandas(), polars.DataFrame(answer)
    assert frame.shape == other.shape == answer.shape
    assert list(frame.columns) == other.columns == answer.column_names


def test_questions_and_sql_take_parameters_by_name(results: Results) -> None:
    assert len(results.query("sweeps")) == 2
    assert len(results.query("failures", sweep_id="night-2")) == 0
    counted = results.sql("select count(*) as trials from records where block = $block", block=0)
    assert counted.to_pylist() == [{"trials": 4}]
    names = results.questions()["name"].to_pylist()
    assert names == query_names()


def test_mistakes_are_errors_of_ours(results: Results, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="no question 'nope'; the questions: "):
        results.query("nope")
    with pytest.raises(AnalysisError, match="failures has no parameter 'x'"):
        results.query("failures", x=1)
    with pytest.raises(AnalysisError, match="found DROP; allowed is one SELECT"):
        results.sql("drop view records")
    with pytest.raises(
        AnalysisError, match=r"no results in .*/elsewhere: found no sweep=\* folder"
    ):
        open_results(tmp_path / "elsewhere")


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
def test_a_damaged_file_is_left_out_with_a_warning(filled_store: Store) -> None:
    torn = Path(filled_store.location) / filled_store.files()[0]
    torn.write_bytes(b"PAR1 half")
    with pytest.warns(UserWarning, match=f"{torn} was left out .damaged, or"):
        open_results(filled_store.location).query("sweeps")


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, cudnn_sweep.analysis\n"
        "heavy = {'torch', 'ray', 'pandas', 'polars', 'duckdb', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_example_notebook_runs() -> None:
    code = (
        "import sys\n"
        "from runpy import run_path\n"
        "run_path('notebook.py')['notebook']()\n"
        "assert not {'torch', 'ray'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=DOCS, check=True)
