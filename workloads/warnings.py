"""Warnings about measured times: the name of each, and what to do about it."""

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
"""Warnings that a suite, workload or model causes; they are printed at once."""

ADVICE: dict[WarningName, str] = {
    "shared_gpu": "end the other process (nvidia-smi names it) or choose a free GPU by "
    "CUDA_VISIBLE_DEVICES, and measure again: another process on the GPU makes times longer",
    "throttled": "cool the GPU or lock a clock that it can keep (nvidia-smi --lock-gpu-clocks), "
    "and measure again: the GPU slowed its clock, so two configs may run at different clocks",
    "power_capped": "the GPU is at its power limit, which lowers its clock. Processes that take turns share one "
    "clock, so a config that draws less power gains less here than in training; with `in_turns: false` each "
    "config has its own clock. To compare at one clock, lock it (nvidia-smi --lock-gpu-clocks)",
    "clocks_unsettled": "warm up longer (warmup_s) or lock the clock (nvidia-smi --lock-gpu-clocks), "
    "and measure again: the clock moved by more than 5% during the measurement",
    "other_shapes": "the workload's `prepare` must make the requested shape: no tensor that it "
    "returned has this shape, so the timed shapes are not those of the cell",
    "own_loss_unused": "write `loss: own` under `model` (`sweep advise --loss own`): the model returns its own loss, "
    "but the step does not use it, so the timed work differs from your training",
    "not_finite": "check inputs, loss and precision: the first calls returned infinities or NaN, "
    "unlike a real training",
    "diverged": "nothing to do if only times matter: the loss was finite at first, but not after "
    "thousands of steps on random data",
}
