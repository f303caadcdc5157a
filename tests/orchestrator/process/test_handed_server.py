"""A fork server that tells a launch of its machine goes on as a slot's."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.errors import ServerError
from cudnn_sweep.orchestrator.process.client import ForkServer, HandedServer
from cudnn_sweep.orchestrator.process.protocol import Request, SurveyJob
from cudnn_sweep.orchestrator.process.server import IMPORTED_BY_TORCH_LATE
from cudnn_sweep.orchestrator.process.survey import survey

# A module that writes down to what its process's descriptors lead.
LOOKS = """
import os
from contextlib import suppress
from pathlib import Path
from torch import nn

Net, seen = nn.Identity, []
for each in os.listdir("/proc/self/fd"):
    with suppress(OSError):  # the listing's own
        seen.append(os.readlink(f"/proc/self/fd/{each}").partition(":")[0])
Path("seen").write_text(" ".join(seen))
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ForkServer]:
    (tmp_path / "own_package.py").write_text("from torch import nn\nNet = nn.Identity\n")
    with ForkServer(folder=tmp_path, survey_only=True) as server:
        yield server


def test_one_takes_it_over_with_all_that_it_imported_and_it_ends_with_that_one(
    own: ForkServer, tmp_path: Path
) -> None:
    survey(own, [])
    (tmp_path / "looks.py").write_text(LOOKS)
    (tmp_path / "sleeps.py").write_text("import time; time.sleep(1000)")
    own.hand_over(tmp_path / "server", ["own_package"])
    with HandedServer(tmp_path / "server") as handed:
        assert handed.pid == own.pid
        with pytest.raises(ServerError, match="no fork server waits at .*server: No such file"):
            HandedServer(tmp_path / "server")
        job = SurveyJob(workloads=["own_package:Net"])
        outcome = handed.run(Request(job=job, timeout_s=100))
        assert outcome.reply is not None and outcome.reply.survey is not None
        assert outcome.reply.survey.workloads["own_package:Net"].is_model
        assert not {"own_package", *IMPORTED_BY_TORCH_LATE}.intersection(outcome.reply.imported)

        handed.run(Request(job=SurveyJob(workloads=["looks:Net"]), timeout_s=100))
        seen = (tmp_path / "seen").read_text().split()
        assert seen.count("pipe") == 2  # the baton's, and the reply's
        assert "socket" not in seen, "its socket is not within reach of what a trial runs"

        handed.begin(Request(job=SurveyJob(workloads=["sleeps:Net"]), timeout_s=100))
        children = Path(f"/proc/{own.pid}/task/{own.pid}/children")
        while not (running := children.read_text().split()):
            time.sleep(0.01)
    assert all(is_over(pid) for pid in running)
    assert is_over(own.pid)


def is_over(pid: int | str) -> bool:
    """A zombie is: its parent has not asked yet."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(") ")[2].startswith("Z")


def test_it_ends_with_its_first_owner(own: ForkServer, tmp_path: Path) -> None:
    own.hand_over(tmp_path / "server", [])
    handed = HandedServer(tmp_path / "server")
    own.close()
    with pytest.raises(ServerError, match="^the fork server died$"):
        handed.run(Request(job=SurveyJob(workloads=[]), timeout_s=100))
    handed.close()


def test_it_is_not_to_be_had_where_its_imports_fail_or_it_dies(
    own: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "fails.py").write_text("1 / 0")
    own.hand_over(tmp_path / "server", ["fails"])
    with pytest.raises(ServerError, match="ended at its start|no fork server waits"):
        HandedServer(tmp_path / "server")
    with ForkServer(survey_only=True) as another:
        os.kill(another.pid, signal.SIGKILL)
        another.hand_over(tmp_path / "gone", [])
        with pytest.raises(ServerError, match="no fork server waits"):
            HandedServer(tmp_path / "gone")
