"""Contrast: two configs that differ in one field, the baseline first, as verdicts compare them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import permutations

from cudnn_sweep.analysis.store import Store
from cudnn_sweep.analysis.verdicts import BreakEven, Verdict, break_evens, verdicts
from cudnn_sweep.workloads.config import CudnnConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """A field and two of its values, as text the way SQL writes them: the questions' parameters."""

    field: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        return f"{self.field}: {self.baseline} → {self.candidate}"


def contrasts_of(configs: Iterable[CudnnConfig]) -> tuple[Contrast, ...]:
    """Every pair that differs in one field; the baseline has PyTorch's default there, or came first."""
    found: dict[Contrast, None] = {}
    default = settings(CudnnConfig())
    for first, second in permutations(dict.fromkeys(configs), 2):
        one, other = settings(first), settings(second)
        different = [name for name in one if one[name] != other[name]]
        if len(different) != 1:
            continue
        (name,) = different
        backwards = Contrast(field=name, baseline=other[name], candidate=one[name])
        if backwards not in found and default[name] != other[name]:
            found[Contrast(field=name, baseline=one[name], candidate=other[name])] = None
    return tuple(found)


def verdicts_of(store: Store, sweep_id: str, contrasts: Iterable[Contrast]) -> list[Verdict]:
    return [
        verdict
        for contrast in contrasts
        for verdict in verdicts(store, sweep_id, **asdict(contrast))
    ]


def break_evens_of(store: Store, sweep_id: str, contrasts: Iterable[Contrast]) -> list[BreakEven]:
    return [
        row for contrast in contrasts for row in break_evens(store, sweep_id, **asdict(contrast))
    ]


def settings(config: CudnnConfig) -> dict[str, str]:
    """Each field as text, the way SQL writes it."""
    values = asdict(config).items()
    return {name: "null" if value is None else str(value).lower() for name, value in values}
