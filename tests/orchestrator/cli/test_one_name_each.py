"""A misspelled option, key or name is guessed."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_regime import make_regime
from cudnn_sweep.workloads.layout import check_layout
from cudnn_sweep.workloads.precision import find_precision


def test_misspelled_suite_is_guessed() -> None:
    with pytest.raises(SpecError, match="unknown suite 'quik' .did you mean `quick`"):
        load_suite("quik")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("launch noops.yaml --dry-run --only precison=tf32", "(did you mean precision?)"),
        ("launch noops.yaml --dry-run --only workload=nop", "(did you mean noop?)"),
        ("query helps_or_hurts --reference --min-efect 0.1", "(did you mean min_effect?)"),
        ("query helps_or_hrts", "(did you mean helps_or_hurts?)"),
        ("gate . . noop --min-efect 0.1", "--min-effect"),
    ],
)
def test_misspelled_option_field_or_value_is_guessed(
    typed: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noops.yaml").write_text("cells: [{workload: noop}]\n")
    ended = CliRunner().invoke(app, typed.split())
    assert ended.exit_code == 2
    assert told in " ".join(ended.output.split())


@pytest.mark.parametrize(
    ("find", "typed", "told"),
    [
        (find_precision, "tf23", "(did you mean tf32?)"),
        (check_layout, "chanels_last", "(did you mean channels_last?)"),
        (partial(make_regime, parameters={}), "fesh", "(did you mean fresh?)"),
    ],
)
def test_misspelled_name_of_a_cell_is_guessed(
    find: Callable[[str], object], typed: str, told: str
) -> None:
    with pytest.raises(WorkloadError) as refused:
        find(typed)
    assert told in str(refused.value)


@pytest.mark.parametrize("command", ["advise", "freeze"])
def test_options_that_few_need_come_last_in_a_help(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"}).output
    usual, _, more = told.partition("\nMore:\n")
    assert {"--steps", "--minutes", "--precision", "--json"} <= _options(usual)
    assert {"--hours", "--state", "--memory-limit", "--runs", "--ranks", "--expect"} <= _options(
        more
    )


def _options(told: str) -> set[str]:
    return set(re.findall(r"^  (--[a-z-]+)", told, re.MULTILINE))
