"""The worst state of several checks, other processes on a GPU, and folders that a check makes."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from cudnn_sweep.orchestrator.doctor import checks
from cudnn_sweep.orchestrator.doctor.checks import (
    _made_folders_removed,
    ok,
    others_on,
    problem,
    warning,
    worst,
)

OK, WARNING, PROBLEM = ok("a", "fine"), warning("b", "odd", "look"), problem("c", "bad", "mend")


@pytest.mark.parametrize(
    ("of", "state"),
    [
        ([], "ok"),
        ([OK, OK], "ok"),
        ([WARNING, OK], "warning"),
        ([OK, PROBLEM, WARNING], "problem"),
    ],
)
def test_the_worst_check_counts(of: Sequence[checks.Check], state: str) -> None:
    assert worst(list(of)) == state


@pytest.mark.parametrize(("seen", "count"), [(None, 0), (0, 0), (3, 3)])
def test_processes_that_nvml_does_not_report_are_none(
    monkeypatch: pytest.MonkeyPatch, seen: int | None, count: int
) -> None:
    monkeypatch.setattr(checks, "_read", lambda *_: SimpleNamespace(other_processes=seen))
    assert others_on("GPU-1") == count


def test_only_folders_that_a_check_made_are_removed_and_only_empty_ones(tmp_path: Path) -> None:
    there, made = tmp_path / "there", tmp_path / "there/made/deep"
    there.mkdir()
    with _made_folders_removed(made):
        made.mkdir(parents=True)
    assert there.exists()
    assert not made.parent.exists()
    with _made_folders_removed(made):
        made.mkdir(parents=True)
        (made.parent / "file").touch()
    assert (made.parent / "file").exists()
    assert not made.exists()
    with _made_folders_removed(there):
        pass
    assert there.exists()
    with _made_folders_removed(None):
        pass
