"""Workloads that fail in every way a trial can, and some whose right verdict is known."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from cudnn_sweep.workloads.workload import Context, TimedStep, Workload, workload


def _touch(device: torch.device) -> None:
    torch.zeros(1, device=device)


def _meet_two_others(device: torch.device) -> None:
    """Raises unless two others of this server get ready meanwhile."""
    started = Path(tempfile.gettempdir(), f"sweep-started-{os.getppid()}")
    started.mkdir(exist_ok=True)
    (started / str(os.getpid())).touch()
    end = time.monotonic() + 20
    while len(list(started.iterdir())) < 3:
        assert time.monotonic() < end, "nobody else gets ready"
        time.sleep(0.002)


def _die_in_benchmark_mode(device: torch.device) -> None:
    if torch.backends.cudnn.benchmark:
        os.kill(os.getpid(), signal.SIGKILL)


def failing(run: Callable[[torch.Tensor], object]) -> Workload:
    def build(context: Context) -> TimedStep:
        return TimedStep(prepare=context.random, run=run)

    build.__name__ = run.__name__
    declare = workload(
        directions=("forward",),
        varies=("batch", "space"),
        input_shape=(1, 1, 100, 100),
        pay_one_time_costs=_touch,
    )
    return declare(build)


small = workload(directions=("forward",), input_shape=(1, 1), pay_one_time_costs=_touch)


@failing
def fine(numbers: torch.Tensor) -> None:
    """Does nothing, well."""


@workload(directions=("forward",), input_shape=(1, 1, 9, 9), pay_one_time_costs=_meet_two_others)
def gets_ready_with_two_others(context: Context) -> TimedStep:
    return TimedStep(prepare=context.random, run=lambda _: None)


@workload(
    directions=("forward",), input_shape=(1, 1, 9, 9), pay_one_time_costs=_die_in_benchmark_mode
)
def dies_while_it_gets_ready(context: Context) -> TimedStep:
    return TimedStep(prepare=context.random, run=lambda _: None)


@failing
def says_half_a_character(numbers: torch.Tensor) -> None:
    raise RuntimeError("half \ud800 of it")


class HasNoText(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


@failing
def raises_what_has_no_text(numbers: torch.Tensor) -> None:
    raise HasNoText


@failing
def says_too_much(numbers: torch.Tensor) -> None:
    raise RuntimeError("x" * 5_000_000)


@failing
def answers_for_its_server(numbers: torch.Tensor) -> None:
    """To whatever it finds open."""
    for number in range(3, 64):
        try:
            os.write(number, b'{"status": "ok", "message": "forged"}\n')
        except OSError:
            continue
    raise ValueError("wrote all over")


@failing
def writes_to_its_reply(numbers: torch.Tensor) -> None:
    for number in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith("pipe:"):
                os.write(number, b"hello\n")
        except OSError:
            continue
    time.sleep(30)  # as long as it goes on, it is ended for that


@failing
def raises(numbers: torch.Tensor) -> None:
    raise ValueError("the user's step is wrong")


@failing
def prints_much_and_raises(numbers: torch.Tensor) -> None:
    print("y" * 5000, "\x1b[31m \xe9 </script> last words")
    sys.stderr.close()
    raise ValueError("and then it is wrong")


@workload(directions=("forward",), input_shape=(1, 1, 100, 100))
def is_never_built(context: Context) -> TimedStep:
    raise ValueError("the user's build is wrong")


@failing
def is_killed(numbers: torch.Tensor) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@failing
def kills_its_server(numbers: torch.Tensor) -> None:
    """In benchmark mode."""
    if torch.backends.cudnn.benchmark:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(30)


@failing
def segfaults(numbers: torch.Tensor) -> None:
    print("last words", flush=True)
    ctypes.string_at(0)


@failing
def allocates_too_much(numbers: torch.Tensor) -> None:
    torch.ones(2**32)  # 16 GiB, which the test's limit does not allow


@failing
def hangs(numbers: torch.Tensor) -> None:
    """Leaves a descendant behind that has a session of its own, and waits for ever."""
    subprocess.Popen(["sleep", "1234.5"], start_new_session=True)
    time.sleep(3600)


@failing
def leaves_a_descendant(numbers: torch.Tensor) -> None:
    subprocess.Popen(["sleep", "1234.5"], start_new_session=True)


@failing
def slower_with_benchmark(numbers: torch.Tensor) -> None:
    """20% slower where benchmark mode is on."""
    time.sleep(0.024 if torch.backends.cudnn.benchmark else 0.02)


@failing
def takes_a_while(numbers: torch.Tensor) -> None:
    time.sleep(0.05)


@failing
def wants_backward_in_its_own_thread(numbers: torch.Tensor) -> None:
    weight = torch.ones(1, requires_grad=True)
    threads: list[int] = []
    weight.register_hook(lambda _: threads.append(threading.get_ident()))
    (weight * 2).backward()
    assert threads == [threading.get_ident()], "of the CPU's it is so in any case"
    assert not torch._C._is_multithreading_enabled(), (
        "a GPU's backward pass has a thread of its own"
    )


def _in_turn(function: str) -> bool:
    return function in [frame.f_code.co_name for frame, _ in traceback.walk_stack(None)]


def _when_timed() -> bool:
    """In benchmark mode alone, in a turn whose time counts."""
    return torch.backends.cudnn.benchmark and _in_turn("_time_group")


@failing
def is_killed_when_timed(numbers: torch.Tensor) -> None:
    _spin(0.001)
    if _when_timed():
        os.kill(os.getpid(), signal.SIGKILL)


@failing
def hangs_when_timed(numbers: torch.Tensor) -> None:
    _spin(0.001)
    if _when_timed():
        time.sleep(3600)


@failing
def counts_its_cpus(numbers: torch.Tensor) -> None:
    """One where its time counts, and before that all."""
    every = len(os.sched_getaffinity(os.getppid()))
    expected = 1 if _in_turn("_time_group") else every
    if not _in_turn("_warm_up"):
        assert len(os.sched_getaffinity(0)) == expected


@failing
def finds_no_memory_once(numbers: torch.Tensor) -> None:
    """In benchmark mode, the first of a server's processes."""
    mark = Path(tempfile.gettempdir(), f"sweep-found-no-memory-{os.getppid()}")
    if _when_timed() and not mark.exists():
        mark.touch()
        raise torch.OutOfMemoryError("somebody has it all")


@small
def has_a_thread(context: Context) -> TimedStep:
    pool = ThreadPoolExecutor(1)
    return TimedStep(prepare=context.random, run=lambda _: pool.submit(_spin, 0.001).result())


@small
def has_a_process(context: Context) -> TimedStep:
    subprocess.Popen(["sleep", "1234.5"])
    return TimedStep(prepare=context.random, run=lambda _: _spin(0.001))


_seen: set[tuple[int, ...]] = set()


@failing
def searches_for_new_shapes(numbers: torch.Tensor) -> None:
    """Each shape never seen costs 100 ms where benchmark mode is on, and 50 ms where it is off."""
    shape = tuple(numbers.shape)
    if shape not in _seen:
        _seen.add(shape)
        time.sleep(0.1 if torch.backends.cudnn.benchmark else 0.05)


@failing
def allocates_too_much_of_the_gpu(numbers: torch.Tensor) -> None:
    torch.empty(2**44, device=numbers.device)  # 64 TiB


@failing
def asserts_on_the_gpu(numbers: torch.Tensor) -> None:
    """An index out of range poisons the process's CUDA context."""
    numbers.flatten()[torch.full((1,), 10**6, device=numbers.device)]


def _dies(numbers: torch.Tensor) -> dict[str, torch.Tensor]:
    ctypes.string_at(0)
    return {}


def _refuses(numbers: torch.Tensor) -> dict[str, torch.Tensor]:
    raise ValueError("nothing to see")


@small
def dies_in_the_checks(context: Context) -> TimedStep:
    return TimedStep(prepare=context.random, run=lambda _: None, examine=_dies)


@small
def refuses_the_checks(context: Context) -> TimedStep:
    return TimedStep(prepare=context.random, run=lambda _: None, examine=_refuses)


@workload(directions=("training",), input_shape=(1, 1), pay_one_time_costs=_touch)
def diverges(context: Context) -> TimedStep:
    return TimedStep(prepare=context.random, run=lambda _: torch.tensor(float("inf")))


def _spin(seconds: float) -> None:
    """Sleeping is less exact."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
