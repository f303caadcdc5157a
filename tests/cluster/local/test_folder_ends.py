"""The end of a local Ray whose files take longer to remove than anybody waits."""

import gc
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from cudnn_sweep.cluster.errors import LocalRayError
from cudnn_sweep.cluster.local import janitor, local_ray

SLOW = """
import shutil, sys, time
sys.stdin.read()
time.sleep(1)
shutil.rmtree(sys.argv[1])
"""


@pytest.fixture
def _slow_janitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    monkeypatch.setattr(janitor, "__file__", str(script))
    monkeypatch.setattr(local_ray, "STOP_TIMEOUT_S", 0.1)


@pytest.mark.usefixtures("_slow_janitor")
def test_files_that_take_long_to_remove_end_no_launch_in_an_error() -> None:
    with local_ray._folder() as folder:
        pass
    assert not folder.exists()


@pytest.mark.usefixtures("_slow_janitor")
@pytest.mark.filterwarnings("ignore:subprocess .* still running:ResourceWarning")  # its janitor
def test_a_process_that_does_not_end_is_an_error() -> None:
    error = pytest.raises(LocalRayError, match="processes of the Ray in .* do not end")
    with error, local_ray._folder() as folder:
        marked = os.environ | {janitor.MARKER: str(folder)}
        stays = subprocess.Popen(["sleep", "60"], env=marked)
        _await(lambda: stays.pid in janitor.processes_of(folder))
    del error
    gc.collect()
    stays.kill()
    stays.wait()
    _await(lambda: not folder.exists())


def _await(is_so: Callable[[], bool]) -> None:
    ends = monotonic() + 10.0
    while not is_so():
        assert monotonic() < ends
        sleep(0.05)
