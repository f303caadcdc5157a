-- After how many iterations does a setting's gain pay for its longer start, such as a search?
-- $per TEXT = 'regime': regime (one row for each regime) or shape (one row for each distinct shape)
-- terminal: cell, compute_cache, outcome, break_even_iterations[break_even_low break_even_high],
--     baseline_cold_ms, candidate_cold_ms, tuning_ms, compile_ms, gain_ms, no_effect_reason
-- none: no cell has two configs that differ only in the setting; see `sweep query coverage`
--
-- There is one row for each cell, set of other settings and state of the compute cache. The outcome
-- is no_effect or one of these:
--     after         the candidate is ahead after break_even_iterations
--     at once       the candidate starts no later, and its iterations are faster
--     until         the candidate is ahead only until break_even_iterations
--     never         the candidate starts no sooner, and its iterations are slower
--     inconclusive  there are fewer than two blocks, or the gain's interval contains zero
--     open loop     new shapes never end, so the time per iteration includes searches
-- The start includes compiling, graph capture and, for the field execution, the import of the
-- compiler. Intervals are t intervals over blocks, so a single block has none. Set
-- new_compute_caches in a suite for more blocks with an empty cache. If $per is shape, each shape
-- is assumed to gain the same share of its own time.
--
-- compile_ms: part of tuning_ms for compiling or graph capture; null if none or unknown
-- search_ms: mean of the rest of tuning_ms, over blocks in which compile_ms is known
-- tuning_ms: extra time that the candidate takes to start, mean
with blocks as materialized (
    select
        * rename (judged_cell as cell),
        if(
            $field = 'execution' and baseline_compiles <> candidate_compiles,
            candidate_one_time_ms - baseline_one_time_ms, 0
        ) as import_ms,
        if(loop_kind = 'closed', baseline_ms - candidate_ms, null) as gain_ms
    from block_pairs($field, $baseline, $candidate, $sweep_id)
    where pairing = 'paired'
),

-- Gains are in units of the baseline's time, so that cells can be compared.
gains as materialized ( -- noqa: ST03
    select -- noqa: ST06
        cell,
        'gain' as clock,
        gain_ms / avg(baseline_ms) over (partition by cell) as observed,
        choice,
        origin,
        other_settings || (no_effect_reason is null)::text as pool
    from blocks
    where gain_ms is not null
),

cells as (
    select
        cell,
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(columns([
            'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'other_settings', 'loop_kind',
            'in_turns', 'no_effect_reason'
        ])),
        count(gain_ms) as gain_blocks, -- number of paired blocks
        avg(gain_ms) as gain_ms, -- time per iteration that the candidate saves, mean over blocks
        avg(baseline_ms) filter (where gain_ms is not null) as unit_ms
    from blocks
    group by cell
),

visited as (
    select
        columns(['cell', 'compute_cache', 'shapes', 'baseline_cold_ms', 'candidate_cold_ms']),
        import_ms,
        list_sum(candidate_compile_ms[:shapes]) - list_sum(baseline_compile_ms[:shapes])
            as extra_compile_ms,
        (candidate_cold_ms - baseline_cold_ms - first_shape_extra_ms) / nullif(shapes - 1, 0)
            as later_shape_ms
    from blocks
    where
        if(
            $per in ('regime', 'shape'), $per = 'regime',
            error('per: found ' || $per || ', allowed are regime and shape')
        )
    union all by name
    select
        columns(['cell', 'compute_cache', 'shapes']),
        unnest(baseline_first_ms[:shapes]) as baseline_cold_ms,
        unnest(candidate_first_ms[:shapes]) as candidate_cold_ms,
        unnest(candidate_compile_ms[:shapes]) - unnest(baseline_compile_ms[:shapes])
            as extra_compile_ms,
        unnest(range(1, shapes + 1)) as shape_number, -- number of the shape in order of arrival
        unnest(shape_names[:shapes]) as shape, -- sizes of the input, if $per is shape
        if(shape_number = 1, import_ms, 0) as import_ms,
        unnest(baseline_second_ms[:shapes]) as second_ms
    from blocks
    where $per = 'shape'
),

weights as (
    select
        cell,
        shape_number,
        avg(second_ms) / avg(avg(second_ms)) over (partition by cell) as weight
    from visited
    group by cell, shape_number
),

tuned as (
    select -- noqa: ST06
        columns(['cell', 'compute_cache', 'shape_number', 'shape']),
        max(shapes) as shapes, -- largest number of distinct shapes in both trials of a block
        median(baseline_cold_ms) as baseline_cold_ms, -- time of first calls of these shapes, median
        median(candidate_cold_ms) as candidate_cold_ms,
        count(candidate_cold_ms - baseline_cold_ms) as tuning_blocks, -- paired blocks in this state
        avg(candidate_cold_ms - baseline_cold_ms + import_ms) as tuning_ms,
        t_95(tuning_blocks - 1) * standard_error(candidate_cold_ms - baseline_cold_ms + import_ms)
            as margin_ms,
        tuning_ms - margin_ms as tuning_ms_low,
        tuning_ms + margin_ms as tuning_ms_high,
        nullif(avg(extra_compile_ms + import_ms), 0) as compile_ms,
        avg(candidate_cold_ms - baseline_cold_ms - extra_compile_ms) as search_ms,
        avg(later_shape_ms) as later_shape_ms -- extra time of the first call of each further shape
    from visited
    where compute_cache is not null
    group by cell, compute_cache, shape_number, shape
),

joined as (
    select
        cells.* exclude (gain_ms, unit_ms), -- noqa: RF02
        tuned.* exclude (cell, margin_ms), -- noqa: RF02
        coalesce(weights.weight, 1) as of_mean,
        cells.gain_ms * of_mean as gain_ms,
        (cells.gain_ms - t_95(found.df) * found.se_low * cells.unit_ms) * of_mean as gain_ms_low,
        (cells.gain_ms + t_95(found.df) * found.se_high * cells.unit_ms) * of_mean as gain_ms_high
    from cells
    inner join tuned on cells.cell = tuned.cell
    left join over_choices('gains') as found on cells.cell = found.cell
    left join weights on tuned.cell = weights.cell and tuned.shape_number = weights.shape_number
),

bounded as (
    select
        *,
        case
            when no_effect_reason is not null then 'no_effect'
            when loop_kind = 'open' then 'open loop'
            when not isfinite(gain_ms_low) then 'inconclusive' -- DuckDB sorts NaN above all numbers
            when gain_ms_low > 0 then if(tuning_ms > 0, 'after', 'at once')
            when gain_ms_high < 0 then if(tuning_ms < 0, 'until', 'never')
            else 'inconclusive'
        end as outcome, -- after, at once, until, never, inconclusive, open loop or no_effect
        case
            when outcome = 'at once' then 0
            when outcome in ('after', 'until') then tuning_ms / gain_ms
        end as break_even_iterations, -- iterations after which both sides took the same time
        case
            when tuning_ms_low is null then null -- greatest() ignores nulls
            when outcome in ('after', 'at once') then greatest(tuning_ms_low, 0) / gain_ms_high
            when outcome = 'until' then greatest(-tuning_ms_high, 0) / -gain_ms_low
            when outcome = 'inconclusive' and tuning_ms_low > 0 and gain_ms_high > 0
                then tuning_ms_low / gain_ms_high
        end as break_even_low,
        case
            when tuning_ms_low is null then null
            when outcome in ('after', 'at once') then greatest(tuning_ms_high, 0) / gain_ms_low
            when outcome = 'until' then tuning_ms_low / gain_ms_high
        end as break_even_high
    from joined
)

select -- noqa: disable=AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order),
    bounded.* exclude (cell, of_mean, cell_id, env_hash, software_hash, workload_hash),
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
from bounded
inner join cell_labels() as labels using (cell_id)
order by
    labels.cell_order, bounded.other_settings, bounded.software_hash, bounded.loop_kind,
    bounded.in_turns, bounded.cell_id, bounded.env_hash, bounded.compute_cache,
    bounded.shape_number, bounded.workload_hash
