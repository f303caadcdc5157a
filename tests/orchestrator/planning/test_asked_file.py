"""Which file a launch reads: a launch file or a suite, typed or found here."""

from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.spec import asked_file, is_path, results_of_the_launch_file

SUITE = "cells: [{workload: noop}]\n"
LAUNCH = (
    "cluster_name: here\nprovider: {type: local}\nmetadata: {sweep: {results: there}, cells: 1}\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(SUITE)
    return tmp_path


def test_a_typed_suite_runs_here_or_where_the_launch_file_says(here: Path) -> None:
    file, suite, note = asked_file(Path("suite.yaml"), None, None)
    assert (file, suite) == (None, "suite.yaml")
    assert note.startswith("Found no cluster.yaml") and "./" in note
    *_, note = asked_file(Path("suite.yaml"), None, "s3://bucket/results")
    assert note.endswith("Its results go to s3://bucket/results.")
    Path("cluster.yaml").write_text(LAUNCH)
    file, suite, note = asked_file(Path("suite.yaml"), None, None)
    assert (file, suite) == (Path("cluster.yaml"), "suite.yaml")
    assert note == "suite.yaml is a suite; cluster.yaml says where it runs."
    assert asked_file(None, "quick", None) == (Path("cluster.yaml"), "quick", "")


def test_a_typed_launch_file_takes_a_suite_beside_it(here: Path) -> None:
    Path("mine.yaml").write_text(f"{SUITE}metadata: {{}}\n")
    for typed in ("mine.yaml", "none.yaml"):
        assert asked_file(Path(typed), "quick", None) == (Path(typed), "quick", "")


def test_two_suites_and_python_are_refused(here: Path) -> None:
    with pytest.raises(SpecError, match="found two suites, .* and --suite quick"):
        asked_file(Path("suite.yaml"), "quick", None)
    with pytest.raises(SpecError, match=r"net.py is a Python file"):
        asked_file(Path("net.py"), None, None)


def test_results_are_those_of_the_launch_file(here: Path) -> None:
    usual = results_of_the_launch_file()
    Path("cluster.yaml").write_text(LAUNCH.replace(", cells: 1", ""))
    assert results_of_the_launch_file() == "there" != usual


def test_a_path_ends_as_yaml_does() -> None:
    assert is_path("a.yaml") and is_path("b.yml") and not is_path("quick")
