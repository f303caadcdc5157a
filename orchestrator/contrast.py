"""Contrast: two configs that differ in one field, the baseline first, as verdicts compare them."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import permutations

from cudnn_sweep.analysis.store import Store
from cudnn_sweep.analysis.verdicts import BreakEven, Verdict, break_evens, verdicts
from cudnn_sweep.workloads.config import CudnnConfig

DEFAULT = CudnnConfig()


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """A field and two of its values, as text the way SQL writes them."""

    field: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        return f"{self.field}: {self.baseline} → {self.candidate}"


def contrasts_of(configs: Iterable[CudnnConfig]) -> tuple[Contrast, ...]:
    """Every pair that differs in one field; the baseline has PyTorch's default there, or came first."""
    found: dict[Contrast, None] = {}
    for first, second in permutations(dict.fromkeys(configs), 2):
        different = [name for name in _names() if getattr(first, name) != getattr(second, name)]
        if len(different) != 1:
            continue
        name = different[0]
        one, other = _text(first, name), _text(second, name)
        backwards = Contrast(field=name, baseline=other, candidate=one)
        if backwards not in found and _text(DEFAULT, name) != other:
            found[Contrast(field=name, baseline=one, candidate=other)] = None
    return tuple(found)


def verdicts_of(store: Store, sweep_id: str, contrasts: Iterable[Contrast]) -> list[Verdict]:
    return [
        verdict
        for contrast in contrasts
        for verdict in verdicts(
            store,
            sweep_id,
            field=contrast.field,
            baseline=contrast.baseline,
            candidate=contrast.candidate,
        )
    ]


def break_evens_of(store: Store, sweep_id: str, contrasts: Iterable[Contrast]) -> list[BreakEven]:
    return [
        row
        for contrast in contrasts
        for row in break_evens(
            store,
            sweep_id,
            field=contrast.field,
            baseline=contrast.baseline,
            candidate=contrast.candidate,
        )
    ]


def _names() -> list[str]:
    return [field.name for field in fields(CudnnConfig)]


def _text(config: CudnnConfig, name: str) -> str:
    value = getattr(config, name)
    return "null" if value is None else str(value).lower()
