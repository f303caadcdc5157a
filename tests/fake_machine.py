"""A machine that measures nothing: its trials' numbers are made up as a script says. No Ray, no process.

It runs whole plans in seconds through the same records and the same store.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeFloat, PositiveFloat
from rich.console import Console

from cudnn_sweep.analysis.nights.series import LAUNCH_BOUND
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.cluster.strict_yaml import read_strict
from cudnn_sweep.orchestrator.doctor.checks import Check, check_storage
from cudnn_sweep.orchestrator.planning.decided import standings
from cudnn_sweep.orchestrator.planning.plan import LAST_GOOD, Trial
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.protocol import Outcome, Reply
from cudnn_sweep.orchestrator.recording.record import Attempt, make_record, raced_out
from cudnn_sweep.orchestrator.recording.recorder import Progress, Recorder
from cudnn_sweep.orchestrator.running.run_sweep import RunSession
from cudnn_sweep.orchestrator.slots.next_block import BlockQueue
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.measurement import Measurement, TrialRequest
from cudnn_sweep.workloads.cells.suite import SuiteSpec, workload_names
from cudnn_sweep.workloads.hardware.environment import Environment, our_version
from cudnn_sweep.workloads.hashes import content_hash
from cudnn_sweep.workloads.records.measured import (
    Calibration,
    Choice,
    ColdShape,
    Computed,
    GpuTelemetry,
    Kernel,
    MemoryUse,
    SteadyDevice,
    SteadyWall,
)
from cudnn_sweep.workloads.strict import STRICT
from cudnn_sweep.workloads.survey import Survey, workload_facts
from cudnn_sweep.workloads.warnings import WarningName

Day = Annotated[date, BeforeValidator(lambda text: date.fromisoformat(str(text)))]
EVER = date.min
UUID = "GPU-fake"
BEGINS = time(2, 30, tzinfo=UTC)

MIB = 2**20
SEARCH_RATIOS = (0.7, 1.0, 1.3)  # of benchmark on to off: it helps, is equal, or hurts
COLD_TIMES = {"empty": 200.0, "warm": 20.0}  # first call to an iteration


class _Strict(BaseModel):
    model_config = STRICT | ConfigDict(populate_by_name=True)


class FakeNoise(_Strict):
    """Standard deviations of logarithms."""

    night: NonNegativeFloat = 0.01
    """Noise that the processes of a cell have in common in one night."""
    process: NonNegativeFloat = 0.01
    """Noise that each process has besides, of its own."""


class FakeInstalled(_Strict):
    """Software and hardware from a night on; what is not given stays as it was."""

    first: Day = Field(default=EVER, alias="from")
    torch: str | None = None
    cuda: str | None = None
    cudnn: int | None = None
    driver: str | None = None
    version: str | None = None
    power_limit_w: float | None = None
    gpu_memory_bytes: int | None = None
    gpu_uuid: str | None = None
    host: str | None = None
    cpu_model: str | None = None


class FakeEffect(_Strict):
    where: Mapping[str, str] = {}
    """Fields as `sweep launch --only` takes them; all trials where there is none."""
    first: Day = Field(default=EVER, alias="from")
    last: Day = Field(default=date.max, alias="to")
    cause: Literal["software", "hardware"] = "software"
    """Trials of the last good software have no effect that software causes."""
    time: PositiveFloat = 1.0
    a_night: PositiveFloat = 1.0
    """Time again, each night more."""
    wall: PositiveFloat = 1.0
    """Wall time alone: where it is far above 1 the loop waits for the CPU."""
    device: PositiveFloat = 1.0
    """Time on the GPU alone."""
    cold: PositiveFloat = 1.0
    memory: PositiveFloat = 1.0
    error: PositiveFloat = 1.0
    engine: str | None = None
    repeats: bool = True
    """Whether a second run gives the same bits."""
    status: Literal["error", "out_of_memory", "crash", "timeout"] | None = None
    lost: bool = False
    """The trial takes its worker along: no record comes."""
    warning: WarningName | None = None

    def applies(self, trial: Trial, night: date) -> bool:
        is_of_other_software = bool(trial.software) and self.cause == "software"
        if is_of_other_software or not self.first <= night <= self.last:
            return False
        return all(trial.has(field, value) for field, value in self.where.items())


class FakeScript(_Strict):
    seed: int = 0
    gpu: str = "NVIDIA H200"
    trial_s: PositiveFloat = 2.0
    """How long each trial takes, by the fake's own clock, which a budget goes by."""
    noise: FakeNoise = FakeNoise()
    installed: list[FakeInstalled] = []
    last_good: FakeInstalled = FakeInstalled()
    """The other software, where trials of two are interleaved."""
    effects: list[FakeEffect] = []

    def installed_at(self, night: date) -> dict[str, str | int | float]:
        found: dict[str, str | int | float] = {}
        for each in sorted(self.installed, key=lambda each: each.first):
            if each.first <= night:
                found |= each.model_dump(exclude={"first"}, exclude_none=True)
        return found


@dataclass(frozen=True, kw_only=True)
class FakeTrial:
    script: FakeScript
    trial: Trial
    night: date
    sweep_id: str

    @cached_property
    def effects(self) -> list[FakeEffect]:
        return [each for each in self.script.effects if each.applies(self.trial, self.night)]

    @property
    def is_lost(self) -> bool:
        return any(effect.lost for effect in self.effects)

    def outcome(self, began: datetime) -> Outcome:
        failure = next((effect.status for effect in self.effects if effect.status), None)
        return Outcome(
            status=failure or "ok",
            message="the script says so" if failure else None,
            reply=None if failure else self._reply(),
            started_at=began,
            ended_at=began + timedelta(seconds=self.script.trial_s),
            process_s=self.script.trial_s,
            exit_s=0.0,
            gap_s=0.0,
        )

    def _reply(self) -> Reply:
        is_first = self.trial.replicate == self.trial.cache_generation  # and finds it empty
        usual_ms, state = self._usual_ms(), "empty" if is_first else "warm"
        time_ms = usual_ms * math.prod(
            each.time * each.a_night ** (self.night - each.first).days for each in self.effects
        )
        wall_ms = time_ms * self._of_effects("wall")
        device_ms = 0.95 * time_ms * self._of_effects("device")
        kernel = self._kernel()
        launch = Kernel(
            name=kernel,
            operation="aten::cudnn_convolution",
            kind="convolution",
            grid=[1, 1, 1],
            block=[384, 1, 1],
            shared_bytes=0,
        )
        cold_ms = COLD_TIMES[state] * usual_ms * self._of_effects("cold")
        cold = ColdShape(
            shape=list(self.trial.cell.input_shape),
            first_ms=cold_ms,
            first_forward_ms=cold_ms,
            first_backward_ms=None,
            second_ms=cold_ms / 10,
            second_forward_ms=cold_ms / 10,
            second_backward_ms=None,
        )
        usual_bytes = 256 * MIB * math.exp(self._draw("memory", self.trial.cell.cell_id))
        peak = int(usual_bytes * self._of_effects("memory"))
        measured = Measurement(
            config=self.trial.config,
            threads=1,
            compute_cache=state,
            loop_kind="closed",
            cold=[cold],
            distinct_shapes=1,
            regime_shapes=1,
            memory=MemoryUse(cold_peak_reserved_bytes=peak, steady_peak_reserved_bytes=peak),
            calibration=Calibration(calibration_matmul_tflops=700.0, calibration_copy_gbps=3900.0),
            wall=SteadyWall(steady_wall_ms=wall_ms, steady_iterations=100, steady_stop="precision"),
            device=SteadyDevice(
                steady_device_source="graph",
                steady_device_ms=device_ms,
                launch_bound=wall_ms > LAUNCH_BOUND * device_ms,
            ),
            choice=Choice(
                convolutions=1,
                routes=["Cudnn"],
                kernels_source="graph",
                kernels=[launch],
                kernels_hash=content_hash(kernel),
            ),
            computed=self._computed(kernel),
            telemetry=GpuTelemetry(
                telemetry="fake", warnings=[each.warning for each in self.effects if each.warning]
            ),
        )
        return Reply(measured=measured)

    def _computed(self, kernel: str) -> Computed:
        error, repeats = self._of_effects("error"), all(each.repeats for each in self.effects)
        of_process = None if repeats else (self.sweep_id, self.trial.trial_id)
        return Computed(
            fingerprint=content_hash((self.trial.cell.cell_id, kernel, error, of_process)),
            bitwise_repeatable=repeats,
            relative_l2_error=3e-4 * error,
        )

    def _of_effects(self, factor: str) -> float:
        return float(math.prod(getattr(each, factor) for each in self.effects))

    def _usual_ms(self) -> float:
        cell, config = self.trial.cell.cell_id, self.trial.config
        typical_ms = math.exp(self._draw("cell", cell))
        if config.benchmark:
            typical_ms *= SEARCH_RATIOS[int(content_hash(cell), 16) % len(SEARCH_RATIOS)]
        noise = self.script.noise
        of_night = noise.night * self._draw("night", cell, str(self.night))
        of_process = noise.process * self._draw("process", self.sweep_id, self.trial.trial_id)
        return typical_ms * math.exp(of_night + of_process)

    def _kernel(self) -> str:
        chosen = (self.trial.cell.cell_id, self.trial.config.benchmark)
        other = [effect.engine for effect in self.effects if effect.engine]
        return other[-1] if other else f"fake_kernel_{content_hash(chosen)[:6]}"

    def _draw(self, *what: str) -> float:
        seed = int(content_hash((self.script.seed, *what)), 16)
        return float(np.random.default_rng(seed).standard_normal())


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeMachine:
    """A Place, in one night of its script."""

    script: FakeScript
    night: date

    def look(self, suite: SuiteSpec, *, needs_cuda: bool = False) -> Survey:
        return Survey(
            environment=self.environment(),
            gpus=[self.script.gpu],
            gpu_uuids=[UUID],
            workloads=workload_facts(workload_names(suite)),
        )

    def call(self, trials: Sequence[TrialRequest], machine: Survey, console: Console) -> None:
        """None of its models is run."""

    def announce(self, session: Session, reason: str, console: Console) -> None:
        say(console, f"Sweep {session.sweep_id} ({reason})")

    def last_good(self, python: Path) -> Environment:
        parts = self.script.last_good.model_dump(exclude={"first"}, exclude_none=True)
        return _with(self.environment(), parts)

    def checks(self, results: str) -> Iterator[Check]:
        yield from check_storage(results)

    @contextmanager
    def opened(self, store: Store, machine: Survey, console: Console) -> Iterator[RunSession]:
        def run(session: Session, budget_s: float | None, /) -> Progress:
            return _ran(self, session, store, budget_s)

        yield run

    def environment(self) -> Environment:
        found = Environment(
            device="cuda",
            gpu=self.script.gpu,
            gpu_uuid=UUID,
            gpu_memory_bytes=150_000_000_000,
            mig_profile=None,
            max_sm_clock_mhz=1980,
            power_limit_w=700.0,
            driver="580.1",
            cuda="13.0",
            cudnn=91900,
            torch="2.11.0",
            ray=version("ray"),
            python="3.12.3",
            os="Linux",
            host="fake",
            cpu_model="fake",
            cpu_cores=16,
            version=our_version(),
            commit=None,
        )
        return _with(found, self.script.installed_at(self.night))


def read_fake_machine(file: Path, night: date) -> FakeMachine:
    return FakeMachine(script=read_strict(file, FakeScript), night=night)


def _with(environment: Environment, parts: dict[str, str | int | float]) -> Environment:
    return replace(environment, **parts)  # type: ignore[arg-type]  # names and types are the script's


def _ran(machine: FakeMachine, session: Session, store: Store, budget_s: float | None) -> Progress:
    """One session, by the fake's own clock."""
    environments = {"": machine.environment(), LAST_GOOD: machine.last_good(Path())}
    recorder, elapsed_s = Recorder(store.location), 0.0
    loop = asyncio.Runner()
    blocks = dict(session.plan.blocks())
    asking = BlockQueue(session, lambda: standings(store, session))
    while not asking.is_over():
        block = asking.take()
        assert block is not None, "one at a time: nothing is under way"
        out = asking.raced_out(block)
        for trial in blocks[block]:
            began = datetime.combine(machine.night, BEGINS) + timedelta(seconds=elapsed_s)
            attempt = recorder.begin(trial.trial_id, UUID)
            if trial.trial_id in out:
                environment = environments[trial.software]
                loop.run(recorder.record(raced_out(session, trial, environment, UUID, began)))
                continue
            elapsed_s += machine.script.trial_s
            made_up = FakeTrial(
                script=machine.script, trial=trial, night=machine.night, sweep_id=session.sweep_id
            )
            if attempt is not None and not made_up.is_lost:
                record = make_record(
                    session,
                    trial,
                    made_up.outcome(began),
                    environments[trial.software],
                    Attempt(slot=UUID, attempt=attempt),
                )
                loop.run(recorder.record(record))
        asking.done(block)
        if budget_s is not None and elapsed_s > budget_s:
            asking.time_is_up()
    recorder.launch_ended()
    with loop:
        return loop.run(recorder.finish(session.sweep_id, session.fallback_folders()))
