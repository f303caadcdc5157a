"""The verdicts tried on made-up sweeps whose truth is known, judged by the SQL that judges real ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cudnn_sweep.analysis.engine.database import Database
from cudnn_sweep.analysis.engine.queries import load_query
from cudnn_sweep.analysis.results.min_effect import MIN_EFFECT
from tests.studies.parts.made_rows import STEADY_MS, MadeUp, in_turns, made_rows, open_rows
from tests.studies.parts.noise import (
    NOT_PROMISED,
    PROMISED,
    Array,
    Counts,
    Mask,
    Noise,
    log_times,
    log_turns,
    origins_of,
    times_and_choices,
)

# Of six cells three have no effect, one the least that counts, one 5%, one 8%; in either direction.
EFFECTS = np.log1p([0.0, 0.0, 0.0, MIN_EFFECT, 0.05, 0.08])

COLD_MS = np.array([30.0, 500.0])  # baseline and candidate: a search costs half a second
COLD_SCATTER = 0.05  # of log cold cost between processes

EMPTY_SCATTER = (0.01, 0.06, 0.2, 0.65)  # what stored cells show with the compute cache empty
EMPTY_BLOCKS = (2, 3, 5)
EMPTY_GAINS = -np.log1p([0.05, 0.5, 2.0])  # from one twentieth to a third of the time
EMPTY_TARGET = 0.9

UNPAIRED_NOISES = ("device_bound", "other_choices")
UNPAIRED_BLOCKS = (5, 8, 12)

LEAST_FEWER = 3.0  # times fewer blocks than the most, where cells are looked at until decided

# Monte-Carlo standard errors by which a target must be missed: chance does it once in 700.
LEEWAY = 3

VERDICTS = """
select
    ln(ratio_low) as low,
    ln(ratio_high) as high,
    wall_verdict as verdict,
    blocks - 1 + in_turns::bigint as df, -- one is borrowed
    -- of the side on which there is no effect
    if(ratio > 1, ln(ratio / ratio_low), ln(ratio_high / ratio))
    / t_half(df, error_share) as se,
    p_of_effect(ln(ratio), se, df, ln(1 + $min_effect)) / error_share as p,
    p_of_effect(ln(ratio), se, df, 0) / error_share as p_of_any
from ({question})
order by cell_id::bigint
"""

STATES = """
select state
from ({question})
order by cell_id::bigint
"""

UNPAIRED = """
select
    ln(ratio_low) as low,
    ln(ratio_high) as high,
    wall_verdict as verdict
from ({question})
order by split_part(cell_id, '-', 1)::bigint
"""

BREAK_EVENS = """
select
    outcome <> 'inconclusive' as claimed,
    coalesce(break_even_low, 0) as low,
    coalesce(break_even_high, 'infinity'::double) as high
from ({question})
order by cell_id::bigint
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """So many of the cells that count."""

    hits: int
    cells: int

    @property
    def value(self) -> float:
        return self.hits / max(self.cells, 1)

    @property
    def error(self) -> float:
        """Its Monte-Carlo standard error: above zero even where it is all or none (Jeffreys' mean)."""
        expected = (self.hits + 0.5) / (self.cells + 1)
        return float(np.sqrt(expected * (1 - expected) / max(self.cells, 1)))

    def misses(self, low: float, high: float) -> bool:
        return not low - LEEWAY * self.error <= self.value <= high + LEEWAY * self.error


@dataclass(frozen=True, kw_only=True, slots=True)
class EmptyCaches:
    """How often a break-even's interval is right where so many blocks met an empty compute cache."""

    scatter: float
    """Standard deviation of log cold cost between processes."""
    blocks: int
    coverage: Share
    """Intervals that hold the true break-even."""

    @property
    def is_missed(self) -> bool:
        return self.coverage.misses(EMPTY_TARGET, 1.0)


class ByName:
    """Figures of which some are shares."""

    __slots__ = ()

    def share(self, name: str) -> Share:
        found = getattr(self, name)
        assert isinstance(found, Share)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures(ByName):
    """How often the verdicts were right under one noise, with so many blocks a cell."""

    noise: Noise
    blocks: int
    is_promised: bool
    asked: float
    """Blocks that a cell had in the mean: fewer where it was looked at until it was decided."""
    is_until: bool

    coverage: Share
    """Share of the ratio's intervals that hold the true ratio."""
    break_even_coverage: Share
    """Share of the break-even's intervals that hold the true one, among cells that gain."""
    null_found: Share
    """Share of cells without an effect that are found to help or hurt."""
    null_found_alone: Share
    """`null_found` without Benjamini and Hochberg: each cell is tested alone."""
    null_found_at_zero: Share
    """Share of cells without an effect that help or hurt at a minimum effect of 0, each tested alone."""
    least_found_alone: Share
    """Share of cells with just the least effect that are found to help or hurt, each tested alone."""
    least_equivalent: Share
    """Share of cells with just the least effect that are called equivalent."""
    found_wrongly: Share
    """Share of cells found to help or hurt whose effect is at most the least, or in the other direction."""
    null_break_even: Share
    """Share of cells without an effect about whose break-even a claim is made."""
    null_equivalent: Share
    """Share of cells without an effect that are called equivalent."""
    found_5: Share
    """Share of cells with an effect of 5% that are found to help or hurt, as they do."""
    found_8: Share
    """Share of cells with an effect of 8% that are found to help or hurt, as they do."""

    def missed(self) -> list[str]:
        """The names of the targets that are missed."""
        # what borrows is as sure of quiet blocks as of others
        is_wide = self.is_until or self.noise.other_choice_share > 0 or self.noise.rounds > 0
        targets = WIDE_TARGETS if is_wide else TARGETS
        missed = [
            name for name, (low, high) in targets.items() if self.share(name).misses(low, high)
        ]
        few = not self.is_until or self.noise.origin > 0 or self.fewer >= LEAST_FEWER
        return missed if few else [*missed, "fewer"]

    @property
    def fewer(self) -> float:
        """How many times fewer blocks than each cell might have had."""
        return self.blocks / self.asked


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpairedFigures(ByName):
    """How often the verdicts on two softwares were right, whose processes share no blocks."""

    noise: Noise
    blocks: int
    coverage: Share
    """As `Figures` has them."""
    null_found: Share
    found_wrongly: Share
    found_8: Share

    def missed(self) -> list[str]:
        """The names of the targets that are missed."""
        shares = {
            "coverage": self.coverage,
            "null_found": self.null_found,
            "found_wrongly": self.found_wrongly,
        }
        return [name for name, share in shares.items() if share.misses(*WIDE_TARGETS[name])]


TARGETS = {
    "coverage": (0.93, 0.97),
    "break_even_coverage": (0.93, 1.0),  # two intervals' corners: wider than need be
    "null_found": (0.0, 0.05),
    "null_found_alone": (0.0, 0.05),
    "null_found_at_zero": (0.0, 0.05),
    "least_found_alone": (0.0, 0.05),
    "least_equivalent": (0.0, 0.05),
    "found_wrongly": (0.0, 0.05),
    "null_break_even": (0.0, 0.05),
}

# One interval for each look, whichever it is, is wider than one alone; so is one that reaches as far as
# what was not seen.
WIDE_TARGETS = TARGETS | {"coverage": (0.93, 1.0)}


def simulate(cells: int, blocks: Sequence[int], seed: int) -> Iterator[Figures]:
    """Every noise with each number of blocks, so many cells each."""
    for noise in PROMISED + NOT_PROMISED:
        for number in blocks:
            yield try_verdicts(noise, cells, number, seed)


def simulate_unpaired(cells: int, seed: int) -> Iterator[UnpairedFigures]:
    """The noises that choices make and do not make, with each number of blocks."""
    for noise in PROMISED:
        if noise.name in UNPAIRED_NOISES:
            for number in UNPAIRED_BLOCKS:
                yield try_unpaired(noise, cells, number, seed)


def simulate_until_decided(cells: int, looks: Sequence[int], seed: int) -> Iterator[Figures]:
    """Every noise where each cell gets its blocks until it is decided."""
    for noise in PROMISED + NOT_PROMISED:
        yield try_until_decided(noise, cells, looks, seed)


def try_verdicts(noise: Noise, cells: int, blocks: int, seed: int) -> Figures:
    """One sweep of so many cells, judged."""
    made = _made_up(noise, cells, blocks, seed)
    with open_rows(made.rows) as database:
        return _figures(made, database, np.full(cells, blocks))


def try_until_decided(noise: Noise, cells: int, looks: Sequence[int], seed: int) -> Figures:
    """One sweep whose cells stop at the look that decides them, or shows that blocks are too few."""
    made = _made_up(noise, cells, looks[-1], seed)
    rows = made.rows
    rows = rows.append_column("looks", pa.repeat(pa.scalar(looks, pa.list_(pa.int64())), len(rows)))
    cell, block = np.divmod(rows["block"].to_numpy(), looks[-1])
    asked = np.zeros(cells, int)
    is_open = np.ones(cells, bool)
    while True:
        asked[is_open] = np.array(looks)[np.searchsorted(looks, asked[is_open], side="right")]
        with open_rows(rows.filter(block < asked[cell])) as database:
            is_open = _asked(database, "decided", STATES)["state"] == "open"
            if not is_open.any():
                return _figures(made, database, asked, is_until=True)


def try_unpaired(noise: Noise, cells: int, blocks: int, seed: int) -> UnpairedFigures:
    """The same cells, of each config the processes of a layout of its own, in sweeps of their own."""
    made = _made_up(noise, cells, blocks, seed)
    effects, rows = made.effects, made.rows
    config = pc.cast(rows["benchmark"], pa.string())
    columns = {name: rows[name] for name in rows.column_names}
    columns |= {"benchmark": pa.repeat(False, len(rows))}
    columns |= {name: config for name in ("layout", "sweep_id")}
    columns["problem"] = rows["cell_id"]
    columns["cell_id"] = pc.binary_join_element_wise(rows["cell_id"], config, "-")
    with open_rows(pa.table(columns)) as database:
        found = _asked(database, "axis_effect", UNPAIRED, {"axis": "layout", "baseline": "false"})
    null, _, five, eight = (np.isclose(abs(effects), each) for each in np.unique(EFFECTS))
    matters = np.isin(found["verdict"], ["helps", "hurts"])
    direction = np.where(effects < 0, "helps", "hurts")
    right = (found["verdict"] == direction) & (five | eight)
    return UnpairedFigures(
        noise=noise,
        blocks=blocks,
        coverage=_share(_within(effects, found), np.ones(cells, bool)),
        null_found=_share(matters, null),
        found_wrongly=_share(~right, matters),
        found_8=_share(right, eight),
    )


def _made_up(noise: Noise, cells: int, blocks: int, seed: int) -> MadeUp:
    # by name, so that another noise on the list changes no figure of this one
    generator = np.random.default_rng([seed, blocks, *noise.name.encode()])
    effects = np.resize(EFFECTS, cells) * generator.choice([-1, 1], cells)
    logs, other = times_and_choices(noise, effects, blocks, generator)
    origins, off = np.zeros((cells, blocks), int), np.zeros((cells, blocks))
    if noise.origin:
        origins, off = origins_of(noise, (cells, blocks), generator)
        logs[:, :, 1] += off
    cold_ms = _cold_ms(COLD_SCATTER, logs.shape, generator)
    rows = made_rows(STEADY_MS * np.exp(logs), cold_ms, other)
    if noise.origin:
        launch = pa.array(np.repeat(origins.ravel(), 2)).cast(pa.string())
        rows = rows.set_column(rows.column_names.index("launch_id"), "launch_id", launch)
    if noise.rounds:
        rows = in_turns(
            rows,
            STEADY_MS * np.exp(log_turns(noise, logs, generator)),
            launch_bound=noise.host > 0,
        )
    return MadeUp(noise=noise, effects=effects, origins=origins, off=off, rows=rows)


def try_empty_caches(cells: int, seed: int) -> Iterator[EmptyCaches]:
    """Cells that gain, whose blocks all met an empty cache: every scatter with each number of blocks."""
    for scatter in EMPTY_SCATTER:
        for blocks in EMPTY_BLOCKS:
            generator = np.random.default_rng([seed, blocks, round(1000 * scatter)])
            effects = np.resize(EMPTY_GAINS, cells)
            times_ms = STEADY_MS * np.exp(log_times(PROMISED[0], effects, blocks, generator))
            cold_ms = _cold_ms(scatter, times_ms.shape, generator)
            with open_rows(made_rows(times_ms, cold_ms, compute_cache="empty")) as database:
                payback = _asked(database, "break_even", BREAK_EVENS)
            truth = (COLD_MS[1] - COLD_MS[0]) / (-STEADY_MS * np.expm1(effects))
            coverage = _share(_within(truth, payback), np.isfinite(truth))
            yield EmptyCaches(scatter=scatter, blocks=blocks, coverage=coverage)


def _cold_ms(scatter: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Lognormal, with COLD_MS as the means."""
    drawn = scatter * generator.standard_normal(shape)
    cold_ms: Array = COLD_MS * np.exp(drawn - scatter**2 / 2)
    return cold_ms


def _asked(
    database: Database, name: str, sql: str, values: Mapping[str, str] | None = None
) -> dict[str, NDArray[Any]]:
    """The columns of a question's answer, a value a cell."""
    question = load_query(name)
    answer = database.query(sql.format(question=question.sql), question.values(values or {}))
    return {column: answer[column].to_numpy() for column in answer.column_names}


def _figures(made: MadeUp, database: Database, asked: Counts, *, is_until: bool = False) -> Figures:
    truths = made.truths(asked)
    found = _asked(database, "helps_or_hurts", VERDICTS)
    payback = _asked(database, "break_even", BREAK_EVENS)
    null, least, five, eight = (np.isclose(abs(truths), each) for each in np.unique(EFFECTS))
    matters = np.isin(found["verdict"], ["helps", "hurts"])
    direction = np.where(truths < 0, "helps", "hurts")
    right = (found["verdict"] == direction) & (abs(truths) > EFFECTS[3] + 1e-9)
    alone = found["p"] <= 0.05
    equivalent = found["verdict"] == "equivalent"
    gains = truths < 0
    gain_ms = np.where(gains, -STEADY_MS * np.expm1(truths), np.nan)
    break_even = (COLD_MS[1] - COLD_MS[0]) / gain_ms
    return Figures(
        noise=made.noise,
        blocks=made.origins.shape[1],
        is_promised=made.noise in PROMISED,
        asked=float(asked.mean()),
        is_until=is_until,
        coverage=_share(_within(truths, found), np.ones(len(truths), bool)),
        break_even_coverage=_share(_within(break_even, payback), gains),
        null_found=_share(matters, null),
        null_found_alone=_share(alone, null),
        null_found_at_zero=_share(found["p_of_any"] <= 0.05, null),
        least_found_alone=_share(alone, least),
        least_equivalent=_share(equivalent, least),
        found_wrongly=_share(~right, matters),
        null_break_even=_share(payback["claimed"], null),
        null_equivalent=_share(equivalent, null),
        found_5=_share(right, five),
        found_8=_share(right, eight),
    )


def _within(truth: Array, interval: dict[str, NDArray[Any]]) -> Mask:
    return (interval["low"] <= truth) & (truth <= interval["high"])


def _share(hits: Mask, of: Mask) -> Share:
    return Share(hits=int((hits & of).sum()), cells=int(of.sum()))
