"""Which version of her own code a user measured."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from cudnn_sweep.workloads.cells.cell import Cell
from cudnn_sweep.workloads.measuring.user_sources import workload_hash
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.user_code import import_named

CELL = Cell(
    workload="conv",
    problem=None,
    model=None,
    direction="forward",
    input_shape=(1, 3, 8, 8),
    regime="fixed",
    regime_parameters={},
    state="plain",
    state_parameters={},
    precision="fp32",
    layout="contiguous",
    gpu="GPU",
)
NET = "import torch\nfrom {blocks} import WIDTH\nNet = lambda: torch.nn.Conv2d(3, WIDTH, 3)\n"
INNER = "WIDTH = 8\ndef loss(output): return output.sum()\n"


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path) -> Iterator[None]:
    """What a test imported of its own folder is imported anew by the next one."""
    before = dict(sys.modules), list(sys.path)
    yield
    sys.modules.clear()
    sys.modules.update(before[0])
    sys.path[:] = before[1]


def hash_of(folder: Path, files: dict[str, str], name: str, loss: str | None = None) -> str | None:
    """Of a workload in `folder`, which gets the files, in a process that imports nothing else of it."""
    for path, code in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    earlier = set(sys.modules)
    sys.path.append(str(folder))
    names = [name.format(folder=folder), *([loss.format(folder=folder)] if loss else [])]
    for each in names:
        import_named(each)
    model = ModelChoice(loss=names[1]) if loss else None
    found = workload_hash(replace(CELL, workload=names[0], model=model))
    sys.path.remove(str(folder))
    for module in set(sys.modules) - earlier:
        del sys.modules[module]
    return found


def test_a_file_is_known_by_what_it_says_wherever_it_lies(tmp_path: Path) -> None:
    name = "{folder}/net.py:Net"
    code = "import torch\nNet = torch.nn.Conv2d\n"
    first = hash_of(tmp_path / "a", {"net.py": code}, name)
    assert first is not None
    assert hash_of(tmp_path / "b", {"net.py": code}, name) == first
    assert hash_of(tmp_path / "c", {"net.py": f"{code}# edited\n"}, name) != first


def test_what_a_file_imports_beside_it_counts_and_nothing_else_there(tmp_path: Path) -> None:
    name, net = "{folder}/net.py:Net", NET.format(blocks="inner")
    files = {"net.py": net, "inner.py": INNER}
    first = hash_of(tmp_path / "a", files, name)
    assert hash_of(tmp_path / "b", files | {"other.py": "WIDTH = 9"}, name) == first
    assert hash_of(tmp_path / "c", files | {"inner.py": f"{INNER}# edited\n"}, name) != first


def test_a_package_counts_as_far_as_the_name_needs_it(tmp_path: Path) -> None:
    name, net = "mine.nets.wide:Net", NET.format(blocks="mine.inner")
    files = {"mine/nets/wide.py": net, "mine/inner.py": INNER, "mine/other.py": "WIDTH = 8"}
    first = hash_of(tmp_path / "a", files, name)
    assert first is not None
    assert hash_of(tmp_path / "b", files | {"mine/other.py": "WIDTH = 9"}, name) == first
    edited = files | {"mine/inner.py": f"{INNER}# edited\n"}
    assert hash_of(tmp_path / "c", edited, name) != first


def test_a_loss_of_ones_own_counts(tmp_path: Path) -> None:
    asked = ("torch.nn:Conv2d", "{folder}/inner.py:loss")
    first = hash_of(tmp_path / "a", {"inner.py": INNER}, *asked)
    assert first is not None
    assert hash_of(tmp_path / "b", {"inner.py": f"{INNER}# edited\n"}, *asked) != first


def test_two_files_of_one_name_both_count(tmp_path: Path) -> None:
    asked = ("{folder}/a/net.py:Net", "{folder}/b/net.py:loss")
    files = {"a/net.py": "Net = object\n", "b/net.py": INNER}
    first = hash_of(tmp_path / "1", files, *asked)
    for path, code in files.items():
        assert hash_of(tmp_path / path, files | {path: f"{code}# edited\n"}, *asked) != first


def test_a_module_that_the_user_blocks_is_none_of_hers(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['wandb'] = None\nNet = object\n"
    assert hash_of(tmp_path, {"net.py": code}, "{folder}/net.py:Net") is not None


def test_pythons_own_library_in_a_folder_beneath_is_not_the_users(tmp_path: Path) -> None:
    """As that of a conda environment in the project's folder."""
    name, net = "{folder}/net.py:Net", "import wave\nNet = object\n"
    sys.modules.pop("wave", None)
    first = hash_of(tmp_path / "a", {"net.py": net}, name)
    sys.modules["wave"] = ModuleType("wave")
    sys.modules["wave"].__file__ = str(tmp_path / "b" / "lib" / "wave.py")
    assert (
        hash_of(tmp_path / "b", {"net.py": net, "lib/wave.py": "# another Python's"}, name) == first
    )


def test_an_installed_package_counts_by_its_version(tmp_path: Path) -> None:
    def of(name: str, version: str) -> str | None:
        code = f"__version__ = {version!r}\nimport installed.inner\nclass Net: pass\n"
        folder = tmp_path / name / "site-packages"
        files = {"installed/__init__.py": code, "installed/inner.py": f"WIDTH = {len(name)}\n"}
        return hash_of(folder, files, "installed:Net")

    first = of("a", "1.0")
    assert first is not None
    assert of("bb", "1.0") == first, "its own modules are known by its version"
    assert of("a", "1.1") != first


@pytest.mark.parametrize(
    "name", ["conv", "torch.nn:Conv2d", "cudnn_sweep.workloads.nets.unet:UNet"]
)
def test_what_is_bundled_or_torchs_has_its_version_already(name: str) -> None:
    if ":" in name:
        import_named(name)
    assert workload_hash(replace(CELL, workload=name)) is None
