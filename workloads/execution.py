"""Ways to run a step: as written, compiled by torch.compile, or replayed from a CUDA graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    compiled: Mapping[str, Any] | None = None
    """Keyword arguments of torch.compile. None if the model is not compiled."""
    makes_graphs: bool = False
    """Whether the compiler makes CUDA graphs of parts of the step."""
    captured: bool = False
    """Whether the whole step is replayed from a CUDA graph."""

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
ExecutionName = Literal["eager", "compile", "reduce_overhead", "max_autotune", "cuda_graph"]
