"""What the fixtures that make things take and return, as types."""

from collections.abc import Callable
from typing import TypeAlias

from cudnn_sweep.analysis.store.schema import RunRecord
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.process.protocol import Outcome
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.survey import Survey
from tests.analysis.conftest import Ask as Ask  # noqa: PLC0414

Need: TypeAlias = Callable[[bool, str], None]
Look: TypeAlias = Callable[[SuiteSpec], Survey]
"""What planning asks of this machine."""
MakePlan: TypeAlias = Callable[..., Plan]
"""A plan of these workloads' cells: `plan_of` in tests/orchestrator/conftest.py says how."""
RunTrial: TypeAlias = Callable[..., Outcome]
RecordOf: TypeAlias = Callable[..., RunRecord]
"""A trial's record as if it had run."""
