"""An option and a key have one name in every command, and the old name leads to it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.cli import app
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, load_suite


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
