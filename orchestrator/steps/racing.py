"""Races levers for `sweep advise` in a series of small sweeps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Section
from cudnn_sweep.analysis.results.advice import (
    DOES_NOT_FIT,
    FAILS,
    UNDECIDED,
    Advice,
    ConfigTrials,
    config_trials,
)
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
from cudnn_sweep.orchestrator.planning.sweep_selection import differs, lacks, new_sweep_id
from cudnn_sweep.orchestrator.running.run_sweep import Place, run_sweep
from cudnn_sweep.orchestrator.steps import levers
from cudnn_sweep.orchestrator.steps.advice_text import Answered
from cudnn_sweep.orchestrator.steps.levers import BENCHMARK, OWN, Changes
from cudnn_sweep.orchestrator.steps.one_step import (
    left_of_minutes_s,
    plan_step,
    stored_sweeps,
    suite_to_compare,
)
from cudnn_sweep.orchestrator.steps.step_options import AdviseOptions
from cudnn_sweep.orchestrator.terminal.say import say
from cudnn_sweep.workloads.cells.suite import UntilDecided
from cudnn_sweep.workloads.survey import Survey

SUITE = "race"
TIME_IS_UP = "the time limit is reached"
UNFINISHED = "some configs were not raced"
NOT_RACED = "not raced"
WHOLE_S = 600.0  # A process may take half of it. It is fixed because plan hashes depend on it.
UNTIL = UntilDecided(until="best", at_most=12)  # blocks
MOST_STAGES = 9  # one digit, because `stages` matches them with [1-9]
LITTLE = 1.005  # configs within this ratio of the best are considered equally fast
LENGTHS = (200, 2_000, 20_000, 200_000, 2_000_000)
IDLE = 0.25  # the answer mentions an idle GPU above this share of a step


@dataclass(frozen=True, kw_only=True)
class Raced(Answered):
    """Results of a race over all stages. Each config is compared with the user's own config."""

    best: Changes
    """The config to use. It may be the user's own."""
    advices: Mapping[Changes, Advice]
    trials: Mapping[Changes, ConfigTrials]
    out: Mapping[Changes, str]
    """Reason for each config that failed or is excluded by an option."""
    left_out: Mapping[str, str]
    cut: str = ""
    """Reason why the race ended early, or empty."""
    ways = ("yours", "this")
    long_ways = ("your config", "this config")

    @property
    def rows(self) -> dict[Changes, Advice | None]:
        """Advice by config. It is None for a config in `out`."""
        return {**self.advices, **dict.fromkeys(self.out)}

    @property
    def said(self) -> str:
        if self.fails:
            return FAILS
        is_sure = self.advice.ratio_high < 1 if self.advice else not self.cut
        return levers.name_of(self.best) if is_sure else UNDECIDED

    @property
    def setting(self) -> dict[str, str]:
        return dict(self.best)

    @property
    def search_s(self) -> float | None:
        """Seconds that benchmark's search adds to each start. None if unknown or negligible."""
        without = tuple(change for change in self.best if change not in BENCHMARK)
        row, rest = self.advice, self.advices.get(without)
        compiles = levers.config_of(self.best).how.compiles  # a compiler makes its own choice
        if row is None or self.said == UNDECIDED or compiles or without == self.best:
            return None
        if without and rest is None:
            return None
        rest_s, most_s = (rest.extra_start_s, rest.extra_start_s_high) if rest else (0.0, 0.0)
        is_noticed = row.extra_start_s_low - most_s > (LITTLE - 1) * row.candidate_s
        return row.extra_start_s - rest_s if is_noticed else None

    @property
    def lines(self) -> list[str]:
        dimensions = next((row.input_shape.count("x") + 1 for row in self.advices.values()), 0)
        return levers.lines_of(self.best, dimensions, self.options)

    @property
    def headline(self) -> str:
        job = self.advice
        if job is None:
            none = "So far, no" if self.cut else "No"
            return f"Leave your config as it is. {none} allowed setting makes your job shorter."
        if self.said == UNDECIDED:
            return f"Undecided: so far {levers.name_of(self.best)} is the fastest."
        times = f"{clock(job.candidate_s)} instead of {clock(job.baseline_s)}"
        return f"Set {levers.name_of(self.best)}: {job.job_steps:,} steps take {times}."

    def facts(self) -> Iterator[tuple[str, str]]:
        own = self.trials.get(OWN)
        busy = own and own.busy
        if busy and 1 - busy > IDLE:
            yield "GPU", f"waits for the CPU during {percent(1 - busy)} of your step"
        if self.advice is not None:
            is_sure = self.said != UNDECIDED and self.advice.is_for_candidate
            facts = self.facts_of(self.advice)
            yield from (fact for fact in facts if is_sure or fact[0] != "Because")
            if self.advice.baseline_results:
                same = "the same as" if _keeps_bits(self.advice) else "different from"
                yield "Bits", f"{same} your config's"
        if self.search_s:
            kept = "`sweep freeze` may replace it by rules that give the same kernels"
            yield "Search", f"takes {clock(self.search_s)} at each start; {kept}"
        this = self.trials.get(self.best)
        if own and this and this is not own and None not in (this.l2_error, own.l2_error):
            errors = f"{number(this.l2_error)} instead of {number(own.l2_error)}"
            yield "Error", f"{errors}, relative to float64"
        out = {levers.name_of(changes): why for changes, why in self.out.items()}
        for place, (value, why) in enumerate({**out, **self.left_out}.items()):
            yield "" if place else "Left out", f"{value}: {why}"
        if self.cut:
            yield "Ended early", f"{self.cut}; the same command resumes the race"

    def tables(self) -> Iterator[Section]:
        yield from super().tables()
        if not self.advices:
            return
        rows = sorted(self.advices.items(), key=lambda item: item[1].candidate_s)
        yield Section(
            head=["config", "a step", "ratio to yours", "starts later by", "job, ratio to yours"],
            rows=[
                [
                    levers.name_of(changes) + " *" * (changes == self.best),
                    milliseconds(row.candidate_ms),
                    ratio(row.step_ratio),
                    clock(row.extra_start_s),
                    f"{ratio(row.ratio)}{interval(row.ratio_low, row.ratio_high)}",
                ]
                for changes, row in rows
            ],
        )
        allowed = {changes: row for changes, row in self.advices.items() if changes not in self.out}
        jobs = {steps: jobs_s(allowed, steps) for steps in LENGTHS * bool(allowed)}
        yield Section(
            head=["steps", "config to set", "time", "time as it is"],
            rows=[
                [f"{steps:,}", levers.name_of(chosen(of)), clock(of[chosen(of)]), clock(of[OWN])]
                for steps, of in jobs.items()
            ],
        )

    def commands(self) -> Iterator[tuple[str, str]]:
        if self.cut:
            typed = self.options.minutes
            minutes = f" --minutes {typed:g}" if typed else ""
            yield "Resume", self.options.command() + minutes
        if self.search_s:
            yield "Without the search", levers.freeze_command(self.best, self.options)
        yield "Without measuring again", self.options.again

    def values(self) -> dict[str, object]:
        configs = [
            {
                "changes": dict(changes),
                "advice": self.advices.get(changes),
                "l2_error": self.trials[changes].l2_error,
                "failure": None if changes in self.advices else self.out[changes],
            }
            for changes in self.rows
        ]
        return {**super().values(), "configs": configs, "left_out": self.left_out, "cut": self.cut}


def race(options: AdviseOptions, machine: Survey, place: Place, console: Console) -> Raced:
    """Race levers in stages until no config or no time is left. Resume an unfinished race."""
    store = open_store(options.location)
    cell = _planned(options, machine, [OWN, BENCHMARK]).chosen.trials[0].cell
    fault_of = partial(levers.fault_of, cell=cell, machine=machine)
    changes, left_out = levers.offered(options, fault_of)
    limit = f"{options.limit_minutes:g} minutes"
    names = dict.fromkeys(lever for lever, _ in changes)
    say(console, f"Racing {', '.join(names)} on {machine.environment.gpu}, for at most {limit}.")

    def stages(name: str) -> Iterator[tuple[Sequence[Changes], Planned]]:
        rows: dict[Changes, Advice | None] = {}
        for stage in range(1, MOST_STAGES + 1):
            configs = levers.next_configs(rows, changes, fault_of)
            if not configs:
                return
            yield configs, _planned(options, machine, configs, f"{name}-{stage}")
            so_far = f"{name}*-[1-{stage}]"  # the * makes it a pattern
            rows = raced(options, store, so_far).rows

    def is_unfinished(name: str) -> bool:
        """Return whether the race has trials left, and the same plans, hardware and software."""
        states = {state.sweep_id: state for state in store.sweeps()}
        for stage, (_, planned) in enumerate(stages(name), 1):
            state = states.get(planned.request.options.sweep_id or "")
            if state is None:
                return stage > 1
            if state.plan_hash != planned.chosen.plan_hash or differs(state, planned):
                return False
            if lacks(store, state, planned.chosen):
                return True
        return False

    name, cut = next(filter(is_unfinished, stored_names(store, options)), new_sweep_id()), ""
    for stage, (configs, planned) in enumerate(stages(name), 1):
        least_s = planned.chosen.first_look().estimated_s(1, gpu=True)
        if stage > 1 and left_of_minutes_s(options) < least_s / UNTIL.looks[0]:
            cut = TIME_IS_UP
            break
        least = f"about {duration(least_s)} to the first interim analysis"
        say(console, f"Stage {stage}: {', '.join(map(levers.name_of, configs))}; {least}.")
        ran = run_sweep(planned, place, console)
        if not ran.is_complete:
            cut = ran.progress.stopped or TIME_IS_UP
            break
    found = raced(options, store, f"{name}-*")
    ran.check_not_stopped(is_decided=bool(found.advices))
    return replace(found, left_out={**found.left_out, **left_out}, cut=cut)


def raced(options: AdviseOptions, store: Store, sweeps: str) -> Raced:
    """Return the results of a race for the levers of the options. `sweeps` is a pattern of ids."""
    rows = Advice.of(store, sweeps, **USUAL.values(), **options.job.values())
    found = race_of(options, sweeps, config_trials(store, sweeps), rows)
    there = {*chain(*found.rows)}
    named = [change for change in levers.named_changes(options) if change in there]
    left = levers.next_configs(found.rows, named, partial(levers.fault_together, options=options))
    is_last = sweeps.replace("*", str(MOST_STAGES)) in store.sweep_ids()
    why = NOT_RACED + f" in {MOST_STAGES} stages" * is_last
    left_out = {levers.name_of(each): why for each in left if each not in {OWN, *found.trials}}
    cut = UNFINISHED * bool(left_out and not is_last)
    return replace(found, left_out={**found.left_out, **left_out}, cut=cut)


def race_of(
    options: AdviseOptions, sweeps: str, configs: Iterable[ConfigTrials], rows: Iterable[Advice]
) -> Raced:
    named = levers.named_changes(options)
    by_config = {levers.changes_of(row.settings): row for row in configs}
    trials = {changes: row for changes, row in by_config.items() if {*changes} <= {*named}}
    advices = {
        (row.asked, levers.changes_of(row.other_settings.partition(" beside ")[0])): row
        for row in sorted(rows, key=lambda row: row.blocks)
        if row.ratio is not None
    }
    asked = {at: advices[True, at] for at in trials if (True, at) in advices}
    out = {
        changes: why
        for changes, row in trials.items()
        if (why := _refused(asked[changes], options) if changes in asked else _failed(row))
    }
    best = chosen(jobs_s({changes: row for changes, row in asked.items() if changes not in out}))
    there = {change for changes in (*asked, *out) for change in changes}
    return Raced.of(
        options,
        sweeps,
        [trials[OWN]] if OWN in trials else [],
        advice=asked.get(best),
        other=advices.get((False, best)),
        best=best,
        advices=asked,
        trials=trials,
        out=out,
        left_out={levers.name_of((each,)): NOT_RACED for each in named if each not in there},
    )


def stored_names(store: Store, options: AdviseOptions) -> list[str]:
    """Return the names of the stored races of this step, the newest first."""
    ids = stored_sweeps(store, options, SUITE, on_gpu=True)
    return list(dict.fromkeys(sweep_id.rpartition("-")[0] for sweep_id in ids))


def stored_race(options: AdviseOptions) -> Raced | None:
    """Return the newest stored race of this step that has results for the levers, or None."""
    store = open_store(options.location)
    races = (raced(options, store, f"{name}-*") for name in stored_names(store, options))
    return next((found for found in races if found.advices or found.out), None)


def jobs_s(rows: Mapping[Changes, Advice], steps: int | None = None) -> dict[Changes, float]:
    """Return the seconds that a job takes, by config. `steps` replaces the job's step count."""

    def job_s(row: Advice, side: str) -> float:
        more = 0 if steps is None else steps - row.job_steps
        values = vars(row)
        return float(values[f"{side}_s"] + more * values[f"{side}_ms"] / 1000)

    jobs = {changes: job_s(row, "candidate") for changes, row in rows.items()}
    most = max(rows.values(), key=lambda row: row.blocks, default=None)
    return {OWN: job_s(most, "baseline") if most else 0.0} | jobs


def chosen(jobs: Mapping[Changes, float]) -> Changes:
    """Return the fastest config. Of equally fast ones, return the one with the fewest changes."""
    near = [changes for changes in jobs if jobs[changes] <= LITTLE * min(jobs.values())]
    return min(near, key=lambda changes: (len(changes), jobs[changes]))


def _planned(
    options: AdviseOptions, machine: Survey, configs: Sequence[Changes], sweep_id: str | None = None
) -> Planned:
    stage, float64 = list(map(levers.config_of, configs)), bool(options.allow)
    suite = suite_to_compare(options, float64=float64, configs=stage, until=UNTIL)
    return plan_step(
        options,
        suite,
        machine,
        suite_name=SUITE,
        sweep_id=sweep_id,
        job=options.job,
        whole_s=WHOLE_S,
    )


def _keeps_bits(row: Advice) -> bool:
    return bool(0 < row.blocks == row.blocks_with_same_bits)


def _refused(row: Advice, options: AdviseOptions) -> str | None:
    if row.candidate_failed > row.baseline_failed and row.advice in (DOES_NOT_FIT, FAILS):
        return str(row.advice)
    limit = options.memory_limit
    if limit is not None and (row.candidate_first_bytes or 0) > limit * GIB:
        return f"needs {size(row.candidate_first_bytes)}"
    return "computes other bits" if options.same_bits and not _keeps_bits(row) else None


def _failed(trials: ConfigTrials) -> str | None:
    if trials.times_ms or not trials.failures:
        return None
    return str(trials.failures[0]["message"]).splitlines()[0]
