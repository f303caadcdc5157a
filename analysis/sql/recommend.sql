-- Should a setting be on or off for so many iterations, does it not matter, and why?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $iterations BIGINT = 10000: iterations that a process makes of each cell
-- $compute_cache TEXT = 'warm': empty or warm, the state whose cold cost counts
-- $per TEXT = 'cell': cell, or workload for one row of all its input shapes together
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, input_shape, advice, why, baseline_s, saved_s[saved_s_low saved_s_high]
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell, or a workload: then its cells that differ in nothing but the input's sizes, each
-- with as many iterations. What is weighed is the whole time: cold cost, the first calls of all
-- shapes with the compute cache in the state asked for, and $iterations times the time per
-- iteration over every block. Of an open loop the searches are within the time per iteration.
-- Advice:
--     on, off      of a setting that is true or false; else the value to use
--     no matter    the difference is smaller than $min_effect, or the setting cannot have mattered
--     fails        the candidate fails in more blocks than the baseline
--     not decided  why says what is lacking
-- The verdicts are those of helps_or_hurts, of the whole time's ratio: its variance is that of the
-- time per iteration plus that of the cold cost, with Welch's degrees of freedom. Fewer than two
-- blocks in that state of the cache decide nothing: `new_compute_caches` in a suite gives more that
-- meet an empty one. Where time does not matter but the candidate takes a twentieth of the GPU's
-- memory more or less, memory decides.
--
-- input_shape: of all its cells, for $per = 'workload'
-- shapes: input shapes that are summed
-- advice: what to do, as above
-- why: in a short phrase
-- baseline_s: cold cost and iterations of the baseline, in seconds
-- candidate_s: cold cost and iterations of the candidate
-- saved_s: what the candidate saves
-- saved_s_low: lower end of its 95% interval
-- saved_s_high: upper end of its 95% interval
-- ratio: whole time of the candidate / of the baseline
-- blocks: paired blocks, of the cell that has fewest
-- cold_blocks: those of them in the state of the compute cache asked for; null for an open loop
-- blocks_needed: further blocks, each in that state, that would decide, as in helps_or_hurts
-- cell_id: of one of its cells, for $per = 'workload'
-- baseline_failed: blocks in which the baseline's trial did not end well
-- candidate_failed: blocks in which the candidate's did not
-- extra_reserved_bytes: the candidate's peak of reserved memory less the baseline's, the largest
-- extra_share_of_gpu: of the GPU's memory
with places as (
    select
        cell_id,
        any_value(hash(row(
            workload, problem, direction, out_channels, kernel_size, stride, padding, dilation,
            groups, bias, transposed, output_padding, model_arguments, model_inputs,
            loss, optimiser, optimiser_parameters, regime, coalesce(state, 'plain'),
            coalesce(state_parameters, map()), precision, layout, gpu
        ))) as task, -- noqa: RF04
        any_value(array_to_string(input_shape, 'x')) as input_shape,
        case $per
            when 'cell' then cell_id
            when 'workload' then ''
            else error('per: found ' || $per || ', allowed are cell and workload')
        end as own
    from records
    group by cell_id
),

blocks as materialized (
    select
        pairs.* exclude (judged_cell), -- noqa: RF02
        pairs.judged_cell as cell,
        places.input_shape,
        concat_ws(
            '|', places.task, places.own, pairs.env_hash, pairs.software_hash, pairs.workload_hash,
            pairs.other_settings, pairs.loop_kind, pairs.in_turns
        ) as whole,
        pairs.pairing = 'paired' as counts,
        counts and pairs.loop_kind = 'closed'
        and pairs.compute_cache in ($compute_cache, 'none', 'disabled') as weighs_cold -- noqa: RF02
    from block_pairs($field, $baseline, $candidate, $sweep_id) as pairs -- noqa: RF02
    inner join places on pairs.cell_id = places.cell_id
),

logs as materialized ( -- noqa: ST03
    select -- noqa: ST06
        cell,
        'wall' as clock,
        log_ratio(candidate_ms, baseline_ms) as observed,
        choice,
        other_settings || (no_effect_reason is null)::text as pool,
        1 as share -- noqa: RF04
    from blocks
    where counts and log_ratio(candidate_ms, baseline_ms) is not null
),

cells as (
    select
        cell,
        any_value(columns([
            'whole', 'cell_id', 'input_shape', 'env_hash', 'software_hash', 'workload_hash',
            'other_settings', 'loop_kind', 'in_turns', 'no_effect_reason'
        ])),
        count(*) as planned,
        count(*) filter (where baseline_failed) as baseline_failed,
        count(*) filter (where candidate_failed) as candidate_failed,
        max(candidate_peak_reserved_bytes) - max(baseline_peak_reserved_bytes)
            as extra_reserved_bytes,
        count(log_ratio(candidate_ms, baseline_ms)) filter (where counts) as blocks,
        exp(avg(log_of(baseline_ms)) filter (where counts)) as baseline_ms,
        exp(avg(log_of(candidate_ms)) filter (where counts)) as candidate_ms,
        if(
            any_value(loop_kind) = 'open',
            null,
            count(candidate_cold_ms) filter (where weighs_cold)
        ) as cold_blocks,
        if(
            any_value(loop_kind) = 'open',
            0,
            avg(baseline_cold_ms) filter (where weighs_cold)
        ) as baseline_cold_ms,
        if(
            any_value(loop_kind) = 'open',
            0,
            avg(candidate_cold_ms) filter (where weighs_cold)
        ) as candidate_cold_ms
    from blocks
    group by cell
    having bool_or(present <> 'candidate') and bool_or(present <> 'baseline')
),

wholes as (
    select
        whole,
        min(cell_id) as cell_id,
        array_to_string(list_sort(list_distinct(list(input_shape))), ', ') as input_shape,
        count(distinct input_shape) as shapes,
        any_value(columns([
            'env_hash', 'software_hash', 'workload_hash', 'other_settings', 'loop_kind', 'in_turns'
        ])),
        if(count(no_effect_reason) = count(*), any_value(no_effect_reason), null)
            as no_effect_reason,
        sum(planned)::bigint as planned,
        sum(baseline_failed)::bigint as baseline_failed,
        sum(candidate_failed)::bigint as candidate_failed,
        bool_or(candidate_failed > baseline_failed) as fails,
        bool_or(baseline_failed > candidate_failed) as baseline_fails,
        max(extra_reserved_bytes) as extra_reserved_bytes,
        min(blocks) as blocks,
        min(cold_blocks) as cold_blocks,
        -- null where a cell lacks one of them: a sum of the others would be no answer
        if(
            count(baseline_cold_ms + baseline_ms) = count(*),
            sum(baseline_cold_ms + $iterations * baseline_ms),
            null
        ) as whole_baseline_ms,
        if(
            count(candidate_cold_ms + candidate_ms) = count(*),
            sum(candidate_cold_ms + $iterations * candidate_ms),
            null
        ) as whole_candidate_ms
    from cells
    group by whole
),

-- how much of the whole's log ratio each block's cold costs are
cold_parts as (
    select
        cells.cell,
        any_value(cells.whole) as whole,
        standard_error(
            blocks.candidate_cold_ms / wholes.whole_candidate_ms
            - blocks.baseline_cold_ms / wholes.whole_baseline_ms
        ) as se,
        any_value(cells.cold_blocks) - 1 as df
    from blocks
    inner join cells on blocks.cell = cells.cell
    inner join wholes on cells.whole = wholes.whole
    where blocks.weighs_cold
    group by cells.cell
),

steady as (
    select
        cells.cell,
        cells.whole,
        cells.blocks,
        $iterations * cells.candidate_ms / wholes.whole_candidate_ms as part -- noqa: RF02
    from cells
    inner join wholes on cells.whole = wholes.whole
),

parts as (
    select
        whole,
        se,
        se as se_low,
        se as se_high,
        df
    from cold_parts
    union all
    select
        steady.whole,
        steady.part * walls.se as se,
        steady.part * walls.se_low as se_low,
        steady.part * walls.se_high as se_high,
        steady.blocks - 1 as df
    from steady
    left join over_choices('logs') as walls on steady.cell = walls.cell
),

spreads as (
    select
        whole,
        if(count(se) = count(*), sqrt(sum(se ** 2)), null) as se,
        sqrt(sum(se_low ** 2)) as se_low,
        sqrt(sum(se_high ** 2)) as se_high,
        -- whole degrees: what rounding leaves just below one is that one
        coalesce(
            floor(1e-9 + sum(se ** 2) ** 2 / nullif(sum(se ** 4 / df), 0))::bigint, min(df)
        ) as df
    from parts
    where se is null or df >= 1
    group by whole
),

estimates as ( -- noqa: ST03
    select -- noqa: ST06
        wholes.whole as cell,
        'whole' as clock,
        wholes.no_effect_reason is null as family, -- noqa: RF04
        log_ratio(wholes.whole_candidate_ms, wholes.whole_baseline_ms) as mean,
        spreads.se,
        if(spreads.se is null, null, spreads.se_low) as se_low,
        if(spreads.se is null, null, spreads.se_high) as se_high,
        if(spreads.se is null, null, spreads.df) as df
    from wholes
    inner join spreads on wholes.whole = spreads.whole
),

verdicts as (
    select * from judged('estimates', $min_effect, 0)
),

sizes as (
    select
        env_hash,
        max(gpu_memory_bytes) as gpu_memory_bytes
    from records
    group by env_hash
),

weighed as (
    select
        wholes.*,
        verdicts.ratio,
        verdicts.ratio_low,
        verdicts.ratio_high,
        verdicts.blocks_needed,
        coalesce(verdicts.verdict, 'inconclusive') as verdict,
        wholes.extra_reserved_bytes / sizes.gpu_memory_bytes as extra_share_of_gpu,
        coalesce(abs(extra_share_of_gpu) >= 0.05, false) as needs_other_memory,
        replace(replace($candidate, 'true', 'on'), 'false', 'off') as to_candidate, -- noqa: RF02
        replace(replace($baseline, 'true', 'on'), 'false', 'off') as to_baseline, -- noqa: RF02
        format(
            '{:.1f}% ({:.1f} to {:.1f}%)',
            100 * abs(1 - verdicts.ratio),
            100 * if(verdicts.ratio < 1, 1 - verdicts.ratio_high, verdicts.ratio_low - 1),
            100 * if(verdicts.ratio < 1, 1 - verdicts.ratio_low, verdicts.ratio_high - 1)
        ) as share_text,
        format('{:.1f} GiB', abs(wholes.extra_reserved_bytes) / 1073741824) as memory_text
    from wholes
    inner join sizes on wholes.env_hash = sizes.env_hash
    left join verdicts on wholes.whole = verdicts.cell
),

advised as (
    select
        *,
        case
            when no_effect_reason is not null then 'no matter'
            when fails then 'fails'
            when baseline_fails then 'not decided'
            when verdict = 'helps' then to_candidate
            when verdict = 'hurts' then to_baseline
            when verdict = 'inconclusive' then 'not decided'
            when needs_other_memory and extra_reserved_bytes > 0 then to_baseline
            when needs_other_memory then to_candidate
            else 'no matter'
        end as advice,
        case
            when no_effect_reason = 'no_cuda' then 'there is no GPU'
            when no_effect_reason = 'not_cudnn' then 'nothing in it ran in cuDNN'
            when no_effect_reason is not null then 'what ran does not read this setting'
            when fails
                then format(
                    '{} fails in {} of {} blocks, {} in {}',
                    to_candidate, candidate_failed, planned, to_baseline, baseline_failed
                )
            when baseline_fails
                then format(
                    '{} fails in {} of {} blocks, {} in {}: see what failed',
                    to_baseline, baseline_failed, planned, to_candidate, candidate_failed
                )
            when verdict = 'helps' and needs_other_memory and extra_reserved_bytes > 0
                then format('saves {}, takes {} more memory', share_text, memory_text)
            when verdict = 'helps' then format('saves {}', share_text)
            when verdict = 'hurts' then format('{} takes {} longer', to_candidate, share_text)
            when verdict = 'equivalent' and needs_other_memory
                then format(
                    'no difference in time, {} {} of memory',
                    to_candidate || if(extra_reserved_bytes > 0, ' takes', ' saves'),
                    memory_text
                )
            when verdict = 'equivalent'
                then format('the difference is below {:.3g}%', 100 * $min_effect)
            when loop_kind = 'mixed' then 'one loop was open, the other closed'
            when blocks = 0 then 'no block in which both ran'
            when blocks = 1 then 'needs a second block'
            when cold_blocks = 0 then format('no block met the {} compute cache', $compute_cache)
            when cold_blocks = 1
                then
                    'needs a second block with a'
                    || if($compute_cache = 'empty', 'n empty cache', ' warm cache')
            when blocks_needed is not null
                then format(
                    '{} {}: about {} more block{} would decide',
                    if(ratio < 1, 'saves', 'takes longer by'), share_text, blocks_needed,
                    if(blocks_needed = 1, '', 's')
                )
            else format(
                '{} {}: too few blocks, or too near {:.3g}%',
                if(ratio < 1, 'saves', 'takes longer by'), share_text, 100 * $min_effect
            )
        end as why
    from weighed
)

select -- noqa: ST06
    labels.workload,
    labels.problem,
    labels.direction,
    advised.input_shape,
    labels.regime,
    labels.state,
    labels.precision,
    labels.layout,
    labels.gpu,
    $field || ': ' || $baseline || ' → ' || $candidate as contrast, -- noqa: RF02
    advised.other_settings,
    advised.loop_kind,
    advised.in_turns,
    advised.shapes,
    advised.advice,
    advised.why,
    advised.whole_baseline_ms / 1000 as baseline_s,
    advised.whole_candidate_ms / 1000 as candidate_s,
    baseline_s - candidate_s as saved_s,
    baseline_s * (1 - advised.ratio_high) as saved_s_low,
    baseline_s * (1 - advised.ratio_low) as saved_s_high,
    advised.ratio,
    advised.ratio_low,
    advised.ratio_high,
    advised.blocks,
    advised.cold_blocks,
    if(advised.advice = 'not decided', advised.blocks_needed, null) as blocks_needed,
    advised.baseline_failed,
    advised.candidate_failed,
    advised.extra_reserved_bytes,
    advised.extra_share_of_gpu,
    advised.no_effect_reason,
    advised.cell_id,
    advised.env_hash,
    advised.software_hash,
    advised.workload_hash
from advised
inner join cell_labels() as labels on advised.cell_id = labels.cell_id
order by
    labels.gpu, labels.workload, labels.problem, labels.direction, advised.input_shape,
    labels.regime, labels.state, labels.precision, labels.layout, advised.other_settings,
    advised.software_hash, advised.loop_kind, advised.in_turns, advised.cell_id, advised.env_hash,
    advised.workload_hash
