"""ShapeRegime: a rule by which input shapes arrive. `regimes/` has the bundled rules."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from math import ceil
from typing import ClassVar, Literal, get_args

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.parameters import check_limits, number
from cudnn_sweep.workloads.problem import Shape

Varies = Literal["nothing", "batch", "space", "batch and space"]
BUNDLED = f"{__package__}.regimes"
VARIES: tuple[Varies, ...] = get_args(Varies)


@dataclass(frozen=True, kw_only=True)
class ShapeRegime(ABC):
    """A rule by which input shapes arrive. Its parameters are numeric dataclass fields."""

    name: ClassVar[str] = ""
    """Name of the rule: the file's name for a bundled rule, the class's name for a user's."""
    varies: ClassVar[Varies]
    """Which sizes of the input change."""

    def __init_subclass__(cls) -> None:
        folder, _, file = cls.__module__.rpartition(".")
        cls.name = vars(cls).get("name") or (file if folder == BUNDLED else cls.__name__)

    def __post_init__(self) -> None:
        check_limits(f"regime {self.name}", self)

    @abstractmethod
    def period(self, base: Shape) -> tuple[Shape, ...] | None:
        """Return the shapes of one period, in order. Return None if new shapes keep arriving.

        Raises WorkloadError if the rule does not fit the shape `base`.
        """

    def stream(self, base: Shape) -> Iterator[Shape]:
        """Yield the shapes in order of arrival, without end."""
        period = self.period(base)
        assert period is not None, f"{self.name}: `period` returned None, so define `stream`"
        return cycle(period)

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name, without a `multiple` of 1."""
        values = asdict(self)
        if values.get("multiple") == 1:
            del values["multiple"]
        return {name: float(value) for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class SpatialRegime(ShapeRegime):
    """A rule that varies spatial sizes."""

    varies = "space"

    multiple: int = number(1, least=1)
    """Every size is a multiple of this number. A network that halves sizes five times needs 32."""

    def stepped(self, base: Shape, step: int, steps: Iterable[int]) -> list[Shape]:
        """Return a shape for each n in `steps`: `base` with sides shortened by n times `step`.

        Sides are multiples of `multiple`. Raises WorkloadError if a side would be too short.
        """
        wide, counts = ceil(step / self.multiple) * self.multiple, list(steps)
        if min(map(self.rounded, base[2:]), default=0) - wide * max(counts) < self.multiple:
            raise WorkloadError(
                f"regime {self.name}: {len(counts)} sizes in steps of {wide} do not fit below "
                f"{base[2:]}"
            )
        return [
            (*base[:2], *(self.rounded(size) - wide * count for size in base[2:]))
            for count in counts
        ]

    def rounded(self, size: float) -> int:
        """Round `size` down to a multiple of `multiple`. The result is never 0."""
        return max(1, int(size) // self.multiple) * self.multiple
