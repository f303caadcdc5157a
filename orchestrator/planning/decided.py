"""Finds the cells of a sweep that need no further blocks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.engine.settings import config_name, texts_of
from cudnn_sweep.analysis.results.advice import Advice
from cudnn_sweep.analysis.results.contrast import RACE, Contrast, chosen, contrasts_among
from cudnn_sweep.analysis.results.verdicts import ContrastState, RaceState
from cudnn_sweep.analysis.store.store import Store
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.orchestrator.planning.session import Job, Session
from cudnn_sweep.workloads.cells.config import Config

OPEN, HOPELESS, OUT = "open", "hopeless", "raced_out"


def contrasts_of(configs: Iterable[Config]) -> tuple[Contrast, ...]:
    """Return a contrast for each pair of configs that differ in exactly one field."""
    return contrasts_among(settings_of(config) for config in configs)


def contrasts_in(plan: Plan) -> tuple[Contrast, ...]:
    of_cells: dict[str, list[Config]] = {}
    for trial in plan.trials:
        of_cells.setdefault(trial.cell.cell_id, []).append(trial.config)
    distinct = {tuple(sorted(set(configs), key=str)) for configs in of_cells.values()}
    if plan.is_race:
        return (RACE,) * any(len(configs) > 1 for configs in distinct)
    contrasts = map(contrasts_of, sorted(distinct, key=str))
    return tuple(dict.fromkeys(chain.from_iterable(contrasts)))


def deciding_in(plan: Plan) -> tuple[Contrast, ...]:
    return chosen(contrasts_in(plan), plan.decided_by)


def settings_of(config: Config) -> dict[str, str]:
    """Return the value of each field of a config, written as in SQL."""
    return texts_of(config.columns())


def name_of(config: Config) -> str:
    """Return the name of a config, as in the column `settings` of `records`."""
    return config_name(settings_of(config))


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    states: Sequence[ContrastState]
    stays: str = ""
    """Name of the config that a race must not drop, or empty."""

    @property
    def is_open(self) -> bool:
        return any(state.state == OPEN for state in self.states)

    @property
    def is_decided(self) -> bool:
        return not any(state.state in (OPEN, HOPELESS) for state in self.states)

    @property
    def is_out_of_reach(self) -> bool:
        return not self.is_open and not self.is_decided

    @property
    def out(self) -> frozenset[str]:
        """Names of the configs that a race has dropped so far."""
        out = frozenset(state.other_settings for state in self.states if state.state == OUT)
        return out - {self.stays}

    @property
    def recorded_blocks(self) -> int:
        left = [state for state in self.states if state.state != OUT]
        return min(state.recorded_blocks for state in left or self.states)

    @property
    def seconds_to_decide(self) -> float:
        return max(
            (state.blocks_needed or (state.at_most or 0) - state.recorded_blocks) * state.block_s
            for state in self.states
            if state.state != OUT
        )


def standings(store: Store, session: Session) -> dict[str, Standing]:
    """Return the current state of each cell that has results, by cell_id."""
    sweep_id, contrasts = session.sweep_id, chosen(session.contrasts, session.plan.decided_by)
    if session.job is not None and not session.plan.is_race:
        return _by_cell(_advised(store, sweep_id, contrasts, session.job))
    values = {"min_effect": session.min_effect, "one_sided": session.one_sided}
    configs = session.plan.configs()
    cells = _by_cell(_tested(store, sweep_id, contrasts, configs, session.of_cells, **values))
    stays = "" if session.job is None else name_of(Config())
    return {cell_id: replace(standing, stays=stays) for cell_id, standing in cells.items()}


def stopped_cells(store: Store, session: Session) -> set[str]:
    """Return the ids of the cells that need no further blocks."""
    if not session.looks:
        return set()
    return {cell_id for cell_id, each in standings(store, session).items() if not each.is_open}


def is_over(store: Store, sweep_id: str, plan: Plan, contrasts: Collection[Contrast]) -> bool:
    """Return whether no cell of `plan` needs further blocks."""
    states = _tested(store, sweep_id, contrasts, plan.configs(), len(plan.cell_ids()))
    cells = _by_cell(states)
    return all(cell_id in cells and not cells[cell_id].is_open for cell_id in plan.cell_ids())


def _tested(
    store: Store,
    sweep_id: str,
    contrasts: Collection[Contrast],
    configs: Sequence[Config],
    of_cells: int,
    **values: Value,
) -> Iterator[ContrastState]:
    texts = [settings_of(config) for config in configs]
    if RACE in contrasts:
        yield from RaceState.of(store, sweep_id, is_over=False)
        return
    for contrast in contrasts:
        pairs = sum(text.get(contrast.field) == contrast.baseline for text in texts)
        parameters = {**contrast.values(), **values, "of_cells": of_cells * pairs}
        yield from ContrastState.of(store, sweep_id, **parameters)


def _advised(
    store: Store, sweep_id: str, contrasts: Iterable[Contrast], job: Job
) -> Iterator[ContrastState]:
    for contrast in contrasts:
        values = {**contrast.values(), **job.values()}
        for row in Advice.of(store, sweep_id, is_over=False, **values):
            is_last = row.at_most is not None and row.recorded_blocks >= row.at_most
            undecided = HOPELESS if is_last else OPEN
            if row.asked:
                yield ContrastState(
                    cell_id=row.cell_id,
                    contrast=row.contrast,
                    other_settings=row.other_settings,
                    state=row.advice if row.settled else undecided,
                    recorded_blocks=row.recorded_blocks,
                    at_most=row.at_most,
                    blocks_needed=row.blocks_needed,
                    block_s=row.block_s,
                )


def _by_cell(states: Iterable[ContrastState]) -> dict[str, Standing]:
    """Group the states by cell_id. Keep the first state for each contrast and other_settings."""
    cells: dict[str, dict[tuple[str, str], ContrastState]] = {}
    for state in states:
        of_cell = cells.setdefault(state.cell_id, {})
        of_cell.setdefault((state.contrast, state.other_settings), state)
    return {cell_id: Standing(states=[*first.values()]) for cell_id, first in cells.items()}


def standings_text(standings: Mapping[str, Standing], of_cells: int) -> str:
    decided = sum(standing.is_decided for standing in standings.values())
    hopeless = sum(standing.is_out_of_reach for standing in standings.values())
    text = f"{decided} of {of_cells} cells decided"
    return text + (f", {hopeless} left undecided" if hopeless else "")
