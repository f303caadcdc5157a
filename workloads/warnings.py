"""What makes times doubtful: a closed list, and what to do about each."""

from typing import Literal

WarningName = Literal[
    "shared_gpu",
    "throttled",
    "power_capped",
    "clocks_unsettled",
    "other_shapes",
    "own_loss_unused",
]

OF_THE_CODE: tuple[WarningName, ...] = ("other_shapes", "own_loss_unused")
"""Those that a mended suite or workload ends: they are told at once."""

ADVICE: dict[WarningName, str] = {
    "shared_gpu": "end the other process (nvidia-smi names it) or choose a free GPU by "
    "CUDA_VISIBLE_DEVICES, and measure again: times wait for whoever shares the GPU",
    "throttled": "cool the GPU or lock its clock where it can stay (nvidia-smi --lock-gpu-clocks), "
    "and measure again: it slows itself down, two configs may not meet the same clock",
    "power_capped": "this work draws all the power that the GPU may, so the clock is what that leaves. "
    "Processes that take turns share one clock, so a config that draws less power gains less here than in "
    "training; `in_turns: false` lets each meet its own clock. To compare at one fixed clock, lock it "
    "(nvidia-smi --lock-gpu-clocks)",
    "clocks_unsettled": "warm up longer (warmup_s) or lock the clock (nvidia-smi --lock-gpu-clocks), "
    "and measure again: it moved by more than 5% while times were taken",
    "other_shapes": "let the workload's `prepare` make the shape that it is asked for: no tensor of what it "
    "returned had it, so that regime and input shape are not what was timed",
    "own_loss_unused": "say `loss: own` under `model` (`sweep try --loss own`): the model returns a loss of its "
    "own, which the step does not use, so that other work was timed than in your training",
}
