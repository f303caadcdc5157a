"""The copy of the package that tests of extensions change is a whole one, and the only one they run."""

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import PackageCopy

ROOT = Path(__file__).parents[1]
LINKS = ROOT / ".installed" / "cudnn_sweep"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHERE = """
import json, sys
from cudnn_sweep import analysis, cluster, orchestrator, workloads
from cudnn_sweep.workloads import added
print(json.dumps([analysis.__file__, cluster.__file__, orchestrator.__file__, added.__file__]))
"""


def test_python_in_the_copy_imports_the_copy(package_copy: "PackageCopy") -> None:
    package_copy.add("workloads/added.py", "")
    done = package_copy.python("-c", WHERE)
    assert done.returncode == 0, done.stderr
    assert all(file.startswith(str(package_copy.root)) for file in json.loads(done.stdout))


def test_links_lead_to_all_folders_that_are_installed() -> None:
    names = {package.split(".")[1] for package in PYPROJECT["tool"]["setuptools"]["packages"]}
    assert {link.name: link.resolve() for link in LINKS.iterdir()} == {n: ROOT / n for n in names}
