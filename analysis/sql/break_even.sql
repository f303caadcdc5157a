-- After how many iterations has a setting's extra cold cost paid for itself?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $sweep_id TEXT = NULL: one sweep; all where null
--
-- A row a cell and state of the compute cache (empty, warm, disabled; none without CUDA). tuning_ms
-- is the candidate's cold cost, the first calls of all shapes, less the baseline's in that state
-- (with field compute_cache_disabled: in the state that the one with a cache met). gain_ms is the
-- baseline's time per iteration less the candidate's, over every block. Outcomes:
--     after         the candidate is ahead after break_even_iterations
--     at once       it costs no more to start, and gains
--     until         it costs less to start, loses by the iteration, is ahead until then
--     never         it costs no less to start, and loses by the iteration
--     inconclusive  fewer than two blocks, or the gain's interval holds zero; where there is a
--                   break_even_low, payback does not come before that
--     open loop     new shapes never end, so that searches are within the time per iteration
--     no_effect     the setting cannot have mattered: see no_effect_reason
-- Intervals are 95% t intervals over blocks. break_even_low and _high divide their ends, the worst
-- and best with each other; a tuning cost from a single block counts there as exact.
with blocks as materialized (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, other_settings, loop_kind) as cell,
        candidate_cold_ms - baseline_cold_ms as tuning_ms,
        if(loop_kind = 'closed', baseline_ms - candidate_ms, null) as gain_ms
    from block_pairs($field, $baseline, $candidate, $sweep_id)
    where pairing = 'paired'
),

cells as (
    select
        cell,
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(workload) as workload,
        any_value(problem) as problem,
        any_value(direction) as direction,
        any_value(input_shape) as input_shape,
        any_value(regime) as regime,
        any_value(state) as state,
        any_value(precision) as precision, -- noqa: RF04
        any_value(layout) as layout,
        any_value(gpu) as gpu,
        any_value(other_settings) as other_settings,
        any_value(loop_kind) as loop_kind,
        any_value(no_effect_reason) as no_effect_reason,
        count(gain_ms) as gain_blocks,
        avg(gain_ms) as gain_ms,
        t_95(count(gain_ms) - 1) * standard_error(gain_ms) as gain_margin_ms,
        avg(gain_ms) - gain_margin_ms as gain_ms_low,
        avg(gain_ms) + gain_margin_ms as gain_ms_high,
        any_value(cell_id) as cell_id,
        any_value(env_hash) as env_hash,
        any_value(software_hash) as software_hash
    from blocks
    group by cell
),

tuned as (
    select
        cell,
        compute_cache,
        count(tuning_ms) as tuning_blocks,
        avg(tuning_ms) as tuning_ms,
        t_95(count(tuning_ms) - 1) * standard_error(tuning_ms) as tuning_margin_ms,
        avg(tuning_ms) - tuning_margin_ms as tuning_ms_low,
        avg(tuning_ms) + tuning_margin_ms as tuning_ms_high
    from blocks
    where compute_cache is not null
    group by cell, compute_cache
),

joined as (
    select
        cells.*,
        tuned.* exclude (cell), -- noqa: RF02
        coalesce(tuned.tuning_ms_low, tuned.tuning_ms) as least_tuning_ms,
        coalesce(tuned.tuning_ms_high, tuned.tuning_ms) as most_tuning_ms
    from cells
    inner join tuned on cells.cell = tuned.cell
),

decided as (
    select
        *,
        case
            when no_effect_reason is not null then 'no_effect'
            when loop_kind = 'open' then 'open loop'
            when gain_ms_low > 0 then if(tuning_ms > 0, 'after', 'at once')
            when gain_ms_high < 0 then if(tuning_ms < 0, 'until', 'never')
            else 'inconclusive'
        end as outcome
    from joined
),

bounded as (
    select
        *,
        case outcome
            when 'after' then tuning_ms / gain_ms
            when 'at once' then 0
            when 'until' then tuning_ms / gain_ms
        end as break_even_iterations,
        case
            when outcome in ('after', 'at once') then greatest(least_tuning_ms, 0) / gain_ms_high
            when outcome = 'until' then greatest(-most_tuning_ms, 0) / -gain_ms_low
            when outcome = 'inconclusive' and least_tuning_ms > 0 and gain_ms_high > 0
                then least_tuning_ms / gain_ms_high
        end as break_even_low,
        case
            when outcome in ('after', 'at once') then greatest(most_tuning_ms, 0) / gain_ms_low
            when outcome = 'until' then least_tuning_ms / gain_ms_high
        end as break_even_high
    from decided
)

select
    workload,
    problem,
    direction,
    input_shape,
    regime,
    state,
    precision,
    layout,
    gpu,
    contrast,
    other_settings,
    loop_kind,
    compute_cache,
    outcome,
    break_even_iterations,
    break_even_low,
    break_even_high,
    tuning_blocks,
    tuning_ms,
    tuning_ms_low,
    tuning_ms_high,
    gain_blocks,
    gain_ms,
    gain_ms_low,
    gain_ms_high,
    no_effect_reason,
    cell_id,
    env_hash,
    software_hash
from bounded
order by
    gpu, workload, problem, direction, input_shape, regime, state, precision, layout,
    other_settings, software_hash, loop_kind, compute_cache
