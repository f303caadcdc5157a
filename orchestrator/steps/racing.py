"""`sweep advise` over several levers: a chain of races, each a small sweep, and what to set in this job."""

import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count

from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer, Section, State
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.results.advice import DOES_NOT_FIT, FAILS, STARTS, Advice, stored_cells
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.results.contrast import USUAL
from cudnn_sweep.analysis.store.store import Store, open_store
from cudnn_sweep.analysis.words import (
    GIB,
    clock,
    duration,
    interval,
    milliseconds,
    number,
    percent,
    ratio,
    size,
)
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.planning.sweep_selection import differs, lacks
from cudnn_sweep.orchestrator.running.run_sweep import Place, run_sweep
from cudnn_sweep.orchestrator.steps.levers import (
    BENCHMARK,
    OWN,
    Changes,
    changes_of,
    config_of,
    fault_of,
    lines_of,
    name_of,
    named_values,
    next_configs,
    offered,
)
from cudnn_sweep.orchestrator.steps.one_step import (
    is_step,
    left_of_minutes_s,
    plan_step,
    suite_of,
)
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import UntilDecided
from cudnn_sweep.workloads.survey import Survey

SUITE = "race"
TIME_IS_UP = "the minutes are over"
WHOLE_S = (
    600.0  # half of it is a process's time limit, which is part of a plan: whatever --minutes says
)
UNTIL = UntilDecided(until="best", at_most=12)  # blocks
LITTLE = 1.005  # among configs within this ratio of the best, the answer is the one with the fewest changes
LENGTHS = (200, 2_000, 20_000, 200_000, 2_000_000)
IDLE = 0.25  # if the GPU idles for a larger share of a step, the answer begins with that


TIMES = """
select
    settings,
    median(steady_wall_ms) as wall_ms,
    median(steady_device_ms) as device_ms,
    max(relative_l2_error) as l2_error,
    any_value(message) filter (where status not in ('ok', 'raced_out')) as message
from records
where twin = 0
group by settings
order by settings
"""


class Times(AnswerRow):
    """A config's `settings`, its times a step, its largest error, and the message of a trial that failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Raced:
    """One config beside the user's own, both measured in the same sweep."""

    advice: Advice
    """Advice for the requested start."""
    l2_error: float | None
    """The largest relative error against float64 of its processes."""
    own: "Times"

    @property
    def keeps_bits(self) -> bool:
        return bool(0 < self.advice.blocks == self.advice.blocks_with_same_bits)

    def refused(self, options: AdviseOptions) -> str | None:
        """Return why the answer may not be this config; None if it may."""
        row, limit = self.advice, options.memory_limit
        if row.candidate_failed > row.baseline_failed and row.advice in (DOES_NOT_FIT, FAILS):
            return str(row.advice)
        if limit is not None and (row.candidate_first_bytes or 0) > limit * GIB:
            return f"needs {size(row.candidate_first_bytes)}"
        return "other bits" if options.same_bits and not self.keeps_bits else None

    def job_s(self, steps: int, *, is_own: bool = False) -> float:
        """Return the seconds of a job of so many steps, its start included, with this config or the user's own."""
        side, row = "baseline" if is_own else "candidate", vars(self.advice)
        return float(row[f"{side}_s"] + (steps - row["job_steps"]) * row[f"{side}_ms"] / 1000)


Rows = Mapping[Changes, Raced | str]
"""Result of each raced config, by its changes; a text is the reason that a config has no time."""


def race(options: AdviseOptions, machine: Survey, place: Place, console: Console) -> Answer:
    """Race the levers, stage by stage, until no config is left to try or the minutes are over.

    An unfinished race of this step resumes from its stored stages.
    """
    store = open_store(options.location)
    cell = _planned(options, machine, [OWN, BENCHMARK]).chosen.trials[0].cell
    values, left_out = offered(options, cell, machine)
    limit = f"{options.limit_minutes:g} minutes"
    say(console, f"Racing {', '.join(values)} on {machine.environment.gpu}, for at most {limit}.")

    def following(rows: Rows) -> list[Changes]:
        advices = _advices(rows, options)
        return next_configs(advices, values, lambda each: fault_of(each, cell, machine) is None)

    new = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    stored = stored_names(store, options)
    name = next((n for n in stored if _goes_on(store, options, machine, n, following)), new)
    rows: dict[Changes, Raced | str] = {}
    cut = ""
    for stage in count(1):
        configs = following(rows)
        if not configs or isinstance(rows.get(OWN), str):
            break
        planned = _planned(options, machine, configs, f"{name}-{stage}")
        least_s = planned.chosen.first_look().estimated_s(1, gpu=True)
        if stage > 1 and left_of_minutes_s(options) < least_s / UNTIL.looks[0]:
            cut = TIME_IS_UP
            break
        least = f"about {duration(least_s)} to the first look"
        say(console, f"Stage {stage}: {', '.join(map(name_of, configs))}; {least}.")
        ran = run_sweep(planned, place, console)
        rows = _joined(rows, results_of(options, ran.store, f"{name}-{stage}"))
        if not ran.is_complete:
            ran.check_not_stopped(is_decided=bool(rows))
            cut = ran.progress.stopped or TIME_IS_UP
            break
    return answer_of(options, rows, name, left_out, cut=cut)


def stored_race(options: AdviseOptions) -> Answer | None:
    """Answer from the newest stored race of this step; None if there is none."""
    store = open_store(options.location)
    for name in stored_names(store, options):
        ids = [each for each in store.sweep_ids() if each.rpartition("-")[0] == name]
        rows: dict[Changes, Raced | str] = {}
        for sweep_id in sorted(ids, key=lambda each: int(each.rpartition("-")[2])):
            rows = _joined(rows, results_of(options, store, sweep_id))
        values, _ = named_values(options)
        wanted = {
            changes: row
            for changes, row in rows.items()
            if all(text in values.get(lever, ()) for lever, text in changes)
        }
        return answer_of(options, wanted, name, {}, cut="")
    return None


def _joined(rows: Rows, newer: Rows) -> dict[Changes, Raced | str]:
    """Return rows of both; a stage that was cut takes no row with times away."""
    kept = {
        changes: row
        for changes, row in newer.items()
        if isinstance(row, Raced) or not isinstance(rows.get(changes), Raced)
    }
    return {**rows, **kept}


def _planned(
    options: AdviseOptions, machine: Survey, configs: Sequence[Changes], sweep_id: str | None = None
) -> Planned:
    measure = MeasureSpec(
        reference_replicates=int(options.allow is not None),
        logged_replicates=0,
        calibrate=False,
        device_budget_s=0.3,
    )
    suite = suite_of(options, UNTIL, measure, [config_of(changes) for changes in configs])
    planned = plan_step(
        options,
        suite,
        machine,
        suite_name=SUITE,
        job=options.job,
        whole_s=WHOLE_S,
    )
    named = replace(planned.request.options, new=False, sweep_id=sweep_id)
    return replace(planned, request=replace(planned.request, options=named))


def stored_names(store: Store, options: AdviseOptions) -> list[str]:
    """Return the names of the step's races, the newest first: each begins the ids of its sweeps."""
    cells = stored_cells(store, SUITE, options.workload)
    ids = (cell.sweep_id for cell in cells if cell.device != "cpu" and is_step(options, cell))
    return list(dict.fromkeys(sweep_id.rpartition("-")[0] for sweep_id in ids))


def _goes_on(
    store: Store,
    options: AdviseOptions,
    machine: Survey,
    name: str,
    following: Callable[[Rows], list[Changes]],
) -> bool:
    """Return whether a stored race is unfinished, with the levers, hardware and software of this command."""
    states = {state.sweep_id: state for state in store.sweeps()}
    rows: dict[Changes, Raced | str] = {}
    for stage in count(1):
        configs = following(rows)
        if not configs:
            return False
        planned, state = _planned(options, machine, configs), states.get(f"{name}-{stage}")
        if state is None:
            return stage > 1
        if state.plan_hash != planned.chosen.plan_hash or differs(state, planned):
            return False
        if lacks(store, state, planned.chosen):
            return True
        rows = _joined(rows, results_of(options, store, state.sweep_id))
    raise AssertionError("a race has an end")


def results_of(options: AdviseOptions, store: Store, sweep_id: str) -> dict[Changes, Raced | str]:
    """Return one sweep's configs beside the user's own."""
    advices = Advice.of(store, sweep_id, **USUAL.values(), **options.job.values())
    by_changes = {
        changes_of(row.other_settings.partition(" beside ")[0]): row
        for row in sorted(advices, key=lambda row: row.blocks)
        if row.asked and row.ratio is not None
    }
    with open_database(store, sweep_id) as database:
        found = [Times(**row) for row in database.query(TIMES).to_pylist()]
    times = {changes_of(row.settings): row for row in found}
    rows: dict[Changes, Raced | str] = {}
    for changes, row in times.items():
        if changes in by_changes and changes != OWN:
            rows[changes] = Raced(advice=by_changes[changes], l2_error=row.l2_error, own=times[OWN])
        elif row.wall_ms is None and row.message:
            rows[changes] = row.message.splitlines()[0]
    return rows


def answer_of(
    options: AdviseOptions,
    rows: Mapping[Changes, Raced | str],
    name: str,
    left_out: Mapping[str, str],
    *,
    cut: str,
) -> Answer:
    """Return the answer from what was raced. `cut`: why the race ended early; empty if nothing is left to try."""
    timed = {changes: row for changes, row in rows.items() if isinstance(row, Raced)}
    refused = {changes: why for changes, row in timed.items() if (why := row.refused(options))}
    asked = {changes: row for changes, row in timed.items() if changes not in refused}
    best = _chosen(_jobs(asked))
    lines = lines_of(best, _dimensions(timed), options)
    sweeps = f"{name}-*"
    out = {name_of(changes): row for changes, row in rows.items() if isinstance(row, str)}
    out |= {name_of(changes): why for changes, why in refused.items()} | {**left_out}
    facts = list(_facts(timed, best, out, cut))
    again = ("Without measuring again", options.again)
    minutes = f" --minutes {options.minutes:g}" if options.minutes else ""
    more = [("Resume", options.command() + minutes)] if cut else []
    query = [options.program, "query", "failures", *options.where(), "--sweep-id", sweeps]
    return Answer(
        kind="advise",
        subject=options.workload,
        state=_state(asked.get(best), timed, cut),
        headline=_headline(options, asked.get(best), best, bool(timed), cut),
        paste=lines,
        sections=[
            Section(rows=facts),
            *([_table(timed, best)] if timed else ()),
            *([_lengths(asked)] if asked else ()),
        ],
        commands=[*more, again] if timed else [("Next", shlex.join(query))],
        values={
            "sweep_id": sweeps,
            "setting": dict(best),
            "lines": lines,
            "configs": [
                {
                    "changes": dict(changes),
                    "advice": row.advice if isinstance(row, Raced) else None,
                    "l2_error": row.l2_error if isinstance(row, Raced) else None,
                    "failure": row if isinstance(row, str) else None,
                }
                for changes, row in rows.items()
            ],
            "left_out": dict(left_out),
            "cut": cut,
            "again": options.again,
        },
    )


def _jobs(asked: Mapping[Changes, Raced], steps: int | None = None) -> dict[Changes, float]:
    """Return the seconds of a job by its config. The user's own time is from the sweep of the shortest job's config."""
    jobs = {each: row.job_s(steps or row.advice.job_steps) for each, row in asked.items()}
    if not jobs:
        return {OWN: 0.0}
    row = asked[min(jobs, key=jobs.__getitem__)]
    return {OWN: row.job_s(steps or row.advice.job_steps, is_own=True)} | jobs


def _chosen(jobs: Mapping[Changes, float]) -> Changes:
    """Return the config with the fewest changes among those whose job is within `LITTLE` of the shortest."""
    near = [changes for changes in jobs if jobs[changes] <= LITTLE * min(jobs.values())]
    return min(near, key=lambda changes: (len(changes), jobs[changes]))


def _state(row: Raced | None, timed: Mapping[Changes, Raced], cut: str) -> State:
    if not timed:
        return "does not run"
    is_sure = not cut if row is None else row.advice.ratio_high < 1
    return "fine" if is_sure else "cannot tell"


def _headline(
    options: AdviseOptions, row: Raced | None, best: Changes, has_times: bool, cut: str
) -> str:
    if not has_times:
        return f"{options.workload} does not run here."
    if row is None:
        so_far = "so far " * bool(cut)
        return f"Leave it as it is: {so_far}nothing that may be set makes your job shorter."
    job = row.advice
    if job.ratio_high >= 1:
        return f"Undecided: so far {name_of(best)} is the fastest."
    whole = (
        f"{job.job_steps:,} steps take {clock(job.candidate_s)} instead of {clock(job.baseline_s)}"
    )
    return f"Set {name_of(best)}: {whole}."


def _facts(
    timed: Mapping[Changes, Raced], best: Changes, out: Mapping[str, str], cut: str
) -> Iterator[tuple[str, str]]:
    row = timed.get(best)
    own = next((each.own for each in timed.values()), None)
    if own is not None and own.device_ms:
        idle = 1 - own.device_ms / own.wall_ms
        if idle > IDLE:
            yield (
                "First",
                f"the GPU is idle for {percent(idle)} of your step: the CPU holds it back",
            )
    if row is not None:
        job = row.advice
        ends = interval(job.ratio_low, job.ratio_high)
        yield (
            "Your job",
            f"{ratio(job.ratio)} of the time{ends}, by {job.blocks} blocks, {STARTS[job.start]}",
        )
        ends = interval(job.step_ratio_low, job.step_ratio_high)
        times = f"{number(job.candidate_ms)} ms instead of {number(job.baseline_ms)} ms"
        yield "A step", f"{ratio(job.step_ratio)} of the time{ends}: {times}"
        yield (
            "Its start",
            f"{clock(job.extra_start_s)} later" if job.extra_start_s > 0 else "no later",
        )
        if job.candidate_first_bytes and job.baseline_first_bytes:
            text = f"{size(job.candidate_first_bytes)} instead of {size(job.baseline_first_bytes)}"
            yield "Memory", text
        same = "the same bits as" if row.keeps_bits else "other bits than"
        same = same if job.baseline_results else "not compared with"
        yield "Results", f"{same} your config's"
        if row.l2_error is not None and row.own.l2_error is not None:
            errors = f"{number(row.l2_error)} instead of {number(row.own.l2_error)}"
            yield "Error", f"{errors}, relative to float64"
    for place, (value, why) in enumerate(out.items()):
        yield "" if place else "Left out", f"{value}: {why}"
    if cut:
        yield "Cut", f"{cut}; the same command resumes the race"


def _table(timed: Mapping[Changes, Raced], best: Changes) -> Section:
    """Return a row a config, the shortest job first."""
    order = sorted(timed.items(), key=lambda item: item[1].advice.candidate_s)
    return Section(
        head=["raced", "a step", "of yours", "starts later", "job, of yours"],
        rows=[
            [
                name_of(changes) + " *" * (changes == best),
                milliseconds(row.advice.candidate_ms),
                ratio(row.advice.step_ratio),
                clock(row.advice.extra_start_s),
                f"{ratio(row.advice.ratio)}{interval(row.advice.ratio_low, row.advice.ratio_high)}",
            ]
            for changes, row in order
        ],
    )


def _lengths(asked: Mapping[Changes, Raced]) -> Section:
    """Return a table of the config to set in a job of each of LENGTHS steps."""
    rows = []
    for steps in LENGTHS:
        jobs = _jobs(asked, steps)
        best = _chosen(jobs)
        rows.append([f"{steps:,}", name_of(best), clock(jobs[best]), clock(jobs[OWN])])
    return Section(head=["steps", "set", "take", "as it is"], rows=rows)


def _advices(rows: Rows, options: AdviseOptions) -> dict[Changes, Advice | None]:
    """Return the advice on each config; None for one that the answer may not be."""
    return {
        changes: row.advice if isinstance(row, Raced) and not row.refused(options) else None
        for changes, row in rows.items()
    }


def _dimensions(timed: Mapping[Changes, Raced]) -> int:
    return next((row.advice.input_shape.count("x") + 1 for row in timed.values()), 0)
