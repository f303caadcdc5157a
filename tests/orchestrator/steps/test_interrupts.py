"""Ctrl-C and SIGTERM come through wherever they come; what a shell is told by the process that waits for the one that works."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.cli import failing
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from tests.orchestrator.typed import python


@pytest.fixture
def _handlers_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Finalized:
    """What a finalizer raises, Python drops."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self._number)


@pytest.mark.usefixtures("_handlers_kept")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_that_comes_in_a_finalizer_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(failing, "leave", ended.append)
    with failing.mistakes_exit():
        Finalized(number)
        time.sleep(20)
    assert ended == [code]


@pytest.mark.slow
def test_a_command_that_ends_at_once_leaves_no_folder_of_its_questions(tmp_path: Path) -> None:
    asks = (
        "from cudnn_sweep.analysis.engine.database import open_database\n"
        "from cudnn_sweep.analysis.store.store import open_store\n"
        "from cudnn_sweep.orchestrator.cli.failing import leave\n"
        "with open_database(open_store('results')) as database:\n"
        "    database.query('select 1 as one')\n"
        "leave(4)\n"
    )
    assert python("-c", asks, here=tmp_path, TMPDIR=str(tmp_path)).returncode == 4
    assert list(tmp_path.iterdir()) == []


RAY_ENDED = "sweep: Ray on this machine ended, and so did this launch"
ENDS = {"raise ValueError('a bug of ours')": "ValueError: a bug of ours", "os._exit(1)": RAY_ENDED}


@pytest.mark.parametrize("end", ENDS)
def test_a_traceback_is_not_taken_for_the_end_of_ray(end: str) -> None:
    code = f"""
import os
from cudnn_sweep.orchestrator.cli.failing import mistakes_exit
from cudnn_sweep.orchestrator.cli.watchdog import start_watchdog
start_watchdog()
with mistakes_exit():
    {end}
"""
    done = python("-c", code)
    assert done.returncode == ExitCode.UNFINISHED
    assert ENDS[end] in done.stderr
    assert (RAY_ENDED in done.stderr) == (ENDS[end] == RAY_ENDED)
