"""README's commands as a newcomer types them: an install that is not editable, a folder without a launch file."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.conftest import ROOT, PackageCopy

pytestmark = pytest.mark.measuring

FIRST_SCREEN = re.compile(r"^    (sweep .*?)(?:\s{2,}#.*)?$", re.MULTILINE)
NEXT = re.compile(r"^(?:.*(?:next|Next|with a GPU): |  )(sweep .*?)(?:\s{2,}#.*)?$", re.MULTILINE)
LONGEST_S = 90.0  # on a CPU
ALLOWED = {"advise": (0, 3, 5), "freeze": (5,)}  # the minutes do not suffice, or there is no GPU
TRACE = "sweep trace my_nets.py:Segmenter --input 1x3x32x32"


def installed(copy: PackageCopy) -> dict[str, str]:
    """What `pip install .` installs, beside the torch that is there: an environment that has it first."""
    target = copy.root.parent / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(copy.root)], check=True)
    path = f"{target / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(target), "PATH": path}


def typed(
    command: str, here: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        shell=True,
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_an_install_that_is_not_editable_traces_a_model_and_plans_its_launch(
    package_copy: PackageCopy, tmp_path: Path
) -> None:
    environment = installed(package_copy)
    here = tmp_path / "segmenter"
    here.mkdir()
    (here / "my_nets.py").write_text((ROOT / "docs/examples/segmenter/my_nets.py").read_text())
    told = ""
    for command in (TRACE, "sweep launch Segmenter.yaml --dry-run"):
        ran = typed(command, here, environment)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        told += ran.stdout
    assert "Next: sweep launch Segmenter.yaml\n" in told
    assert "conv3_3x3_32" in told.partition("Next: ")[2]


@pytest.mark.long
def test_every_command_of_the_first_screen_and_every_next_line_works(
    package_copy: PackageCopy, tmp_path: Path
) -> None:
    environment = installed(package_copy)
    shutil.copytree(ROOT / "docs/examples/audit", tmp_path / "audit")
    here = tmp_path / "segmenter"
    here.mkdir()
    (here / "my_nets.py").write_text((ROOT / "docs/examples/segmenter/my_nets.py").read_text())
    readme = (ROOT / "README.md").read_text().partition("\n## For your own network")[2]
    first_screen = FIRST_SCREEN.findall(readme)
    commands = [command.split()[1] for command in first_screen]
    assert commands == ["advise", "advise", "freeze", "audit"]
    told: dict[str, str] = {}
    audited = ""
    todo = [*first_screen, TRACE]
    while todo:
        command = todo.pop(0)
        began = monotonic()
        ran = typed(command, here, environment)
        allowed = ALLOWED.get(command.split()[1], (0,))
        assert ran.returncode in allowed, f"{command}\n{ran.stdout}{ran.stderr}"
        told[command] = ran.stdout
        audited = ran.stderr if command.startswith("sweep audit") else audited
        if command == first_screen[0]:
            assert monotonic() - began < LONGEST_S
        todo += [each for each in NEXT.findall(ran.stdout) if each not in [*told, *todo]]
    advised = told[first_screen[0]]
    assert re.search(r"A step +[\d.,]+ ms on this CPU", advised)
    assert "Undecided: this step was not measured on a GPU." in advised
    assert f"On a machine with a GPU: {first_screen[0]}\n" in advised
    assert "benchmark was turned on by" in audited
    assert "Next: sweep launch shapes.yaml\n" in audited
    assert "Next: sweep launch Segmenter.yaml\n" in told[TRACE]
    launched = told["sweep launch Segmenter.yaml"]
    assert "Found no cluster.yaml. The sweep runs on this machine" in launched
    further = [command for command in NEXT.findall(launched) if command.split()[1] != "launch"]
    assert {"report", "query"} <= {command.split()[1] for command in further}
    assert any("conv3_3x3_32" in told[command] for command in further)
