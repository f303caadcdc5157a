"""Comparison: what the self-test's pairs of equal configs say, in plain words."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cudnn_sweep.analysis.answering.min_effect import MIN_EFFECT
from cudnn_sweep.analysis.answering.verdicts import Verdict
from cudnn_sweep.analysis.words import percent
from cudnn_sweep.orchestrator.doctor.check import Check

MANY = 100  # replicates: beyond, the estimate says no more than that the machine is unfit


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two equal configs by one clock; `ratio` with its 95% interval."""

    clock: Literal["wall", "device"]
    pairs: int
    ratio: float
    low: float | None
    high: float | None
    verdict: str | None
    """What the statistics say of it."""


def comparisons(found: list[Verdict]) -> Iterator[Comparison]:
    for verdict in found:
        if verdict.ratio is not None:
            yield Comparison(
                clock="wall",
                pairs=verdict.blocks,
                ratio=verdict.ratio,
                low=verdict.ratio_low,
                high=verdict.ratio_high,
                verdict=verdict.wall_statistical_verdict,
            )
        if verdict.device_ratio is not None:
            yield Comparison(
                clock="device",
                pairs=verdict.blocks,
                ratio=verdict.device_ratio,
                low=verdict.device_ratio_low,
                high=verdict.device_ratio_high,
                verdict=verdict.device_statistical_verdict,
            )


def check_comparison(seen: Comparison) -> Check:
    """In plain words. That two equal configs differ is a problem: nothing here can be believed."""
    name = f"self-test, {seen.clock}"
    apart = f"two identical configs differ by {percent(abs(seen.ratio - 1), 1)}"
    if seen.low is None or seen.high is None:
        found, advice = f"{apart} in a single pair, too few to judge", "give it more --seconds"
        return Check(name=name, state="warning", found=found, advice=advice)
    found = (
        f"{apart} (95% interval {percent(seen.low - 1, 1, '+')} to {percent(seen.high - 1, 1, '+')}) "
        f"over {seen.pairs} pairs: "
    )
    effect = f"{percent(MIN_EFFECT)}"
    if seen.verdict == "equivalent":
        return Check(name=name, found=f"{found}differences of {effect} can be detected here")
    if seen.verdict == "inconclusive":
        found += f"differences of {effect} cannot be detected here"
        advice = "end other programs on this machine and run this again; otherwise a sweep needs "
        needed = _pairs_needed(seen.pairs, seen.low, seen.high)
        advice += f"about `replicates: {needed}`" if needed <= MANY else f"over {MANY} replicates"
        return Check(name=name, state="warning", found=found, advice=advice)
    found += "more than chance, although nothing differs"
    advice = (
        "find what changes from process to process (other programs, clocks, memory that runs out) "
        "and run this again; until then trust no verdict of this machine"
    )
    return Check(name=name, state="problem", found=found, advice=advice)


def _pairs_needed(pairs: int, low: float, high: float) -> int:
    """An interval narrows with the root of the pairs; it should reach no further than the effect."""
    times = math.log(high / low) / 2 / math.log1p(MIN_EFFECT)
    return math.ceil(pairs * max(times**2, 2.0))
