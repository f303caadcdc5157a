"""What FILE of `sweep launch` stands for."""

from pathlib import Path

import pytest

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, asked_file

SUITE = "cells: [{workload: noop}]\n"


def test_a_suite_may_stand_in_the_launch_files_place(here: Path) -> None:
    suite = Path("mine.yaml")
    suite.write_text(SUITE)
    asked = asked_file(suite, None, None)
    assert (asked.file, asked.suite) == (None, "mine.yaml")
    Path("cluster.yaml").write_text("metadata: {sweep: {cells: [{workload: noop}]}}\n")
    asked = asked_file(suite, None, None)
    assert (asked.file, asked.suite) == (Path("cluster.yaml"), "mine.yaml")
    assert asked_file(None, None, None).note is None


def test_a_launch_file_that_is_named_must_be_there(here: Path) -> None:
    named = Path("gone.yaml")
    assert asked_file(named, None, None).file == named
    with pytest.raises(LaunchFileError, match="gone.yaml: there is no such file") as told:
        read_launch_file(named, SweepSpec)
    example = "\n".join(str(told.value).splitlines()[2:])
    named.write_text(example)
    assert read_launch_file(named, SweepSpec).sweep.suite == "quick"
