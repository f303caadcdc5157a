"""Decides whether a code change makes a step slower, for `sweep gate`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console

from cudnn_sweep.analysis.answers.answer import Answer
from cudnn_sweep.analysis.engine.database import Database, open_database
from cudnn_sweep.analysis.engine.queries import literal
from cudnn_sweep.analysis.engine.settings import as_text
from cudnn_sweep.analysis.results.advice import kernel_changes
from cudnn_sweep.analysis.results.answers import AnswerRow
from cudnn_sweep.analysis.results.verdicts import Verdict
from cudnn_sweep.analysis.words import printable
from cudnn_sweep.orchestrator.errors import ModelError, SpecError
from cudnn_sweep.orchestrator.gating.answer import Gate, State
from cudnn_sweep.orchestrator.gating.sides import Side, scratch_for_gate, sides_of
from cudnn_sweep.orchestrator.planning.plan import first_calls
from cudnn_sweep.orchestrator.planning.request import Planned
from cudnn_sweep.orchestrator.running.run_sweep import Place, Ran, run_sweep
from cudnn_sweep.orchestrator.steps.one_step import LOOKING, UNTIL, plan_step, suite_of
from cudnn_sweep.orchestrator.steps.step_options import GateOptions, TurnOptions
from cudnn_sweep.orchestrator.terminal.say import say, warn
from cudnn_sweep.workloads.cells.config import Config
from cudnn_sweep.workloads.cells.measurement import MeasureSpec
from cudnn_sweep.workloads.cells.suite import SuiteSpec, WithoutGpu

MEASURE = MeasureSpec(
    reference_replicates=0,
    logged_replicates=0,
    calibrate=False,
    steady_budget_s=1.0,
    device_budget_s=0.3,
)
GATES = 4000  # simulated gates, enough to know a rate of 1% within 0.3%
FOUND = 0.8  # share of simulated gates that find the reported slowdown
SETTINGS_APART = ["torch", "cudnn", "cuda", "driver", "python", "ray", "version"]

# Compares base with head (kind null), base with base, and head with head.
PAIRS = """
with pairs as (
    select null as kind, log_ratio(candidate_ms, baseline_ms) as log_ratio, wall_elsewhere
    from block_pairs('code', $base_text, $head_text, $sweep_id)
    where pairing = 'paired'
    union all
    select
        if(list_contains(string_split(other_settings, ', '), 'code=' || $base_text), 'base', 'head'),
        log_ratio(candidate_ms, baseline_ms),
        null
    from block_pairs('twin', '0', '1', $sweep_id)
    where pairing = 'paired'
),

kinds as (
    select
        kind,
        count(*) as pairs,
        avg(log_ratio) as mean,
        max(max(wall_elsewhere)) over () as elsewhere,
        (sum(count(*) - 1) over ())::bigint + if(elsewhere is null, 0, 1) as df,
        sum(var_pop(log_ratio) * count(*)) over () + coalesce(elsewhere, 0) as squares,
        sqrt(squares / nullif(df, 0)) as scatter
    from pairs
    where log_ratio is not null
    group by kind
)

select
    kind,
    pairs,
    exp(mean) as ratio,
    exp(mean - t_95(df) * scatter / sqrt(pairs)) as ratio_low,
    exp(mean + t_95(df) * scatter / sqrt(pairs)) as ratio_high,
    sqrt(elsewhere) as prior,
    scatter
from kinds
where df > 0
order by kind nulls first
"""
# Quantile of Student's t at each interim analysis, with at most `$most` blocks.
LOOKS = f"""
select
    blocks,
    t_exceeded(
        0.05 * (if(blocks = $most, 1, spent(number, {len(UNTIL.looks)})) - spent(number - 1, {len(UNTIL.looks)})),
        blocks - $lacks
    ) as quantile
from unnest(list_append(list_filter({list(UNTIL.looks)}, lambda look: look < $most), $most))
with ordinality as looks (blocks, number)
where blocks > $lacks
"""


def gate(options: GateOptions, console: Console, place: Place) -> Answer:
    with scratch_for_gate() as scratch:
        sides = sides_of(options.base, options.head, scratch, exact=options.exact)
        base, head = sides.base, sides.head
        for note in sides.notes:
            warn(console, note)
        say(console, LOOKING.format(workload=options.workload))
        planned, faults = _look(options, base, head, place, console)
        if planned is not None and head.label not in faults:
            found = compared(options, planned, base, head, place, console)
        else:
            found = Gate(
                workload=options.workload,
                base=base.label,
                head=head.label,
                gpu=planned.machine.environment.gpu if planned else "",
                threshold=options.min_effect,
                state="broken" if planned else "cannot tell yet",
                messages=faults,
            )
        found = replace(found, notes=sides.notes, passes_undecided=options.cannot_tell == "ok")
        if changed := sides.changed():
            found = replace(found, changed=changed, state="cannot tell yet")
    return found.answer()


def with_sides(options: TurnOptions, suite: SuiteSpec, base: Side, head: Side) -> SuiteSpec:
    """Return the suite with a config for each side and a twin in each block."""
    configs = [Config(benchmark=options.benchmark, code=side.label) for side in (base, head)]
    changed = {"configs": configs, "replicates": UNTIL, "twin_every": 1}
    return suite.model_copy(update={**changed, "without_gpu": WithoutGpu()})


def _look(
    options: GateOptions, base: Side, head: Side, place: Place, console: Console
) -> tuple[Planned | None, dict[str, str]]:
    """Plan the step with head or, if head fails, with base. Return the plan and the errors. The
    plan is None if both sides fail. Raises SpecError if the command is wrong."""
    suite = with_sides(options, suite_of(options, UNTIL, MEASURE), base, head)
    faults: dict[str, str] = {}
    typed: SpecError | None = None
    for side in (head, base):
        try:
            with side.entered():
                planned = plan_step(
                    options,
                    suite,
                    place.look(suite),
                    suite_name="gate",
                    codes={base.label: base.code, head.label: head.code},
                    min_effect=options.min_effect,
                    one_sided=True,
                )
                if side.code.python is None:
                    place.call(first_calls(planned.chosen), planned.machine, console)
            return planned, faults
        except SpecError as error:
            typed = typed if isinstance(error, ModelError) else error
            faults[side.label] = printable(str(error))
    if typed is not None and len(set(faults.values())) == 1:
        raise typed
    return None, faults


def compared(
    options: TurnOptions, planned: Planned, base: Side, head: Side, place: Place, console: Console
) -> Gate:
    """Run a sweep of two sides. Raises UnfinishedError if the sweep stops undecided."""
    ran = run_sweep(planned, place, console)
    store, sweep_id = ran.store, ran.session.sweep_id
    base_text, head_text = as_text(base.label), as_text(head.label)
    row = verdict_of(ran, "code", base_text, head_text)
    with open_database(store, sweep_id) as database:
        kernels = kernel_changes(database, sweep_id, f"code = {literal(head.label)}", kind=None)
        values = {"base_text": base_text, "head_text": head_text, "sweep_id": sweep_id}
        pairs = [AnswerRow(**pair) for pair in database.query(PAIRS, values).to_pylist()]
        budget_s = 60 * (planned.request.budget_minutes or 0)
        false_alarms, least_found = _power(database, options, pairs, row, budget_s)
    trials = store.snapshot(sweep_id).table(["code", "message", *SETTINGS_APART]).to_pylist()
    of_base = [trial for trial in trials if trial["code"] == base.label]
    of_head = [trial for trial in trials if trial["code"] == head.label]
    messages = {t["code"]: printable(t["message"]) for t in (*of_base, *of_head) if t["message"]}
    answer = Gate(
        workload=options.workload,
        base=base.label,
        head=head.label,
        gpu=planned.machine.environment.gpu,
        sweep_id=sweep_id,
        threshold=options.min_effect,
        state=state_of(row),
        row=row,
        alone=[pair for pair in pairs if pair.kind is not None],
        false_alarms=false_alarms,
        least_found=least_found,
        kernels=kernels,
        different={
            name: (str(before[name]), str(after[name]))
            for before, after in zip(of_base, of_head, strict=False)
            for name in SETTINGS_APART
            if before[name] != after[name]
        },
        messages=messages,
        results=options.where(),
    )
    ran.check_not_stopped(is_decided=answer.state != "cannot tell yet")
    return answer


def _power(
    database: Database,
    options: TurnOptions,
    pairs: Sequence[AnswerRow],
    row: Verdict | None,
    budget_s: float,
) -> tuple[float, float] | tuple[None, None]:
    """Return `power` within the time limit, or (None, None) if no pair has both sides."""
    if row is None or not pairs or pairs[0].kind is not None:
        return None, None
    allowed = int(budget_s / row.block_s) if row.block_s else 0
    most = min(max(row.blocks, allowed), UNTIL.at_most)
    prior, scatter = pairs[0].prior, pairs[0].scatter
    looks = database.query(LOOKS, {"most": most, "lacks": int(prior is None)}).to_pylist()
    quantiles = {look["blocks"]: look["quantile"] for look in looks}
    return power(scatter, prior, options.min_effect, quantiles)


def power(
    scatter: float, prior: float | None, threshold: float, quantiles: Mapping[int, float]
) -> tuple[float, float]:
    """Simulate gates. Return the rate of false alarms, and the slowdown that four of five find.
    `scatter` is the standard deviation of a pair's log ratio. `prior` is another estimate of it
    with one degree of freedom, or None. `quantiles` maps the number of pairs at each interim
    analysis to a quantile of Student's t."""
    noise = scatter * np.random.default_rng(0).standard_normal((GATES, max(quantiles)))
    slowdowns = []
    for pairs, quantile in quantiles.items():
        seen = noise[:, :pairs]
        squares, df = pairs * seen.var(axis=1), pairs - 1
        if prior is not None:
            squares, df = squares + prior**2, pairs
        error = np.sqrt(squares / df / pairs)
        slowdowns.append(math.log1p(threshold) + quantile * error - seen.mean(axis=1))
    least = np.min(slowdowns, axis=0)  # smallest slowdown that any interim analysis finds
    return float(np.mean(least <= 0)), math.expm1(np.quantile(least, FOUND))


def verdict_of(ran: Ran, field: str, baseline: str, candidate: str) -> Verdict | None:
    """Return the verdict of the cell with the most blocks, or None if there is none."""
    contrast = {"field": field, "baseline": baseline, "candidate": candidate}
    least, sweep_id = ran.session.min_effect, ran.session.sweep_id
    rows = Verdict.of(ran.store, sweep_id, **contrast, min_effect=least)
    return max(rows, key=lambda row: row.blocks, default=None)


def state_of(row: Verdict | None) -> State:
    if row is None:
        return "cannot tell yet"
    head_alone_fails = not row.blocks and row.candidate_failed and not row.baseline_failed
    if row.wall_verdict == "fails" or head_alone_fails:
        return "broken"
    if row.wall_verdict == "hurts":
        return "slower"
    if row.wall_verdict in ("helps", "equivalent") or row.not_slower:
        return "faster" if row.ratio_high < 1 else "not slower"
    return "cannot tell yet"
