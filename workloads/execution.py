"""Execution: how a step runs: as written, with its model compiled, or as a CUDA graph of the whole step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from cudnn_sweep.workloads.errors import unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """One way to run a step."""

    compiled: Mapping[str, Any] | None = None
    """Keyword arguments of torch.compile, which gets the model; None: the model runs as written."""
    makes_graphs: bool = False
    """Whether the compiler itself replays CUDA graphs of parts of the step."""
    captured: bool = False
    """Whether the whole step is replayed from one CUDA graph a shape."""

    @property
    def compiles(self) -> bool:
        return self.compiled is not None

    @property
    def needs_cuda(self) -> bool:
        return self.makes_graphs or self.captured


EAGER = "eager"
EXECUTIONS = {
    EAGER: Execution(),
    "compile": Execution(compiled={}),
    "reduce_overhead": Execution(compiled={"mode": "reduce-overhead"}, makes_graphs=True),
    "max_autotune": Execution(compiled={"mode": "max-autotune"}, makes_graphs=True),
    "cuda_graph": Execution(captured=True),
}
"""All executions by name. A further one is an entry here."""


def check_execution(name: str) -> str:
    """Return `name`. Raises ValueError with the executions if it is none."""
    if name not in EXECUTIONS:
        raise ValueError(str(unknown("execution", name, list(EXECUTIONS))))
    return name


ExecutionName = Annotated[
    str,
    AfterValidator(check_execution),
    WithJsonSchema({"enum": list(EXECUTIONS), "type": "string"}),
]
