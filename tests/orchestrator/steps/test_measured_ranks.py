"""`sweep advise --measure-ranks`: one cell over so many GPUs, with benchmark off and on alone."""

import pytest

from cudnn_sweep.orchestrator.steps.one_step import suite_of
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions


@pytest.mark.parametrize(
    ("measured", "predicted", "ranks"), [(2, None, "2_ranks"), (None, 8, "1_rank")]
)
def test_measured_ranks_are_those_of_the_cell_and_predicted_ones_are_not(
    measured: int | None, predicted: int | None, ranks: str
) -> None:
    options = AdviseOptions(
        workload="nets.py:Net", input=("4x3x8x8",), measure_ranks=measured, ranks=predicted
    )
    (cell,) = suite_of(options, 2).cells
    assert cell.ranks == ranks
    assert not options.races and options.limit_minutes == 3
