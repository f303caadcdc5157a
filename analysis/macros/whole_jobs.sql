-- Return one row for each cell, set of other settings, number of steps, and state of the compute
-- cache at the start. sql/advice.sql explains the parameters. `of_steps` is a list. The method is
-- explained in docs/your-model.md (What the answer rests on).
create or replace macro jobs_weighed(
    flag, from_value, to_value, of_steps, of_hours, of_state, of_runs, limit_gib, difference,
    width, of_sweep, is_over
) as table
with blocks as materialized (
    select
        * rename (judged_cell as cell),
        loop_kind = 'open' as is_open
    from block_pairs(flag, from_value, to_value, of_sweep, is_over := is_over)
),

places as (
    select
        cell_id,
        any_value(list_transform(listed_shapes, lambda each: each.count::double)) as counts,
        max(gpu_memory_bytes) as gpu_memory_bytes
    from records
    group by cell_id
),

-- In an open loop over listed shapes, most steps take as long as a shape's second call.
timed as materialized (
    select
        blocks.*,
        places.counts,
        places.gpu_memory_bytes,
        blocks.is_open and places.counts is not null as is_listed_open,
        if(is_listed_open, list_avg(blocks.baseline_second_ms), blocks.baseline_ms) as b_ms,
        if(is_listed_open, list_avg(blocks.candidate_second_ms), blocks.candidate_ms) as c_ms
    from blocks
    inner join places on blocks.cell_id = places.cell_id
),

sides as (
    select
        cell,
        any_value(columns([
            'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'other_settings', 'loop_kind',
            'in_turns', 'no_effect_reason'
        ])),
        any_value(share) as error_share,
        count(*) as planned,
        count(*) filter (where present = 'both') as recorded_blocks,
        max(at_most) as at_most,
        count(*) filter (where baseline_failed) as baseline_failed,
        count(*) filter (where candidate_failed) as candidate_failed,
        max(baseline_peak_reserved_bytes) as baseline_first_bytes,
        max(candidate_peak_reserved_bytes) as candidate_first_bytes,
        max(columns(['baseline_steady_reserved_bytes', 'candidate_steady_reserved_bytes'])),
        count(log_ratio(c_ms, b_ms)) filter (where is_counted) as blocks,
        max(shapes) filter (where is_counted) as shapes_met,
        exp(avg(log_of(b_ms)) filter (where is_counted)) as baseline_ms,
        exp(avg(log_of(c_ms)) filter (where is_counted)) as candidate_ms,
        coalesce(var_pop(log_of(b_ms)) filter (where is_counted) * blocks, 0) as b_squares,
        coalesce(var_pop(log_of(c_ms)) filter (where is_counted) * blocks, 0) as c_squares,
        sum(launch_bound) filter (where is_counted)
        > 0.5 * nullif(sum(launch_bound_known) filter (where is_counted), 0) as waits_for_cpu,
        coalesce(
            count(*) filter (where is_counted and list_contains(warnings, 'power_capped'))
            > 0.5 * count(*) filter (where is_counted),
            false
        ) as power_capped,
        count(*) filter (where is_counted and same_bits) as blocks_with_same_bits,
        any_value(counts) as counts,
        max(gpu_memory_bytes) as gpu_memory_bytes,
        bool_or(is_open) as is_open
    from timed
    group by cell
    having bool_or(present <> 'candidate') and bool_or(present <> 'baseline')
),

-- Few blocks give a poor estimate of their scatter, so the scatter of other cells is pooled with
-- it. The scatter of closed loops is from 142 cells of analysis/reference and
-- docs/results/h200-2026-11-22/turns. The scatter of open loops is from 10 cells.
cells as materialized (
    select
        sides.* exclude (cell, b_squares, c_squares, waits_for_cpu),
        sides.cell as timed_cell,
        lengths.steps,
        concat_ws('|', sides.cell, lengths.steps) as cell,
        coalesce(waits_for_cpu, false) as launch_bound,
        coalesce(waits_for_cpu, true) as may_wait, -- true if device times are unknown
        if(is_open, 0.11 ** 2, block_variance(may_wait)) as pair_prior,
        case when is_open then 0.08 when may_wait then 0.05 else 0.003 end ** 2
            as process_prior,
        (b_squares + process_prior) / nullif(blocks, 0) as baseline_scatter,
        (c_squares + process_prior) / nullif(blocks, 0) as candidate_scatter,
        greatest(coalesce((3600000 * of_hours / baseline_ms)::bigint, lengths.steps), 1)
            as job_steps,
        case
            when counts is not null
                then greatest(list_sum(list_transform(
                    counts, lambda each: 1 - (1 - each / list_sum(counts)) ** job_steps
                )), 1)
            when is_open then shapes_met
            else least(shapes_met, job_steps)
        end as first_calls,
        greatest(job_steps - first_calls, 0) as others
    from sides
    cross join unnest(of_steps) as lengths (steps)
),

costs as materialized (
    select
        cells.cell,
        coalesce(timed.compute_cache, '') as compute_cache,
        coalesce(timed.baseline_one_time_ms, 0) as b_one_ms,
        coalesce(timed.candidate_one_time_ms, 0) - b_one_ms as extra_one_ms,
        list_avg(timed.baseline_first_ms[2:timed.shapes]) as b_later_ms,
        list_avg(timed.candidate_first_ms[2:timed.shapes]) as c_later_ms,
        b_one_ms + timed.baseline_first_ms[1]
        + (cells.first_calls - 1) * coalesce(b_later_ms, timed.baseline_first_ms[1])
            as b_start_ms,
        b_one_ms + extra_one_ms / 2 + timed.candidate_first_ms[1]
        + (cells.first_calls - 1) * coalesce(c_later_ms, timed.candidate_first_ms[1])
            as c_start_ms
    from timed
    inner join cells on timed.cell = cells.timed_cell
    where timed.is_counted and timed.shapes > 0
),

apart as (
    select
        cell,
        compute_cache,
        count(*) as starts,
        var_pop(log_of(b_start_ms)) * count(*) as b_squares,
        var_pop(log_of(c_start_ms)) * count(*) as c_squares
    from costs
    group by cell, compute_cache
),

-- The starts of a job are pooled with a scatter of 11%, with 3 degrees of freedom. It is the
-- scatter of 551 starts in docs/results/h200-2026-11-22/turns.
scattered as (
    select
        cell,
        sum(starts) - count(*) + 3 as df,
        (sum(b_squares) + 3 * 0.11 ** 2) / df as b_scatter,
        (sum(c_squares) + 3 * 0.11 ** 2) / df as c_scatter
    from apart
    group by cell
),

states as (
    select
        unnest(['container', 'warm']) as start, -- noqa: RF04
        unnest(['empty', 'warm']) as cache, -- noqa: RF04
        if(
            of_state in ('container', 'warm'), start = of_state,
            error('state: found ' || of_state || ', allowed are container and warm')
        ) as asked
),

started as (
    select
        cells.cell,
        states.start,
        any_value(states.asked) as asked,
        count(costs.c_start_ms) as start_blocks,
        avg(costs.b_start_ms) as b_start_ms,
        avg(costs.c_start_ms) as c_start_ms,
        avg(costs.extra_one_ms) as extra_one_ms,
        avg(costs.c_later_ms - costs.b_later_ms) as new_shape_ms
    from cells
    cross join states
    left join costs
        on cells.cell = costs.cell and costs.compute_cache in (states.cache, 'none', 'disabled')
    group by cells.cell, states.start
),

wholes as materialized (
    select
        cells.*,
        started.* exclude (cell),
        concat_ws('|', cells.cell, started.start) as whole,
        started.b_start_ms + cells.others * cells.baseline_ms as whole_baseline_ms,
        started.c_start_ms + cells.others * cells.candidate_ms as whole_candidate_ms,
        cells.others * cells.baseline_ms / whole_baseline_ms as b_share,
        cells.others * cells.candidate_ms / whole_candidate_ms as c_share,
        started.b_start_ms / whole_baseline_ms as b_start_share,
        started.c_start_ms / whole_candidate_ms as c_start_share
    from cells
    inner join started on cells.cell = started.cell
),

-- log ratios of each block, for the whole job and for a single step; null in states of the compute
-- cache in which no process started
logs as materialized (
    select
        wholes.whole as cell,
        timed.choice,
        timed.other_settings || (timed.no_effect_reason is null)::text || wholes.start
        || wholes.steps as pool,
        'whole' as clock,
        wholes.c_share * ln(timed.c_ms) - wholes.b_share * ln(timed.b_ms) as observed
    from timed
    inner join wholes on timed.cell = wholes.timed_cell
    where timed.is_counted and timed.b_ms > 0 and timed.c_ms > 0
    union all
    select
        cell,
        choice,
        other_settings || (no_effect_reason is null)::text as pool,
        'step' as clock,
        ln(c_ms / b_ms) as observed
    from timed
    where
        is_counted and b_ms > 0 and c_ms > 0
        and cell in (select timed_cell from wholes)
),

seen as materialized (from over_choices('logs')),

spreads as (from job_spreads('wholes', 'scattered', 'seen', of_runs)),

-- `t_half` is slow, so it is called once for each df and error_share.
quantiles as materialized (
    select
        df,
        error_share,
        t_half(df, error_share) as own,
        t_half(1000, error_share) as own_uniform,
        -- for a 90% interval, or for a wider one if error_share is below 1
        if(error_share = 1, t_90(df), t_exceeded(0.05 * error_share, df)) as half,
        if(error_share = 1, t_90(1000), t_exceeded(0.05 * error_share, 1000)) as half_uniform,
        normal_above(0.05 * error_share) as own_z
    from wholes
    left join spreads on wholes.whole = spreads.whole
    group by df, error_share
),

-- This is a separate step, because DuckDB computes an alias anew at each use in the same select.
spread_wholes as (
    select
        wholes.*,
        spreads.* exclude (whole), -- noqa: RF02
        ln(wholes.whole_candidate_ms / wholes.whole_baseline_ms) as log, -- noqa: RF04
        t_95(spreads.run_df) as of_run,
        t_95(spreads.df) as of_mean,
        t_95(1000) as of_uniform,
        quantiles.* exclude (df, error_share) -- noqa: RF02
    from wholes
    left join spreads on wholes.whole = spreads.whole
    left join quantiles
        on
            spreads.df is not distinct from quantiles.df
            and wholes.error_share is not distinct from quantiles.error_share
),

weighed as (
    select
        wholes.*,
        exp(log - half_width(of_run * run_low, of_uniform, uniform)) as ratio_low,
        exp(log + half_width(of_run * run_high, of_uniform, uniform)) as ratio_high,
        exp(log - half_width(of_mean * measured_low, of_uniform, uniform)) as mean_ratio_low,
        exp(log + half_width(of_mean * measured_high, of_uniform, uniform)) as mean_ratio_high,
        log - half_width(own * measured_low, own_uniform, uniform) as own_low,
        log + half_width(own * measured_high, own_uniform, uniform) as own_high,
        greatest(
            -log + half_width(half * measured_low, half_uniform, uniform),
            log + half_width(half * measured_high, half_uniform, uniform)
        ) as farthest,
        ln(1 + difference) as least, -- noqa: RF04
        1 - p_of_gap(abs(log), if(log < 0, wholes.se_high, wholes.se_low), wholes.df) as sure,
        if(abs(log) > least, abs(log), least - abs(log)) as gap,
        nullif(least(greatest(ceil(
            blocks_within(
                gap, greatest(wholes.se_low, wholes.se_high), 0, wholes.blocks - 1, wholes.own_z
            ) - wholes.blocks
        ), 1), 1001), 1001)::bigint as lacking,
        steps.mean as step_log,
        exp(steps.mean - t_95(steps.df) * steps.se_low) as step_ratio_low,
        exp(steps.mean + t_95(steps.df) * steps.se_high) as step_ratio_high,
        wholes.c_start_ms - wholes.b_start_ms as extra_start_ms,
        t_95(scattered.df::bigint) * sqrt(
            (
                wholes.c_start_ms ** 2 * scattered.c_scatter
                + wholes.b_start_ms ** 2 * scattered.b_scatter
            ) / nullif(wholes.start_blocks, 0)
            + wholes.extra_one_ms ** 2 / 12
        ) as extra_margin_ms,
        wholes.baseline_ms * (1 - exp(step_log)) as gain_ms,
        wholes.baseline_ms * (1 - step_ratio_high) as gain_ms_low,
        wholes.baseline_ms * (1 - step_ratio_low) as gain_ms_high,
        limit_gib * 1073741824 as limit_bytes
    from spread_wholes as wholes
    left join scattered on wholes.cell = scattered.cell
    left join seen as steps on wholes.timed_cell = steps.cell and steps.clock = 'step'
),

judged_rows as (
    select
        weighed.*,
        outcomes.* exclude (place), -- noqa: RF02
        replace(replace(to_value, 'true', 'on'), 'false', 'off') as to_candidate, -- noqa: RF02
        replace(replace(from_value, 'true', 'on'), 'false', 'off') as to_baseline, -- noqa: RF02
        coalesce(weighed.candidate_first_bytes > weighed.limit_bytes, false) as over_limit,
        coalesce(weighed.baseline_first_bytes > weighed.limit_bytes, false) as both_over_limit,
        case
            when weighed.no_effect_reason is not null then 'no difference'
            when over_limit or both_over_limit then 'does not fit'
            when
                outcomes.candidate_out_of_memory > 0
                and weighed.candidate_failed >= weighed.baseline_failed
                then 'does not fit'
            when
                surely_fails(
                    greatest(weighed.candidate_failed, weighed.baseline_failed),
                    least(weighed.candidate_failed, weighed.baseline_failed),
                    weighed.planned, weighed.blocks, weighed.error_share
                )
                then 'fails'
            when weighed.candidate_failed = weighed.planned then 'fails'
            when weighed.own_low is null then 'undecided'
            when weighed.farthest < weighed.least then 'no difference'
            when weighed.own_high < 0 then to_candidate
            when weighed.own_low > 0 then to_baseline
            else 'undecided'
        end as advice
    from weighed
    left join outcomes_of(flag, from_value, to_value, of_sweep) as outcomes
        on
            concat_ws(
                '|', weighed.cell_id, weighed.env_hash, weighed.software_hash,
                weighed.other_settings
            ) = outcomes.place
),

advised as (
    select
        *,
        case
            when advice = 'fails' and candidate_failed < baseline_failed then to_candidate
            when advice = to_candidate then to_candidate
            else to_baseline
        end as setting,
        why_advised(judged_rows, difference) as why,
        if(
            no_effect_reason = 'no_cuda', null,
            max(b_start_ms) filter (where start = 'container') over both_starts
            - max(b_start_ms) filter (where start = 'warm') over both_starts
        ) as baseline_cache_ms,
        if(
            no_effect_reason = 'no_cuda', null,
            max(c_start_ms) filter (where start = 'container') over both_starts
            - max(c_start_ms) filter (where start = 'warm') over both_starts
        ) as candidate_cache_ms,
        case
            when loop_kind <> 'closed' or extra_start_ms * gain_ms <= 0 then null
            when gain_ms_low > 0 then 1
            when gain_ms_high < 0 then -1
        end as direction, -- noqa: RF04
        least(direction * gain_ms_low, direction * gain_ms_high) as least_gain_ms,
        greatest(direction * gain_ms_low, direction * gain_ms_high) as most_gain_ms
    from judged_rows
    window both_starts as (partition by cell)
)

select
    * exclude (direction, least_gain_ms, most_gain_ms), -- noqa: AM04
    case
        when advice in ('on', 'off', 'no difference', to_candidate, to_baseline)
            and no_effect_reason is null
            then (ratio_high - ratio_low) / 2 <= width * exp(log)
        else advice <> 'undecided'
    end as settled,
    if(direction is null, null, first_calls + extra_start_ms / gain_ms) as break_even_steps,
    first_calls + greatest(direction * extra_start_ms - extra_margin_ms, 0) / most_gain_ms
        as break_even_low,
    first_calls + (direction * extra_start_ms + extra_margin_ms) / least_gain_ms as break_even_high
from advised;
