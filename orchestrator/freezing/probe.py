"""Runs steps in separate processes, to get their cuDNN plans or their time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from rich.console import Console

from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.process.client import ForkServer
from cudnn_sweep.orchestrator.process.protocol import LogJob, Reply, Request, TrialJob
from cudnn_sweep.orchestrator.running.this_machine import free_devices
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import LogPass, MeasureSpec, TrialRequest

MEASURE = MeasureSpec(
    cold_shapes=1,
    warmup_s=0.2,
    warmup_limit_s=0.5,
    steady_budget_s=0.6,
    device_budget_s=0,
    calibrate=False,
    telemetry="off",
)
MOST_SHAPES = 64


class Probe(Protocol):
    """Runs a cell in fresh processes. Raises ModelError if a process fails."""

    def of(self, trial: Trial) -> "Probe":
        """Return a probe for the cell of `trial`."""

    def log(self, config: Config) -> LogPass:
        """Return the plans of the first step at each shape."""

    def step_ms(self, config: Config) -> float:
        """Return the wall time of a step after warm-up, in milliseconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkedProbe:
    server: ForkServer
    trial: Trial
    timeout_s: float
    compute_cache: str

    def of(self, trial: Trial) -> "ForkedProbe":
        return replace(self, trial=trial)

    def log(self, config: Config) -> LogPass:
        job = LogJob(trial=self._request(config), shapes=MOST_SHAPES)
        log_pass = self._run(job, config).log_pass
        assert log_pass is not None
        if log_pass.banned_ran:
            raise SpecError(f"this PyTorch ignores errata: it ran {log_pass.banned_ran[0]}")
        return log_pass

    def step_ms(self, config: Config) -> float:
        measured = self._run(TrialJob(trial=self._request(config)), config).measured
        assert measured is not None and measured.wall.steady_wall_ms is not None
        return measured.wall.steady_wall_ms

    def _request(self, config: Config) -> TrialRequest:
        return TrialRequest(
            cell=self.trial.cell,
            config=config,
            measure=MEASURE,
            seed=self.trial.seed,
            compute_cache=self.compute_cache,
        )

    def _run(self, job: LogJob | TrialJob, config: Config) -> Reply:
        outcome = self.server.run(Request(job=job, timeout_s=self.timeout_s))
        if outcome.status != "ok" or outcome.reply is None:
            way = "on" if config.benchmark else "off"
            raise ModelError(
                f"{self.trial.cell.workload}: a process with benchmark {way} failed: {outcome.message}"
            )
        return outcome.reply


@contextmanager
def forked_probe(planned: Planned, console: Console) -> Iterator[Probe]:
    """Lock all GPUs, and yield a probe of the plan's first cell on the first GPU."""
    uuids = planned.machine.gpu_uuids
    with (
        free_devices(uuids, 0.0, console),
        TemporaryDirectory(prefix="sweep-freeze-") as folder,
        ForkServer(folder=Path.cwd(), gpu_uuids=uuids[:1], preload=planned.preload) as server,
    ):
        yield ForkedProbe(
            server=server,
            trial=planned.whole.trials[0],
            timeout_s=planned.whole.measure.timeout_s,
            compute_cache=str(Path(folder, "compute-cache")),
        )
