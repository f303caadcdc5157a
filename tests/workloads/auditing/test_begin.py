"""How an audit begins: what the script meets is as it would be without one."""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
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


@pytest.mark.parametrize("ours", [ModuleType("sitecustomize"), None])
@pytest.mark.parametrize("lacking", ["sitecustomize", "numpy", None])
def test_the_users_own_sitecustomize_is_imported_and_ours_stays_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, ours: ModuleType | None, lacking: str | None
) -> None:
    """One that lacks a package of its own fails as it would without an audit."""
    imported: list[str] = []

    def import_module(name: str) -> None:
        imported.append(name)
        assert name not in sys.modules
        if lacking is not None:
            raise ImportError(name=lacking)

    monkeypatch.setitem(sys.modules, "sitecustomize", ModuleType("sitecustomize"))
    if ours is None:
        del sys.modules["sitecustomize"]
    else:
        sys.modules["sitecustomize"] = ours
    monkeypatch.setattr(beginning, "import_module", import_module)
    with pytest.raises(ImportError) if lacking == "numpy" else nullcontext():
        beginning._import_their_own_sitecustomize()
    assert imported == ["sitecustomize"]
    is_back = lacking == "sitecustomize" and ours is not None
    assert sys.modules.get("sitecustomize") is (ours if is_back else None)


def test_findings_are_written_by_the_process_that_began_alone(tmp_path: Path) -> None:
    audit = beginning._Audit(str(tmp_path / "found.json"), None)
    audit._process += 1
    audit._write()
    assert not [*tmp_path.iterdir()], "as in a process that the script forked"
    audit._process -= 1
    with pytest.raises(SystemExit) as ended:
        audit._end()
    assert ended.value.code == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["limit_reached"], found["torch"], found["gpu"]) == (True, None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


@pytest.mark.parametrize("version", [91900, None])
def test_cudnns_version_is_asked_of_a_torch_that_uses_the_gpu(
    tmp_path: Path, version: int | None
) -> None:
    def asked() -> int:
        if version is None:
            raise RuntimeError("not the cuDNN that torch was built with")
        return version

    for on_gpu in (True, False):
        audit = beginning._Audit(str(tmp_path / "found.json"), None)
        torch: Any = SimpleNamespace(
            __version__="2.11",
            version=SimpleNamespace(cuda="13.0"),
            cuda=SimpleNamespace(is_initialized=lambda: on_gpu, get_device_name=lambda: "H200"),  # noqa: B023
            backends=SimpleNamespace(cudnn=SimpleNamespace(version=asked)),
        )
        audit._torch = torch
        found = audit._findings()
        assert (found.torch, found.cuda) == ("2.11", "13.0")
        assert (found.gpu, found.cudnn) == (("H200", version) if on_gpu else (None, None))
        assert found.own_errors == () and found.calls == 0
