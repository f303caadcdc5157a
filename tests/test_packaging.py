"""What is installed is what the four folders hold, in the versions that are pinned."""

import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FOLDERS = ("orchestrator", "workloads", "cluster", "analysis")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_folder_with_python_is_listed() -> None:
    on_disk = {
        ".".join(("cudnn_sweep", *module.parent.relative_to(ROOT).parts))
        for folder in FOLDERS
        for module in (ROOT / folder).rglob("*.py")
    }
    assert on_disk == set(PYPROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.slow
def test_wheel_carries_every_tracked_file_and_no_other(tmp_path: Path) -> None:
    # By way of the sdist, as a release is made: built in place, a wheel also ships a dirty build/.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        carried = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert carried == {f"cudnn_sweep/{name}" for name in _files_of_git() if (ROOT / name).exists()}


def _files_of_git() -> list[str]:
    """Tracked files, and those that the next commit may add."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others"]
    command += ["--exclude-standard", "--", *FOLDERS]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name]


def test_every_direct_dependency_is_pinned() -> None:
    project = PYPROJECT["project"]
    direct = chain(project["dependencies"], *project["optional-dependencies"].values())
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(pin.partition("==")[0]) for pin in pins}
    assert {canonicalize_name(Requirement(line).name) for line in direct} - pinned == {
        project["name"]
    }
