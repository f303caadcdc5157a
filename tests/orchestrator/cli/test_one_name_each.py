"""An option and a key have one name in every command, and the old name leads to it."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, load_suite
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_regime import make_regime
from cudnn_sweep.workloads.layout import check_layout
from cudnn_sweep.workloads.precision import find_precision


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("gate a b MODEL --threshold 0.1", "--threshold is now --min-effect"),
        ("bisect MODEL --pythons a,b --threshold 0.1", "--threshold is now --min-effect"),
        ("bans quick --threshold=0.1", "--threshold is now --min-effect"),
        ("nightly --budget-minutes 5", "--budget-minutes is now --minutes"),
        ("advise MODEL --format json", "--format is now --json"),
        ("freeze MODEL --format json", "--format is now --json"),
    ],
)
def test_old_name_of_an_option_leads_to_the_new_one(typed: str, told: str) -> None:
    ended = CliRunner().invoke(app, typed.split())
    assert ended.exit_code == 2
    assert told in " ".join(ended.output.split())


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("suites", "`sweep suites` is now `sweep list suites`"),
        ("workloads", "`sweep workloads` is now `sweep list workloads`"),
        ("schema suite --path", "`sweep schema` is now `sweep list schema`"),
        ("engines quick", "`sweep engines` is now `sweep bans`"),
    ],
)
def test_old_name_of_a_command_leads_to_the_new_one(typed: str, told: str) -> None:
    ended = CliRunner().invoke(app, typed.split())
    assert (ended.exit_code, ended.stderr) == (2, f"sweep: {told}\n")


def test_option_that_was_never_there_is_only_unknown() -> None:
    ended = CliRunner().invoke(app, ["launch", "--threshold", "0.1"])
    assert ended.exit_code == 2
    assert "min-effect" not in ended.output


@pytest.mark.parametrize("keys", ["budget_minutes: 5", "nightly: {budget_minutes: 5}"])
def test_old_name_of_a_key_leads_to_the_new_one(tmp_path: Path, keys: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"metadata: {{sweep: {{{keys}}}}}\n")
    with pytest.raises(LaunchFileError, match="unknown key .did you mean `minutes`"):
        read_launch_file(file, SweepSpec)


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
