"""Names of warnings about measured times, with advice for each."""

from typing import Literal

WarningName = Literal[
    "shared_gpu",
    "throttled",
    "power_capped",
    "clocks_unsettled",
    "other_shapes",
    "own_loss_unused",
    "not_finite",
    "diverged",
]

OF_THE_CODE: tuple[WarningName, ...] = ("other_shapes", "own_loss_unused", "not_finite", "diverged")
"""Warnings that a suite, workload or model causes. They are printed immediately."""

ADVICE: dict[WarningName, str] = {
    "shared_gpu": "end the other process on the GPU (nvidia-smi lists it), or choose a free GPU "
    "with CUDA_VISIBLE_DEVICES, and measure again. On a shared GPU, times are longer",
    "throttled": "cool the GPU, or lock a clock that it can keep (nvidia-smi --lock-gpu-clocks), "
    "and measure again. The GPU lowered its clock, so two configs may run at different clocks",
    "power_capped": "the GPU lowers its clock because it is at its power limit. If processes take "
    "turns, a config that draws less power gains less than in training. To compare at one clock, "
    "lock it (nvidia-smi --lock-gpu-clocks). For a clock per config, set `in_turns: false`",
    "clocks_unsettled": "warm up longer (warmup_s), or lock the clock (nvidia-smi "
    "--lock-gpu-clocks), and measure again. The clock changed by over 5% during the measurement",
    "other_shapes": "correct the workload's `prepare`: none of its tensors has the requested "
    "shape. The timed shapes are not those of the cell",
    "own_loss_unused": "write `loss: own` under `model` (`sweep advise --loss own`). The model "
    "returns its own loss, but the timed step does not use it",
    "not_finite": "check inputs, loss and precision. The first calls returned infinities or NaN",
    "diverged": "nothing to do if only times matter. The loss was finite at first, but not after "
    "thousands of steps on random data",
}
