"""What a trial of the fake machine yields: made-up numbers, the same for the same script and trial."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np

from cudnn_sweep.analysis.nightly.beside import LAUNCH_BOUND
from cudnn_sweep.orchestrator.nightly.fake.script import FakeEffect, FakeScript
from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.orchestrator.process.protocol import Reply, Status
from cudnn_sweep.workloads.cells.measurement import (
    Calibration,
    Choice,
    ColdCall,
    Computed,
    GpuTelemetry,
    KernelLaunch,
    Measurement,
    MemoryUse,
    SteadyDevice,
    SteadyWall,
)
from cudnn_sweep.workloads.hashes import content_hash

MIB = 2**20
SEARCH_RATIOS = (0.7, 1.0, 1.3)  # of benchmark on to off: it helps, is equal, or hurts
COLD_TIMES = {"empty": 200.0, "warm": 20.0}  # first call to an iteration


@dataclass(frozen=True, kw_only=True)
class FakeTrial:
    """One trial in one night of a script."""

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

    @property
    def failure(self) -> Status | None:
        return next((effect.status for effect in self.effects if effect.status), None)

    def reply(self) -> Reply:
        usual_ms, state = self._usual_ms(), self._compute_cache()
        time_ms = usual_ms * self._planted_time()
        wall_ms = time_ms * _product(each.wall for each in self.effects)
        device_ms = 0.95 * time_ms * _product(each.device for each in self.effects)
        kernel = self._kernel()
        launch = KernelLaunch(
            name=kernel,
            operation="aten::cudnn_convolution",
            kind="convolution",
            grid=[1, 1, 1],
            block=[384, 1, 1],
            shared_bytes=0,
        )
        cold_ms = COLD_TIMES[state] * usual_ms * _product(each.cold for each in self.effects)
        peak = int(self._memory() * _product(each.memory for each in self.effects))
        measured = Measurement(
            config=self.trial.config,
            threads=1,
            compute_cache=state,
            loop_kind="closed",
            cold=[_cold_call(self.trial.cell.input_shape, cold_ms)],
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
            computed=Computed(
                relative_l2_error=3e-4 * _product(each.error for each in self.effects)
            ),
            telemetry=GpuTelemetry(
                telemetry="fake", warnings=[each.warning for each in self.effects if each.warning]
            ),
        )
        return Reply(measured=measured)

    def _usual_ms(self) -> float:
        cell, config = self.trial.cell.cell_id, self.trial.config
        typical_ms = math.exp(self._draw("cell", cell))
        if config.benchmark:
            typical_ms *= SEARCH_RATIOS[int(content_hash(cell), 16) % len(SEARCH_RATIOS)]
        noise = self.script.noise
        of_night = noise.night * self._draw("night", cell, str(self.night))
        of_process = noise.process * self._draw("process", self.sweep_id, self.trial.trial_id)
        return typical_ms * math.exp(of_night + of_process)

    def _planted_time(self) -> float:
        return _product(
            each.time * each.a_night ** (self.night - each.first).days for each in self.effects
        )

    def _memory(self) -> float:
        return 256 * MIB * math.exp(self._draw("memory", self.trial.cell.cell_id))

    def _kernel(self) -> str:
        chosen = (self.trial.cell.cell_id, self.trial.config.benchmark)
        other = [effect.engine for effect in self.effects if effect.engine]
        return other[-1] if other else f"fake_kernel_{content_hash(chosen)[:6]}"

    def _compute_cache(self) -> str:
        """The first of a generation finds it empty."""
        return "empty" if self.trial.replicate == self.trial.cache_generation else "warm"

    def _draw(self, *what: str) -> float:
        """A normal random number."""
        seed = int(content_hash((self.script.seed, *what)), 16)
        return float(np.random.default_rng(seed).standard_normal())


def _cold_call(shape: tuple[int, ...], first_ms: float) -> ColdCall:
    return ColdCall(
        shape=shape,
        first_ms=first_ms,
        first_forward_ms=first_ms,
        first_backward_ms=None,
        second_ms=first_ms / 10,
        second_forward_ms=first_ms / 10,
        second_backward_ms=None,
    )


def _product(factors: Iterable[float]) -> float:
    return math.prod(factors)
