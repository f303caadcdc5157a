"""Which version of her own code a user measured."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from cudnn_sweep.workloads.measuring.trial import workload_hash
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.user_code import import_named
from tests.workloads.made_up_cells import one_cell

CELL = one_cell("noop")
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


Files = dict[str, str]
FILE: Files = {"net.py": "import torch\nNet = torch.nn.Conv2d\n"}
BESIDE: Files = {"net.py": NET.format(blocks="inner"), "inner.py": INNER}
PACKAGE: Files = {"mine/nets/wide.py": NET.format(blocks="mine.inner"), "mine/inner.py": INNER}
LOSS: Files = {"inner.py": INNER}
TWO: Files = {"a/net.py": "Net = object\n", "b/net.py": INNER}


@pytest.mark.parametrize(
    ("asked", "files", "more"),
    [
        (["{folder}/net.py:Net"], FILE, {}),
        (["{folder}/net.py:Net"], BESIDE, {"other.py": "WIDTH = 9"}),
        (["mine.nets.wide:Net"], PACKAGE, {"mine/other.py": "WIDTH = 9"}),
        (["torch.nn:Conv2d", "{folder}/inner.py:loss"], LOSS, {}),
        (["{folder}/a/net.py:Net", "{folder}/b/net.py:loss"], TWO, {}),
    ],
    ids=["a file", "one beside it", "a package", "a loss", "two files of one name"],
)
def test_code_is_known_by_what_it_says_wherever_it_lies(
    tmp_path: Path, asked: list[str], files: Files, more: Files
) -> None:
    """Each file that the names need counts, and no other."""
    first = hash_of(tmp_path / "1", files, *asked)
    assert first is not None
    assert hash_of(tmp_path / "2", files | more, *asked) == first
    for path, code in files.items():
        edited = files | {path: f"{code}# edited\n"}
        assert hash_of(tmp_path / "edited" / path, edited, *asked) != first


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
