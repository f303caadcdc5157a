"""This machine: one trial at a time on each GPU or on the CPU, through a Ray of its own."""

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread, Timer

from rich.console import Console

from cudnn_sweep.analysis.storing.store import Store
from cudnn_sweep.orchestrator.doctor.check import Check
from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.gpus.choice import gpus_asked
from cudnn_sweep.orchestrator.planning.contrasts import verdicts_of
from cudnn_sweep.orchestrator.planning.preload import is_installed, modules_to_preload
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.survey import SURVEY_TIMEOUT_S, own_code, survey
from cudnn_sweep.orchestrator.recording.progress import Progress
from cudnn_sweep.orchestrator.running.free_devices import free_devices
from cudnn_sweep.orchestrator.running.place import RunSession
from cudnn_sweep.orchestrator.showing.display import watch
from cudnn_sweep.orchestrator.showing.say import console_here, say, warn
from cudnn_sweep.workloads.cells.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey

# What a launch imports after the survey: 2 s, in which the survey's own process imports torch.
NEEDED_NEXT = ("duckdb", "pyarrow.parquet", "cudnn_sweep.orchestrator.slots.tune_host")
PATIENCE_S = 3.0  # without a word


class ThisMachine:
    """A NightPlace."""

    def __init__(self, wait_s: float = 0.0) -> None:
        """`wait_s`: how long somebody else's work on its GPUs is waited for."""
        self._wait_s = wait_s
        self._server: ForkServer | None = None
        """That told of this machine. What it has imported, a slot need not import again."""
        self._gpus_seen: list[str] = []

    def look(self, suite: SuiteSpec) -> Survey:
        """Ask a process of its own: planning imports no workload and touches no GPU."""
        machine = self._survey(suite)
        if suite.needs_cuda and machine.environment.device != "cuda":
            raise SpecError(
                f"the suite needs CUDA (needs_cuda: true); {machine.no_cuda or 'torch finds none here'}"
            )
        asked = gpus_asked(suite.gpus, machine)
        if asked.gpus[:1] == machine.gpus[:1]:
            return asked
        # the GPU that it told of was of another model
        return self._survey(suite, asked.gpu_uuids)

    def _survey(self, suite: SuiteSpec, gpu_uuids: Sequence[str] = ()) -> Survey:
        self._close_server()
        with _importing(NEEDED_NEXT):
            self._server = ForkServer(survey_only=True, gpu_uuids=gpu_uuids)
            weakref.finalize(self, self._server.close)
            with _telling_of_a_wait(own_code(workload_names(suite))):
                found = survey(self._server, workload_names(suite))
        self._gpus_seen = found.gpu_uuids
        return found

    def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    @contextmanager
    def _handed_over(self, machine: Survey, session: Session, path: Path) -> Iterator[Path | None]:
        """Where its server waits for a slot; None where it saw other GPUs than the one slot is to see, or is
        gone.
        """
        is_fit = self._gpus_seen == machine.gpu_uuids and len(machine.gpu_uuids) <= 1
        if self._server is None or not is_fit:
            yield None
            return
        try:
            self._server.hand_over(path, session.preload)
            yield path
        finally:
            self._close_server()

    def announce(self, session: Session, reason: str, console: Console) -> None:
        say(console, f"Sweep {session.sweep_id} ({reason})")

    def follow_running_jobs(self) -> None:
        """There are none: nothing goes on without its launch."""

    def last_good(self, python: Path) -> Environment:
        with ForkServer(python=python, survey_only=True) as server:
            return survey(server, []).environment

    def modules(self, suite: SuiteSpec, own: Iterable[str]) -> tuple[str, ...]:
        """What the user names must be there; what the suite names may be missing, as its cells may have
        been narrowed to those that do without.
        """
        named = tuple(own)
        for module in named:
            if not is_installed(module):
                raise SpecError(f"metadata.sweep.preload: {module} is not installed")
        return modules_to_preload(suite, named)

    def checks(self, results: str) -> Iterator[Check]:
        from cudnn_sweep.orchestrator.doctor.examine import DoctorOptions, examine

        yield from examine(DoctorOptions(results=results, self_test_s=0.0, quick=True))

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        from cudnn_sweep.cluster.local.local_ray import local_ray

        gpus = len(machine.gpus)
        say(console, "Preparing Ray and the processes that measure.")
        with (
            free_devices(machine.gpu_uuids, self._wait_s, console),
            local_ray(slots=max(1, gpus), gpus=gpus, gpu_uuids=machine.gpu_uuids) as ours,
        ):
            from cudnn_sweep.orchestrator.slots.slot import ForkedSlot
            from cudnn_sweep.orchestrator.slots.tune_host import Host, Slots

            def run(session: Session, budget_s: float | None, /) -> Progress:
                slots = Slots(count=max(1, gpus), gpu=gpus > 0)
                host = Host(session, results=store.location, slots=slots)
                try:
                    with (
                        self._handed_over(machine, session, ours.folder / "server") as handed,
                        watch(
                            console,
                            session.plan,
                            host.progress,
                            lambda: verdicts_of(store, session.sweep_id, session.contrasts),
                            budget_s,
                        ),
                    ):
                        folder = Path(mkdtemp(dir=ours.folder))
                        host.run(folder, budget_s, partial(ForkedSlot.open, handed=handed))
                finally:
                    progress = host.finish(session.fallback_folders())
                return progress

            yield run


@contextmanager
def _telling_of_a_wait(own: str) -> Iterator[None]:
    """What is imported of the user's code may hang."""
    text = f"Still importing {own}: it has {SURVEY_TIMEOUT_S:g} s."
    timer = Timer(PATIENCE_S, warn, (console_here(stderr=True), text))
    if own:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Import them in a thread, for the length of the block or longer. One that fails is imported again where
    it is used, and tells why there.
    """

    def work() -> None:
        with suppress(Exception):
            for module in modules:
                import_module(module)

    thread = Thread(target=work, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
