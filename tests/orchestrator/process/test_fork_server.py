"""A fork server: what it imports before any trial, and when it ends."""

import re
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from cudnn_sweep.orchestrator.errors import ModelError, PythonError, ServerError
from cudnn_sweep.orchestrator.process.client import ForkServer, survey
from cudnn_sweep.orchestrator.process.protocol import VERSION, Request, SurveyJob


def test_module_that_ends_python_is_named(server: ForkServer, tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text("import os; os._exit(0)")
    told = f"importing {file}:Net: ended without a result, exit code 0"
    with pytest.raises(ModelError, match=f"^{re.escape(told)}$"):
        survey(server, ["noop", f"{file}:Net"])


@pytest.mark.slow
def test_server_ends_when_its_user_is_gone() -> None:
    server = ForkServer(survey_only=True)
    pid = server.pid
    server.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.fixture
def package(tmp_path: Path) -> Callable[[str], str]:
    """A package in the server's folder that does this when it is imported."""

    def write(code: str) -> str:
        (tmp_path / "slow_package.py").write_text(code)
        return "slow_package"

    return write


@pytest.mark.slow
def test_preloaded_package_is_there_before_the_fork(
    tmp_path: Path, package: Callable[[str], str]
) -> None:
    package("import os\nfrom torch import nn\nPID = os.getpid()\nNet = nn.Identity\n")
    with ForkServer(folder=tmp_path, survey_only=True, preload=["slow_package"]) as server:
        job = SurveyJob(workloads=["slow_package:Net"])
        outcome = server.run(Request(job=job, timeout_s=100))
    assert outcome.reply is not None and outcome.reply.survey is not None
    assert outcome.reply.survey.workloads["slow_package:Net"].is_model
    assert "slow_package" not in outcome.reply.imported


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()",
            "preload: slow_package: the import leaves 2 threads",
        ),
        pytest.param(
            "1 / 0",
            "preload: slow_package: ZeroDivisionError: division by zero",
            marks=pytest.mark.long,
        ),
    ],
)
def test_package_that_spoils_forks_is_refused(
    tmp_path: Path,
    package: Callable[[str], str],
    capfd: pytest.CaptureFixture[str],
    code: str,
    message: str,
) -> None:
    package(code)
    with pytest.raises(ServerError, match="ended before its greeting"):
        ForkServer(folder=tmp_path, survey_only=True, preload=["slow_package"])
    assert message in capfd.readouterr().err


def test_a_server_that_ends_is_seen_though_what_it_forked_keeps_its_pipe(tmp_path: Path) -> None:
    """A process that was stopped before it could ask to die with the server does so for ever."""
    fake = tmp_path / "python"
    greeting = f'{{"protocol": {VERSION}, "version": "0"}}'
    fake.write_text(f"#!/bin/sh\necho '{greeting}'\nread request\nsleep 20 &\nexit 3\n")
    fake.chmod(0o755)
    server = ForkServer(python=fake)
    began = monotonic()
    with pytest.raises(ServerError, match="died, exit code 3"):
        server.run(Request(job=SurveyJob(workloads=[]), timeout_s=60))
    assert monotonic() - began < 10
    server.close()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("exec sleep 20", "sent no greeting within 0.3 s"),
        ("exec 1>&-; exec sleep 20", "sent no greeting within 0.3 s"),
        ("exec cat /dev/zero", "install a version of cudnn-sweep"),
    ],
)
def test_a_python_that_does_not_begin_as_a_server_does_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    monkeypatch.setattr("cudnn_sweep.orchestrator.process.client.GREETING_S", 0.3)
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    began = monotonic()
    with pytest.raises(PythonError, match=message):
        ForkServer(python=fake)
    assert monotonic() - began < 10
