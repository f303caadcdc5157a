"""What CONTRIBUTING promises: each of its samples is one new file, and no edit."""

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import PackageCopy

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
NAMED = re.compile(r"^\*\*.+?\*\*[^`]*`([^`]+/[^`]+)`(?:.+\n)+\n((?: {4}.*\n|\n)+)", re.MULTILINE)
SAMPLES = {path: textwrap.dedent(code).strip() + "\n" for path, code in NAMED.findall(TEXT)}
WORKLOAD = "workloads/catalog/blur.py"
QUERY = "analysis/sql/slowest.sql"
EXAMINE = re.compile(r", examine=.*(?=\)$)", re.MULTILINE)
FOLDERS = {
    "analysis/answers",
    "analysis/report/figures",
    "analysis/sql",
    "workloads/catalog",
    "workloads/problems",
    "workloads/regimes",
    "workloads/states",
    "workloads/suites",
}
CONTRACTS = (
    "tests/analysis/nights/reports/test_reports.py",
    "tests/analysis/report/test_report_page.py::test_every_chart_is_drawn_and_described",
    "tests/analysis/engine/test_queries.py",
    "tests/orchestrator/cli/test_catalog.py",
    "tests/orchestrator/planning/test_plan.py",
    "tests/test_packaging.py::test_every_folder_with_python_is_listed",
    "tests/workloads/measuring/test_computed.py",
    "tests/workloads/test_contracts.py",
    "tests/workloads/cells/test_expand.py",
    "tests/workloads/test_regimes.py",
    "tests/workloads/states/test_states.py",
)
# Tests or files of them that take long over all that is bundled: they run over the samples or not at all.
LONG = (
    "test_a_question_runs_on_an_empty_store",
    "test_a_question_tells_trials_of_edited_code_apart",
    "test_computed",
    "test_contracts",
    "test_plain_duckdb_gives_the_same_answer",
    "test_samples_of_other_trials_would_be_noticed",
    "test_sql_goes_on",
    "test_states",
    "test_the_prelude",
)

# Of the generated documents, those that name what is bundled. Pages made from stored rows take long.
REFERENCE = (
    "docs/questions.md",
    "docs/launch-file.md",
    "orchestrator/schemas/launch-file.json",
    "orchestrator/schemas/suite.json",
)


def test_every_kind_of_thing_has_a_sample_of_at_most_ten_lines() -> None:
    assert {str(Path(path).parent) for path in SAMPLES} == FOLDERS
    for path, code in SAMPLES.items():
        assert len(code.splitlines()) <= 10, path


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "others",
    [
        pytest.param("not test", marks=pytest.mark.long),
        pytest.param(f"not ({' or '.join(LONG)})", marks=pytest.mark.long),
    ],
)
def test_samples_pass_the_tests_of_all_that_is_bundled(
    package_copy: "PackageCopy", others: str
) -> None:
    """Those over the samples alone, and the others beside them."""
    for path, code in SAMPLES.items():
        package_copy.add(path, code)
    unexamined, found = EXAMINE.subn("", SAMPLES[WORKLOAD].replace("def blur(", "def unexamined("))
    assert found == 1
    package_copy.add(WORKLOAD.replace("blur", "unexamined"), unexamined)
    new = " or ".join(["unexamined", *(Path(path).stem for path in SAMPLES)])
    chosen = f"({others}) or {new}"
    for command in (
        ["-m", "ruff", "check", "--fix"],
        ["-m", "sqlfluff", "lint", QUERY],
        ["docs/generate.py", *REFERENCE],
        ["-m", "pytest", "-q", "-k", chosen, *CONTRACTS],
    ):
        done = package_copy.python(*command)
        assert done.returncode == 0, done.stdout + done.stderr
