"""What a rule that was learned on stored rows says of a job, where there is no GPU to measure it on.

docs/rules.py learns it and writes rules.json; docs/rules.md prints it with its scores.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("rules.json")
NEVER_REPEATS = 1e6  # distinct sizes, where each step has a new one


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What is known of a job before it runs on a GPU."""

    workload: str
    problem: str | None
    """None: a network. What only a convolution has is None then, too."""
    direction: str
    input_shape: tuple[int, ...]
    kernel_size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    groups: int | None
    out_channels: int | None
    precision: str
    layout: str
    convolutions: int | None
    convolution_flops: int | None
    """Of a step."""
    shapes: int | None
    """Distinct ones; None without end."""
    steps: int
    start: str
    """container or warm."""

    def features(self) -> dict[str, float]:
        """By the names that a rule has for them; 0 for what only a convolution has."""
        gflop = (self.convolution_flops or 0) / 1e9
        channels = (
            0 if self.out_channels is None else math.gcd(self.input_shape[1], self.out_channels)
        )
        return {
            "one convolution": float(self.problem is not None),
            "dimensions of space": float(len(self.input_shape) - 2),
            "backward": float(self.direction in ("training", "forward_backward")),
            "elements of the kernel": float(math.prod(self.kernel_size) if self.kernel_size else 0),
            "stride": float(max(self.stride, default=0) if self.stride else 0),
            "groups": float(self.groups or 0),
            "channels divisible by 8": float(channels % 8 == 0),
            "IEEE fp32": float(self.precision == "fp32"),
            "bf16 or fp16": float(self.precision not in ("fp32", "tf32")),
            "channels_last": float(self.layout == "channels_last"),
            "GFLOP of a step": gflop,
            "GFLOP of a convolution": gflop / max(self.convolutions or 1, 1),
            "distinct sizes": float(self.shapes or NEVER_REPEATS),
            "steps": float(self.steps),
            "new container": float(self.start == "container"),
        }


YES_OR_NO = (
    "one convolution",
    "backward",
    "channels divisible by 8",
    "IEEE fp32",
    "bf16 or fp16",
    "channels_last",
    "new container",
)
WHOLE = (
    "dimensions of space",
    "elements of the kernel",
    "stride",
    "groups",
    "distinct sizes",
    "steps",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    setting: str
    """on or off."""
    ratio: float
    """Of the jobs it was learned from: whole time with benchmark on / off, their mean."""
    jobs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    feature: str
    at: float
    below: "Fork | Leaf"
    """Where the feature is not larger."""
    above: "Fork | Leaf"


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedRule:
    name: str
    tree: Fork | Leaf
    right: float
    """Share of the jobs of networks left out in which the settings differ, and it had the faster one."""
    of_jobs: int
    lost: float
    """Mean of the time lost against the better setting, relative to it."""
    off_right: float
    """The same share for benchmark always off."""
    most_steps: int
    """Of the jobs that were measured."""
    networks: int
    gpu: str

    def ask(self, facts: Facts) -> "RuleAnswer":
        node, features = self.tree, facts.features()
        path: dict[
            tuple[str, bool], str
        ] = {}  # a later condition on the same side is the closer one
        while isinstance(node, Fork):
            is_below = features[node.feature] <= node.at
            path[node.feature, is_below] = condition(node, is_below)
            node = node.below if is_below else node.above
        conditions = list(path.values())
        return RuleAnswer(rule=self, setting=node.setting, ratio=node.ratio, conditions=conditions)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleAnswer:
    rule: LearnedRule
    setting: str
    ratio: float
    conditions: list[str]
    """What of the job led there."""


@cache
def learned_rule() -> LearnedRule:
    return LearnedRule(**json.loads(FILE.read_text(encoding="utf-8"), object_hook=_node))


def _node(found: Mapping[str, Any]) -> Any:
    if "feature" in found:
        return Fork(**found)
    return Leaf(**found) if "jobs" in found else found


def condition(fork: Fork, is_below: bool) -> str:
    if fork.feature in YES_OR_NO:
        return f"{'not ' if is_below else ''}{fork.feature}"
    at = math.floor(fork.at) if fork.feature in WHOLE else fork.at
    return f"{fork.feature} {'≤' if is_below else '>'} {at:,.4g}"
