"""Waiting for devices that others work on, by a clock of its own."""

import io
import math
import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from cudnn_sweep.orchestrator.errors import SweepBusyError
from cudnn_sweep.orchestrator.locks import sweep_lock as locks
from cudnn_sweep.orchestrator.locks.sweep_lock import measuring_lock
from cudnn_sweep.orchestrator.running import this_machine as waiting
from cudnn_sweep.orchestrator.running.this_machine import LOOK_S, ThisMachine, free_devices
from cudnn_sweep.workloads.hardware.listed_gpus import ListedGpu

GPU = ["GPU-1"]


class Clock:
    """Each pause ends at once, and is followed by what happens then."""

    def __init__(self, then: Callable[[int], None]) -> None:
        self.pauses = 0
        self._then = then

    def monotonic(self) -> float:
        return self.pauses * LOOK_S

    def sleep(self, seconds: float) -> None:
        assert seconds == LOOK_S
        self.pauses += 1
        self._then(self.pauses)


MakeClock = Callable[..., Clock]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeClock:
    def make(then: Callable[[int], None] = lambda _: None) -> Clock:
        made = Clock(then)
        monkeypatch.setattr(waiting, "time", made)
        return made

    monkeypatch.setattr(locks, "PREFIX", f"test/{tmp_path}/")
    return make


def test_another_sweep_is_waited_for_and_named_once(clock: MakeClock) -> None:
    said = io.StringIO()
    with ExitStack() as other:
        other.enter_context(measuring_lock(GPU))
        ticks = clock(lambda pauses: other.close() if pauses == 3 else None)
        with free_devices(GPU, 60.0, Console(file=said, width=200)):
            assert ticks.pauses == 3
            with pytest.raises(SweepBusyError), measuring_lock(GPU):
                pass
    assert said.getvalue().count("Waiting, 1 minutes at most: another sweep is measuring") == 1


@pytest.mark.parametrize(("wait_s", "pauses"), [(0.0, 0), (30.0, 3)])
def test_a_sweep_that_stays_is_refused_when_the_time_is_up(
    clock: MakeClock, wait_s: float, pauses: int
) -> None:
    ticks = clock()
    refused = pytest.raises(SweepBusyError, match="another sweep is measuring on GPU-1")
    with measuring_lock(GPU), refused, free_devices(GPU, wait_s, Console(quiet=True)):
        pass
    assert ticks.pauses == pauses


@pytest.mark.parametrize(("busy_for", "wait_s", "pauses"), [(2, 60, 2), (99, 30, 3), (99, 0, 0)])
def test_other_processes_are_waited_for_and_keep_nobody_from_measuring(
    clock: MakeClock, monkeypatch: pytest.MonkeyPatch, busy_for: int, wait_s: float, pauses: int
) -> None:
    ticks = clock()
    monkeypatch.setattr(waiting, "others_on", lambda _: 2 if ticks.pauses < busy_for else 0)
    said = io.StringIO()
    with free_devices(GPU, wait_s, Console(file=said, width=200)):
        assert ticks.pauses == pauses
    assert ("other processes work on GPU-1: 2" in said.getvalue()) == bool(pauses)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        ListedGpu(
            uuid=f"GPU-{index}",
            name="NVIDIA H100",
            card=f"GPU-{index}",
            card_index=index,
            pci_address=f"00:{index}",
        )
        for index in range(2)
    ]
    monkeypatch.setattr(waiting, "listed_gpus", lambda: listed)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("visible", "held", "busy"),
    [
        (None, ["GPU-0"], None),
        (None, ["GPU-0", "GPU-1"], "GPU-0"),
        ("1", ["GPU-1"], "GPU-1"),
        ("GPU-1", ["GPU-1"], "GPU-1"),
        ("0", ["GPU-1"], None),
        ("", ["GPU-0", "GPU-1"], None),
        ("", ["cpu"], "cpu"),
    ],
)
def test_a_launch_is_refused_at_once_if_no_device_that_it_may_see_is_free(
    clock: MakeClock,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    held: list[str],
    busy: str | None,
) -> None:
    clock()
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    told = f"another sweep is measuring on {busy}: process {os.getpid()} of "
    refused = nullcontext() if busy is None else pytest.raises(SweepBusyError, match=told)
    with measuring_lock(held), refused:
        ThisMachine.free(Console(quiet=True), waits=False)


def test_it_waits_without_end_and_says_so_in_one_line(
    clock: MakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "listed_gpus", list)
    said = io.StringIO()
    with ExitStack() as other:
        other.enter_context(measuring_lock(["cpu"]))
        ticks = clock(lambda pauses: other.close() if pauses == 500 else None)
        ThisMachine.free(Console(file=said, width=200), waits=True)
    assert ticks.pauses == 500
    (line,) = said.getvalue().splitlines()
    assert line.startswith("Waiting, Ctrl-C ends it: another sweep is measuring on cpu: process")


def test_a_command_that_needs_a_gpu_waits_for_no_cpu(
    clock: MakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "listed_gpus", list)
    clock()
    with measuring_lock(["cpu"]):
        ThisMachine.free(Console(quiet=True), waits=False, needs_gpu=True)


def test_waiting_without_end_is_for_sweeps_alone(
    clock: MakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A desktop's own process on its GPU never ends."""
    ticks = clock()
    monkeypatch.setattr(waiting, "others_on", lambda _: 2)
    with free_devices(GPU, math.inf, Console(quiet=True)):
        assert not ticks.pauses
