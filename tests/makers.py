"""What the fixtures that make things take and return, as types."""

from typing import Any, Protocol

from cudnn_sweep.analysis.storing.schema import RunRecord
from cudnn_sweep.orchestrator.planning.plan import Plan, Trial
from cudnn_sweep.orchestrator.planning.session import Session
from cudnn_sweep.orchestrator.process.protocol import Outcome, Status
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.hardware.environment import Environment
from cudnn_sweep.workloads.survey import Survey
from tests.analysis.conftest import Ask as Ask  # noqa: PLC0414


class Need(Protocol):
    def __call__(self, there: bool, what: str, /) -> None: ...


class MakeRecord(Protocol):
    def __call__(self, **columns: object) -> RunRecord: ...


class Look(Protocol):
    """What planning asks of this machine."""

    def __call__(self, suite: SuiteSpec, /) -> Survey: ...


class MakePlan(Protocol):
    """A plan of these workloads' cells; `axes` as a suite's cell has them."""

    def __call__(
        self,
        *workloads: str,
        replicates: int = ...,
        measure: MeasureSpec = ...,
        configs: tuple[CudnnConfig, ...] = ...,
        **axes: object,
    ) -> Plan: ...


class RunTrial(Protocol):
    def __call__(
        self,
        workload: str,
        *,
        config: CudnnConfig | None = None,
        measure: MeasureSpec = ...,
        **axes: Any,
    ) -> Outcome: ...


class RecordOf(Protocol):
    """A trial's record as if it had run."""

    def __call__(
        self,
        session: Session,
        trial: Trial,
        *,
        status: Status = "ok",
        slot: str = ...,
        where: Environment = ...,
    ) -> RunRecord: ...
