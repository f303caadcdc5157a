"""`sweep list suites` and `sweep list workloads`: everything that there is, a line each; and what Tab completes."""

import pytest

from cudnn_sweep.orchestrator.planning.spec import suite_names
from cudnn_sweep.workloads.find_regime import regime_types
from cudnn_sweep.workloads.find_state import state_types
from cudnn_sweep.workloads.find_workload import bundled_workloads
from cudnn_sweep.workloads.problem import load_problems
from tests.orchestrator.typed import invoke


def rows(command: str) -> dict[str, str]:
    done = invoke(["list", command], {"COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0
    lines = [line for line in done.stdout.splitlines() if line]
    return {line.partition(" ")[0]: line.partition(" ")[2].strip() for line in lines}


def test_every_suite_is_listed_with_what_it_asks() -> None:
    found = rows("suites")
    for name in suite_names():
        assert len(found[name].split()) > 2, (
            f"{name}: the comment at its head should say what it is"
        )


def test_everything_that_a_cell_may_name_is_listed() -> None:
    found = rows("workloads")
    sets = {name.partition("/")[0] for name in load_problems()}
    for name in sets:
        assert len(found[name].split()) > 1, (
            f"{name}: the comment at its head should say what it is"
        )
    for name in (*bundled_workloads(), *regime_types(), *state_types()):
        assert len(found[name].split()) > 2, f"{name}: its docstring should say what it is"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sweep query helps", "helps_or_hurts"),
        ("sweep query failures --format ma", "markdown"),
        ("sweep list schema sui", "suite"),
        ("sweep list wor", "workloads"),
        ("sweep launch --suite qui", "quick"),
        ("sweep nightly --suite qui", "quick"),
        ("sweep advise noop --precision amp_b", "amp_bf16"),
        ("sweep freeze noop --regime cy", "cycle"),
        ("sweep cluster pu", "pull"),
    ],
)
def test_tab_completes(typed: str, completed: str) -> None:
    asked = {
        "_SWEEP_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    told = invoke([], prog_name="sweep", env=asked)
    assert told.exit_code == 0, told.output
    assert told.stdout.split() == [completed]
