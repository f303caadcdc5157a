"""What a fake machine is to measure, night by night: the file that `sweep nightly --fake` takes.

    gpu: NVIDIA H200
    noise: {night: 0.01, process: 0.01}
    installed:
      - {from: 2026-11-01, torch: 2.11.0, driver: "580.1"}
      - {from: 2026-11-15, torch: 2.12.0}
    effects:
      - {where: {problem: tutorials/rgb256}, from: 2026-11-15, cause: software, time: 1.08}

Where and when an effect applies, it multiplies what would be measured, or ends the trial otherwise.
"""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeFloat, PositiveFloat

from cudnn_sweep.orchestrator.planning.plan import Trial
from cudnn_sweep.workloads.strict import STRICT
from cudnn_sweep.workloads.warnings import WarningName

Day = Annotated[date, BeforeValidator(lambda text: date.fromisoformat(str(text)))]
EVER = date.min


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
