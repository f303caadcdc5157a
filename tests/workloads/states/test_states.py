"""Every state: what it changes, what it leaves alike, and that a whole trial survives it."""

from pathlib import Path

import pytest

from cudnn_sweep.workloads import states
from cudnn_sweep.workloads.cells.config import CudnnConfig
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_state import make_state, state_types
from tests.workloads.made_up_cells import GENERATOR, MeasureCell, one_cell

TRIALS: list[tuple[str, str, object, int]] = [  # the last number: a step's convolutions
    ("conv", "forward", "fixed", 1),
    ("conv", "forward_backward", {"cycle": {"sizes": 2, "step": 4}}, 1),
    ("mnist", "training", "fixed", 2),
    (GENERATOR, "training", "fixed", 5),
]


RECOMPUTABLE = {("conv", "forward_backward"), (GENERATOR, "training")}


SEES_THE_CACHE = """
import os
import torch
from cudnn_sweep.workloads.workload import TimedStep, workload

@workload(directions=("forward",), input_shape=(1,))
def sees_the_cache(setting):
    disabled = torch.tensor(float(os.environ.get("CUDA_CACHE_DISABLE", "0")))
    return TimedStep(prepare=setting.random, run=lambda inputs: disabled)
"""


@pytest.mark.parametrize(
    ("state", "workload", "direction", "regime", "convolutions"),
    [
        (state, *trial)
        for state in sorted(state_types())
        for trial in TRIALS
        if trial[:2] in RECOMPUTABLE or not state_types()[state].recomputes
    ],
)
def test_state_survives_a_trial(
    measured: MeasureCell,
    state: str,
    workload: str,
    direction: str,
    regime: object,
    convolutions: int,
) -> None:
    found = measured(one_cell(workload, direction=direction, regime=regime, state=state))
    assert found.loop_kind == "closed" and found.distinct_shapes == found.regime_shapes
    runs = 2 if state_types()[state].recomputes else 1
    assert found.choice.convolutions == runs * convolutions
    assert found.computed.relative_l2_error is not None
    assert found.computed.relative_l2_error < 0.1, "with other inputs it is about 1"


def test_disabled_compute_cache_is_seen_by_the_process_and_in_its_record(
    measured: MeasureCell, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(SEES_THE_CACHE)
    cell = one_cell(f"{tmp_path}/own.py:sees_the_cache", input_shape=(1,))
    for disabled, state in ((True, "disabled"), (False, "warm")):
        config = CudnnConfig(compute_cache_disabled=disabled)
        found = measured(cell, config=config, compute_cache=str(tmp_path / "cache"))
        assert found.loss_first == float(disabled)
        assert found.config == config
        assert found.compute_cache == state
        assert (found.compute_cache_entries_before, found.compute_cache_entries_added) == (0, 0)
    found = measured(cell, config=CudnnConfig(compute_cache_disabled=True))
    assert (found.loss_first, found.compute_cache) == (1.0, None), "without CUDA there is no cache"


@pytest.mark.parametrize(
    ("state", "parameters", "message"),
    [
        ("misaligned", {"offset": 4}, "offset must be 1 to 3 elements, found 4"),
        ("little_memory", {"free_mib": 0}, "free_mib must be at least 1, found 0"),
        ("second_thread", {"threads": 3}, "unknown parameter 'threads'; allowed: it takes none"),
    ],
)
def test_state_says_what_a_number_may_be(
    state: str, parameters: dict[str, float], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        make_state(state, parameters)


@pytest.mark.parametrize(
    ("workload", "direction", "message"),
    [
        ("conv", "forward", "state checkpoint needs a backward pass; direction forward has none"),
        ("conv", "backward_data", "direction backward_data has none"),
        ("mnist", "training", "runs the forward pass again; workload mnist cannot do that"),
    ],
)
def test_planning_refuses_a_recomputation_that_cannot_be(
    workload: str, direction: str, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        one_cell(workload, direction=direction, state="checkpoint")


def test_a_file_that_is_not_called_as_its_state_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "class Copied(State):\n    name = 'copied'\n    surround = None\n"
    text = f"from cudnn_sweep.workloads.workload import State\n{state}"
    (tmp_path / "copies.py").write_text(text)
    monkeypatch.setattr(states, "__path__", [str(tmp_path)])
    with pytest.raises(
        WorkloadError, match="state copies: .*copies.py has no State with name = 'copies'"
    ):
        make_state("copies", {})
