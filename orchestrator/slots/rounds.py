"""Rounds: who of a block's processes has the baton, in what order, and when enough was measured."""

import random
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.measuring.sampling import LEAST_S, MIN_SAMPLES, paired_error
from cudnn_sweep.workloads.measuring.turns import Said, Stage, Turn


class Member(Protocol):
    pid: int

    def take(self, turn: Turn, /) -> Said | None:
        """Have it take a turn; None where its process has ended."""


class Rounds:
    """Each round every member has a turn, in an order drawn anew. Who ends is left out from then on."""

    def __init__(
        self, members: Sequence[Member], spec: MeasureSpec, *, seed: int, cpus: tuple[int, ...] = ()
    ) -> None:
        """`cpus`: where they take their turns; everywhere they may where none is named."""
        self._living = list(members)
        self._spec = spec
        self._order = random.Random(seed)
        self._cpus = cpus

    def run(self) -> None:
        """From the warm-up until each has reported what it measured."""
        spec, others = self._spec, len(self._living) - 1
        self._warm_up("warm_up", self._living)
        # One warm-up is enough for all: what the others would take is theirs to be timed in.
        spared_s = others * spec.warmup_s
        stopped = self._time("wall", self._living, spec.steady_budget_s, spared_s)
        said = self._round("capture", self._living, stopped=stopped)
        captured = [member for member, heard in said.items() if heard.captured]
        self._warm_up("device_warm_up", captured)
        stopped = self._time("device", captured, spec.device_budget_s)
        self._round("report", self._living, stopped=stopped)

    def _warm_up(self, stage: Stage, members: list[Member]) -> None:
        """All share the device, and its clock: what warms one warms the others."""
        spec = self._spec
        limit_s = max(spec.warmup_s, spec.warmup_limit_s) * len(members)
        began = monotonic()
        while said := self._round(stage, members):
            elapsed_s = monotonic() - began
            settled = all(heard.settled for heard in said.values())
            if (elapsed_s >= spec.warmup_s and settled) or elapsed_s >= limit_s:
                return
            if spec.warmup_s == 0:
                return

    def _time(
        self, stage: Stage, members: list[Member], budget_s: float, spared_s: float = 0.0
    ) -> str | None:
        """Why it stopped; None where nobody was left. `budget_s` is each one's."""
        times: dict[Member, list[float]] = {member: [] for member in members}
        began, number = monotonic(), 0
        while said := self._round(stage, members, number=number):
            number += 1
            for member, heard in said.items():
                assert heard.ms is not None
                times[member].append(heard.ms)
            elapsed_s = monotonic() - began
            if elapsed_s >= budget_s * len(said) + spared_s:
                return "budget"
            enough = number >= MIN_SAMPLES and elapsed_s >= LEAST_S * len(said)
            if enough and paired_error([times[each] for each in said]) <= self._spec.steady_error:
                return "precision"
        return None

    def _round(
        self, stage: Stage, members: list[Member], *, number: int = 0, stopped: str | None = None
    ) -> dict[Member, Said]:
        """What those said that live."""
        living = [member for member in members if member in self._living]
        said: dict[Member, Said] = {}
        for member in self._order.sample(living, len(living)):
            heard = member.take(
                Turn(
                    stage=stage,
                    round=number,
                    stopped=stopped,
                    beside=tuple(other.pid for other in self._living if other is not member),
                    cpus=self._cpus,
                )
            )
            if heard is None:
                self._living.remove(member)
            else:
                said[member] = heard
        return {member: said[member] for member in living if member in said}
