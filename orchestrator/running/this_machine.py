"""Runs sweeps on this machine. A local Ray has one slot for each GPU, or one slot for the CPU."""

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

# Modules that a launch needs after the survey: imported (2 s) while its process imports torch.
NEEDED_NEXT = ("duckdb", "pyarrow.parquet", "cudnn_sweep.orchestrator.slots.tune_host")
PATIENCE_S = 3.0  # until a launch prints what it waits for
LOOK_S = 10.0  # between checks of whether the device is free


class ThisMachine:
    def __init__(self, wait_s: float = 0.0, *, plans_only: bool = False) -> None:
        """Wait at most `wait_s` until sweeps and other processes leave the GPUs. If `wait_s` is
        infinite, wait only for sweeps. With `plans_only`, a needed GPU may be missing.
        """
        self._wait_s = wait_s
        self._plans_only = plans_only
        self._server: ForkServer | None = None
        """Fork server that made the last survey. None once `call` has used the server."""
        self._next: Session | None = None
        """Session that was announced last. The next call of `opened` uses it."""
        self._living = ExitStack()
        finalize(self, self._living.close)

    @classmethod
    def free(cls, console: Console, *, waits: bool, needs_gpu: bool = False) -> Self:
        """Return this machine once a device is free of sweeps. Does not import torch.

        If sweeps hold all devices and `waits` is false, raise SweepBusyError, which names a sweep.
        """
        place = cls(wait_s=math.inf if waits else 0.0)
        held = partial(_held_devices, needs_gpu=needs_gpu)
        if busy := _waited(held, time.monotonic(), place._wait_s, console):
            raise SweepBusyError(busy)
        return place

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        """Survey the machine in a child process. The caller imports no workload and uses no GPU."""
        refuses = suite.needs_cuda and not self._plans_only
        machine = self._survey(suite, needs_cuda=needs_cuda or refuses)
        if refuses and machine.environment.device != "cuda":
            raise NeedsGpuError(
                f"the suite needs CUDA (needs_cuda: true); {machine.no_cuda or 'torch finds none here'}"
            )
        chosen = gpus_asked(suite.gpus, machine)
        if chosen.gpus[:1] == machine.gpus[:1]:
            return chosen
        # the default GPU is another model: survey the requested one
        return self._survey(suite, chosen.gpu_uuids)

    def _survey(
        self, suite: SuiteSpec, gpu_uuids: Sequence[str] = (), *, needs_cuda: bool = False
    ) -> Survey:
        with ThreadPoolExecutor(1) as beside:
            # a module that cannot be imported raises again where it is used
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
        """Start the server of the session's only slot while Ray starts, as both take seconds. Add
        its address to `found`. With several slots, or servers of other software, start none.
        """
        from cudnn_sweep.orchestrator.slots.slot import OWN, server_of

        session, self._next = self._next, None
        several = len(machine.gpus) > 1
        with ExitStack() as begun:
            if session and not several and {*map(server_of, session.plan.trials)} == {OWN}:
                given = (session.folder, session.preload, machine.gpu_uuids, variables)
                with suppress(OSError):  # the slot starts its server, or reports why it cannot
                    found.append(begun.enter_context(early_server(*given)))
            yield


@contextmanager
def _warning_of_a_wait(own: str) -> Iterator[None]:
    """Warn after PATIENCE_S that the user's code is still being imported: it may hang."""
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
    """Wait while `busy` gives a reason. Print new reasons. Return the last reason if time is up."""
    limit = f"{wait_s / 60:g} minutes at most" if wait_s < math.inf else "Ctrl-C ends it"
    shown = ""
    while (reason := busy()) and time.monotonic() < began + wait_s:
        if reason != shown:
            say(console, f"Waiting, {limit}: {reason}")
        shown = reason
        time.sleep(LOOK_S)
    return reason


def _held_devices(*, needs_gpu: bool) -> str | None:
    """Return None if a visible GPU is free of sweeps, else a text that names a sweep. If no GPU is
    visible, check the CPU. In that case, return None if a GPU is needed or the machine has ROCm.
    """
    gpus = may_be_seen(os.environ.get("CUDA_VISIBLE_DEVICES"), listed_gpus())
    has_rocm = Path("/dev/kfd").exists()  # NVML does not list GPUs of ROCm
    if not gpus and (needs_gpu or has_rocm):
        return None
    held = [held_by(name) for name in [gpu.uuid for gpu in gpus] or ["cpu"]]
    return held[0] if all(held) else None


@contextmanager
def free_devices(uuids: Sequence[str], wait_s: float, console: Console) -> Iterator[None]:
    """Lock the GPUs, or the CPU if there is no GPU, while the `with` block runs. Raises
    SweepBusyError if a sweep still holds a device after `wait_s`.

    If `wait_s` is finite, also wait until no other process works on the GPUs. If such
    processes remain after `wait_s`, the `with` block runs nevertheless, and its trials are marked.
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
