"""What a gate could have found, from its scatter and its budget."""

from types import SimpleNamespace
from typing import Any

import pytest

from cudnn_sweep.orchestrator.gating.gate import _power, power
from cudnn_sweep.orchestrator.steps.one_step import UNTIL


class Asked:
    """A database that answers one look after all blocks, and keeps what it was given."""

    def __init__(self) -> None:
        self.values: list[dict[str, int]] = []

    def query(self, _: str, values: dict[str, int]) -> "Asked":
        self.values.append(values)
        return self

    def to_pylist(self) -> list[dict[str, float]]:
        return [{"blocks": self.values[-1]["most"], "quantile": 2.0}]


def asked(
    *, block_s: float | None, blocks: int = 4, prior: float | None = 0.003, budget_s: float = 100.0
) -> dict[str, int]:
    database: Any = Asked()
    options: Any = SimpleNamespace(min_effect=0.02)
    pairs: Any = [SimpleNamespace(kind=None, prior=prior, scatter=0.01)]
    row: Any = SimpleNamespace(blocks=blocks, block_s=block_s)
    rate, least = _power(database, options, pairs, row, budget_s)
    assert rate is not None and least is not None and least > 0.02
    (values,) = database.values
    found: dict[str, int] = values
    return found


def test_blocks_are_those_that_the_budget_allows() -> None:
    assert asked(block_s=10.0) == {"most": 10, "lacks": 0}
    assert asked(block_s=50.0) == {"most": 4, "lacks": 0}, "as many as were measured"
    assert asked(block_s=None) == {"most": 4, "lacks": 0}
    assert asked(block_s=0.1) == {"most": UNTIL.at_most, "lacks": 0}
    assert asked(block_s=10.0, prior=None) == {"most": 10, "lacks": 1}


def test_without_pairs_of_base_and_head_nothing_is_known() -> None:
    database: Any = Asked()
    options: Any = SimpleNamespace(min_effect=0.02)
    row: Any = SimpleNamespace(blocks=4, block_s=1.0)
    twins: Any = [SimpleNamespace(kind="twin", prior=None, scatter=0.01)]
    pairs: Any = [SimpleNamespace(kind=None, prior=None, scatter=0.01)]
    for given, of in (([], row), (twins, row), (pairs, None)):
        assert _power(database, options, given, of, 100.0) == (None, None)
    assert not database.values


def test_the_least_slowdown_found_follows_from_scatter_looks_and_threshold() -> None:
    rate, least = power(0.0, None, 0.02, {4: 2.0})
    assert rate == 0 and least == pytest.approx(0.02)
    _, few = power(0.01, None, 0.02, {4: 3.0})
    _, more = power(0.01, None, 0.02, {4: 3.0, 16: 2.0})
    assert 0.02 < more < few
    _, prior = power(0.01, 0.05, 0.02, {4: 3.0})
    assert prior > few
    alarms, _ = power(0.01, None, 0.0, {4: 0.0})
    assert alarms == pytest.approx(0.5, abs=0.03)
