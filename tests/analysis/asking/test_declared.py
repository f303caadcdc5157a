"""What a folder's files declare is found by the folder."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from cudnn_sweep.analysis.asking.declared import declared


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package in which `b` has what it took from `a`."""
    package = tmp_path / "some_folder_of_ours"
    package.mkdir()
    sources = {
        "__init__": "",
        "a": "FIRST, WORD = 1, 'no number'",
        "b": "from some_folder_of_ours.a import FIRST\nSECOND = 2",
    }
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module(package.name)
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        del sys.modules[name]


def test_all_of_a_kind_is_found_once(folder: ModuleType) -> None:
    assert declared(folder, int) == [1, 2]
