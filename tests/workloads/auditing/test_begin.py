"""How an audit begins: what the script meets is as it would be without one."""

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cudnn_sweep.workloads.auditing import begin as beginning
from cudnn_sweep.workloads.auditing.begin import VARIABLE, begin


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    class Audit:
        def __init__(self, file: str, steps: int | None) -> None:
            made.append((file, steps))

        def begin(self) -> None:
            made.append("begun")

    monkeypatch.setattr(beginning, "_Audit", Audit)
    monkeypatch.setattr(beginning, "_import_their_own_sitecustomize", lambda: None)
    monkeypatch.setattr(sys, "path", ["/ours", *sys.path])
    return made


@pytest.mark.parametrize("python_path", [None, "/theirs:/more"])
def test_the_script_has_its_own_path_and_modules(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    audits: list[Any],
    python_path: str | None,
) -> None:
    """Modules that our start imported under a name of the script's folder are forgotten."""
    (tmp_path / "alone.py").touch()
    (tmp_path / "package").mkdir()
    request = {"findings": "out", "steps": 5, "modules": str(tmp_path), "python_path": python_path}
    monkeypatch.setenv(VARIABLE, json.dumps(request))
    monkeypatch.setenv("PYTHONPATH", "/ours:/theirs")
    before = {*sys.modules}
    for name in ("alone", "package.part", "elsewhere"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    begin("/ours", before)
    assert audits == [("out", 5), "begun"]
    assert VARIABLE not in os.environ and "/ours" not in sys.path
    assert os.environ.get("PYTHONPATH") == python_path
    assert {"alone", "package.part", "elsewhere"} & {*sys.modules} == {"elsewhere"}


def test_a_module_that_was_there_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audits: list[Any]
) -> None:
    (tmp_path / "early.py").touch()
    request = {"findings": "f", "steps": None, "modules": str(tmp_path), "python_path": None}
    monkeypatch.setenv(VARIABLE, json.dumps(request))
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setitem(sys.modules, "early", ModuleType("early"))
    begin("/ours", {*sys.modules})
    assert "early" in sys.modules and audits == [("f", None), "begun"]
