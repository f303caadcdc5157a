"""Runs sweeps on the GPUs of this machine, or on its CPU."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from threading import Timer
from typing import Self
from weakref import finalize

from rich.console import Console

from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.orchestrator.doctor.checks import Check, others_on
from cudnn_sweep.orchestrator.errors import NeedsGpuError, SweepBusyError
from cudnn_sweep.orchestrator.gpus.choice import gpus_asked
from cudnn_sweep.orchestrator.locks.sweep_lock import held_by, measuring_lock
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.client import (
    SURVEY_TIMEOUT_S,
    Early,
    ForkServer,
    call_models,
    early_server,
    own_code,
    survey,
    survey_of,
)
from cudnn_sweep.orchestrator.recording.recorder import Progress
from cudnn_sweep.orchestrator.running.run_sweep import RunSession
from cudnn_sweep.orchestrator.terminal.display import watch
from cudnn_sweep.orchestrator.terminal.say import console_here, say, warn
from cudnn_sweep.workloads.cells.measurement import TrialRequest
from cudnn_sweep.workloads.cells.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.hardware.listed_gpus import listed_gpus, may_be_seen
from cudnn_sweep.workloads.survey import Survey

# Modules that a launch needs after the survey. They are imported during the survey to save 2 s.
NEEDED_NEXT = ("duckdb", "pyarrow.parquet", "cudnn_sweep.orchestrator.slots.tune_host")
PATIENCE_S = 3.0  # seconds until a launch prints what it waits for
LOOK_S = 10.0  # seconds between checks of whether the device is free


class ThisMachine:
    def __init__(self, wait_s: float = 0.0, *, plans_only: bool = False) -> None:
        """`wait_s` is the longest time to wait for free GPUs, in seconds.

        With `plans_only`, a suite that needs a GPU can be planned without one.
        """
        self._wait_s = wait_s
        self._plans_only = plans_only
        self._server: ForkServer | None = None
        """Fork server of the last survey, or None if it is no longer needed."""
        self._next: Session | None = None
        """Session that was announced last."""
        self._living = ExitStack()
        finalize(self, self._living.close)

    @classmethod
    def free(cls, console: Console, *, waits: bool, needs_gpu: bool = False) -> Self:
        """Return this machine once a device is free. Does not import torch.

        Raises SweepBusyError if sweeps use all devices and `waits` is false.
        """
        place = cls(wait_s=math.inf if waits else 0.0)
        held = partial(_held_devices, needs_gpu=needs_gpu)
        if busy := _waited(held, time.monotonic(), place._wait_s, console):
            raise SweepBusyError(busy)
        return place

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        """Survey the machine in a child process. Raises NeedsGpuError if a needed GPU is absent."""
        refuses = suite.needs_cuda and not self._plans_only
        machine = self._survey(suite, needs_cuda=needs_cuda or refuses)
        if refuses and machine.environment.device != "cuda":
            why = machine.no_cuda or "torch finds none here"
            raise NeedsGpuError(f"the suite needs CUDA (needs_cuda: true); {why}")
        chosen = gpus_asked(suite.gpus, machine)
        if chosen.gpus[:1] == machine.gpus[:1]:
            return chosen
        # survey again, because the requested GPU is not the default one
        return self._survey(suite, chosen.gpu_uuids)

    def _survey(
        self, suite: SuiteSpec, gpu_uuids: Sequence[str] = (), *, needs_cuda: bool = False
    ) -> Survey:
        with ThreadPoolExecutor(1) as beside:
            # errors appear again where the module is used
            beside.submit(lambda: [import_module(name) for name in NEEDED_NEXT])
            self._living.close()
            server = ForkServer(survey_only=True, gpu_uuids=gpu_uuids)
            self._server = self._living.enter_context(server)
            names = workload_names(suite)
            with _warning_of_a_wait(own_code(names)):
                return survey(self._server, names, needs_cuda=needs_cuda)

    def call(self, trials: Sequence[TrialRequest], machine: Survey, console: Console) -> None:
        server, self._server = self._server, None
        with self._living:
            if trials and server is not None:
                with free_devices(machine.gpu_uuids, self._wait_s, console):
                    for text, is_warning in call_models(server, trials):
                        (warn if is_warning else say)(console, text)

    def announce(self, session: Session, reason: str, console: Console) -> None:
        self._next = session
        say(console, f"Sweep {session.sweep_id} ({reason})")

    def last_good(self, python: Path) -> Environment:
        return survey_of(python, []).environment

    def checks(self, results: str) -> Iterator[Check]:
        from cudnn_sweep.orchestrator.doctor.examine import examine

        yield from examine(results, 0.0, quick=True)

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        from cudnn_sweep.cluster.local.local_ray import local_ray

        self._living.close()
        gpus = len(machine.gpus)
        say(console, "Preparing Ray and the processes that measure.")
        early: list[Early] = []
        beside = partial(self._early_server, machine, early)
        with (
            free_devices(machine.gpu_uuids, self._wait_s, console),
            local_ray(
                slots=max(1, gpus), gpus=gpus, gpu_uuids=machine.gpu_uuids, beside=beside
            ) as ray_folder,
        ):
            from cudnn_sweep.orchestrator.slots.slot import ForkedSlot
            from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots

            def run(session: Session, budget_s: float | None, /) -> Progress:
                ranks = max(trial.cell.rank_count for trial in session.plan.trials)
                slots = Slots(count=max(1, gpus // ranks), gpu=gpus > 0, ranks=ranks)
                before = session.own.without({trial.trial_id for trial in session.plan.trials})
                host = Host(session, results=store.location, slots=slots)
                try:
                    with watch(
                        console,
                        session.plan,
                        host.progress,
                        lambda: Verdict.of_each(store, session.sweep_id, session.contrasts),
                        budget_s,
                        len(before.trials),
                    ):
                        make_slot = partial(ForkedSlot.open, early=next(iter(early), None))
                        host.run(Path(mkdtemp(dir=ray_folder)), budget_s, make_slot)
                    host.recorder.launch_ended.remote()  # the recorder handles it before `finish`
                finally:
                    progress = host.finish(session.fallback_folders())
                return progress

            yield run

    @contextmanager
    def _early_server(
        self, machine: Survey, found: list[Early], variables: Mapping[str, str]
    ) -> Iterator[None]:
        """Start the fork server of the only slot while Ray starts, and add its address to `found`.

        Do nothing if the session has several slots or needs other software.
        """
        from cudnn_sweep.orchestrator.slots.slot import OWN, server_of

        session, self._next = self._next, None
        several = len(machine.gpus) > 1
        with ExitStack() as begun:
            if session and not several and {*map(server_of, session.plan.trials)} == {OWN}:
                given = (session.folder, session.preload, machine.gpu_uuids, variables)
                with suppress(OSError):  # the slot then starts its own server
                    found.append(begun.enter_context(early_server(*given)))
            yield


@contextmanager
def _warning_of_a_wait(own: str) -> Iterator[None]:
    """Print a warning if the user's code is not imported within PATIENCE_S seconds."""
    text = f"Still importing {own}, for {SURVEY_TIMEOUT_S:g} s at most."
    timer = Timer(PATIENCE_S, warn, (console_here(stderr=True), text))
    if own:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _waited(
    busy: Callable[[], str | None], began: float, wait_s: float, console: Console
) -> str | None:
    """Wait until `busy` returns None. Return the last reason if the time is up."""
    limit = f"{wait_s / 60:g} minutes at most" if wait_s < math.inf else "Ctrl-C ends it"
    shown = ""
    while (reason := busy()) and time.monotonic() < began + wait_s:
        if reason != shown:
            say(console, f"Waiting, {limit}: {reason}")
        shown = reason
        time.sleep(LOOK_S)
    return reason


def _held_devices(*, needs_gpu: bool) -> str | None:
    """Return a message if sweeps use all GPUs, or the CPU if no GPU is needed or present."""
    gpus = may_be_seen(os.environ.get("CUDA_VISIBLE_DEVICES"), listed_gpus())
    has_rocm = Path("/dev/kfd").exists()  # NVML does not list GPUs of ROCm
    if not gpus and (needs_gpu or has_rocm):
        return None
    held = [held_by(name) for name in [gpu.uuid for gpu in gpus] or ["cpu"]]
    return held[0] if all(held) else None


@contextmanager
def free_devices(uuids: Sequence[str], wait_s: float, console: Console) -> Iterator[None]:
    """Lock the GPUs, or the CPU if there is no GPU, while the `with` block runs.

    Raises SweepBusyError if another sweep still uses a device after `wait_s` seconds.
    """
    began = time.monotonic()
    with ExitStack() as held:

        def held_by_a_sweep() -> str | None:
            try:
                held.enter_context(measuring_lock(list(uuids) or ["cpu"]))
            except SweepBusyError as error:
                return str(error)
            return None

        def used_by_others() -> str | None:
            busy = (f"other processes work on {u}: {n}" for u in uuids if (n := others_on(u)))
            return next(busy, None)

        if busy := _waited(held_by_a_sweep, began, wait_s, console):
            raise SweepBusyError(busy)
        if 0 < wait_s < math.inf:
            _waited(used_by_others, began, wait_s, console)
        yield
