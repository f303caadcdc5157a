"""Processes of a launch that do not run any more."""

import os
from pathlib import Path

import pytest

from cudnn_sweep.orchestrator.cli import watchdog as stuck
from cudnn_sweep.orchestrator.cli.watchdog import NO_ANSWER_S, StuckBelow
from cudnn_sweep.orchestrator.exit_codes import ExitCode

ROOT, RECORDER, TRIAL = 100, 101, 102
SLEEPS, STOPPED, IN_KERNEL = "S (sleeping)", "T (stopped)", "D (disk sleep)"


class FakeProc:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        for pid, parent, command in (
            (ROOT, 1, "sweep\0launch"),
            (RECORDER, ROOT, "ray::Recorder"),
            (TRIAL, RECORDER, "python\0-m\0cudnn_sweep.orchestrator.process.server"),
        ):
            (folder / f"{pid}/task/{pid}").mkdir(parents=True)
            (folder / f"{pid}/stat").write_text(f"{pid} (a) b) S {parent} 0 0")
            (folder / f"{pid}/cmdline").write_text(command)
            self.is_in(pid, SLEEPS)

    def is_in(self, pid: int, state: str, runs: int = 1, thread: int = 0) -> None:
        task = self.folder / f"{pid}/task/{thread or pid}"
        task.mkdir(exist_ok=True)
        (task / "status").write_text(
            f"Name:\ta\nState:\t{state}\nvoluntary_ctxt_switches:\t{runs}\n"
        )

    def after(self, seconds: float) -> float:
        self.now += seconds
        return self.now


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    fake = FakeProc(tmp_path)
    monkeypatch.setattr(stuck, "PROC", tmp_path)
    monkeypatch.setattr(stuck, "monotonic", lambda: fake.now)
    return fake


def _found(proc: FakeProc, below: StuckBelow) -> list[int]:
    """By a look at once, and by one when the time is over."""
    assert below.look() == {}
    proc.after(NO_ANSWER_S)
    return list(below.look())


@pytest.mark.parametrize(
    ("pid", "name", "state", "thread", "way"),
    [
        (RECORDER, "the recorder", STOPPED, 0, "stopped by a signal"),
        (TRIAL, "a trial or its fork server", IN_KERNEL, 777, "stuck in the kernel"),
    ],
)
def test_what_does_not_run_for_the_whole_time_is_named_though_it_is_one_thread(
    proc: FakeProc, pid: int, name: str, state: str, thread: int, way: str
) -> None:
    proc.is_in(pid, state, thread=thread)
    below = StuckBelow(ROOT)
    assert _found(proc, below) == [pid]
    assert below.look() == {pid: way}
    assert stuck.name_of(pid) == f"{name} (process {pid} on {os.uname().nodename})"


def test_what_ran_meanwhile_or_sleeps_is_left_alone(proc: FakeProc) -> None:
    proc.is_in(RECORDER, IN_KERNEL, runs=1)
    below = StuckBelow(ROOT)
    below.look()
    proc.after(NO_ANSWER_S - 1)
    proc.is_in(RECORDER, IN_KERNEL, runs=2)
    assert _found(proc, below) == [RECORDER]
    proc.is_in(RECORDER, SLEEPS)
    assert below.look() == {}


def test_what_cannot_be_ended_ends_the_launch(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append(pid))
    monkeypatch.setattr(os, "_exit", lambda code: ended.append(-code))
    watch = stuck._Watch(ROOT)
    proc.is_in(RECORDER, IN_KERNEL)
    watch._look()
    assert ended == []
    proc.after(NO_ANSWER_S)
    watch._look()
    watch._look()
    assert ended == [RECORDER, ROOT]
    assert "cannot be killed: it is stuck in the kernel. The launch ends" in capfd.readouterr().err
    proc.is_in(RECORDER, SLEEPS)
    proc.is_in(ROOT, IN_KERNEL)
    watch._look()
    proc.after(NO_ANSWER_S)
    watch._look()
    assert -ExitCode.UNFINISHED in ended, "the worker itself does not end"
