"""Inputs of a step that runs as a CUDA graph: each has to be told apart from those of other graphs."""

import numpy as np
import pytest
import torch

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.measuring.captured import CapturedStep
from cudnn_sweep.workloads.workload import TimedStep


def test_an_input_that_has_no_hash_is_named() -> None:
    step = TimedStep(prepare=lambda shape: torch.zeros(shape), run=lambda inputs: None)
    with pytest.raises(
        WorkloadError, match="found an input of type ndarray; an input must be a tensor"
    ):
        CapturedStep(step)((torch.zeros(1), np.zeros(1)))
