-- Macros that compute verdicts from the blocks of a contrast. An example of their use:
--     with pairs as (from block_pairs('benchmark', 'false', 'true', null)) from cells_of('pairs')

-- Return the log ratios of each block and clock (wall, device, memory) for `over_choices`.
create or replace macro logs_by_clock(pairs) as table
select
    judged_cell as cell,
    columns(['choice', 'share']),
    other_settings || (no_effect_reason is null)::text as pool,
    unnest(['wall', 'device', 'memory']) as clock,
    unnest([
        log_ratio(candidate_ms, baseline_ms),
        log_ratio(candidate_device_ms, baseline_device_ms),
        log_ratio(candidate_peak_reserved_bytes, baseline_peak_reserved_bytes)
    ]) as observed,
    unnest([wall_elsewhere, device_elsewhere, null]) as elsewhere,
    unnest([wall_error, device_error, null]) as error,
    unnest([origin, null, null]) as origin
from query_table(pairs)
where is_counted;

-- Return one row for each cell and set of other settings that has trials of both sides.
create or replace macro cells_of(pairs) as table
select
    judged_cell as cell,
    any_value(columns([
        'place', 'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'other_settings',
        'baseline_settings', 'candidate_settings', 'loop_kind', 'in_turns'
    ])),
    count(*) filter (where present = 'both') as recorded_blocks,
    count(*) filter (where is_counted) as blocks,
    count(*) filter (where pairing = 'split') as split_blocks,
    count(*) filter (where pairing = 'doubtful') as doubtful_blocks,
    count(*) filter (where pairing = 'unpaired') as unpaired_blocks,
    count(*) filter (where baseline_failed) as baseline_failed,
    count(*) filter (where candidate_failed) as candidate_failed,
    count(*) filter (where baseline_throttled) as baseline_throttled,
    count(*) filter (where candidate_throttled) as candidate_throttled,
    count(*) as all_blocks,
    exp(avg(log_of(columns([
        'baseline_ms', 'candidate_ms', 'baseline_device_ms', 'candidate_device_ms'
    ]))) filter (where is_counted)),
    avg(other_kernels::int) filter (where is_counted) as other_kernels_share,
    exp(avg(log_ratio(candidate_device_ms, baseline_device_ms)) filter (
        where is_counted and other_kernels
    )) as other_kernels_device_ratio,
    exp(avg(log_ratio(candidate_device_ms, baseline_device_ms)) filter (
        where is_counted and not other_kernels
    )) as same_kernels_device_ratio,
    sum(launch_bound) filter (where is_counted) as launch_bound_trials,
    sum(launch_bound_known) filter (where is_counted) as launch_bound_known_trials,
    if(
        launch_bound_known_trials > 0, launch_bound_trials > 0.5 * launch_bound_known_trials, null
    ) as launch_bound,
    list_sort(list_distinct(coalesce(flatten(
        list(warnings) filter (where is_counted or pairing = 'doubtful')
    ), []))) as warnings,
    nullif(array_to_string(list_sort(list_distinct(flatten(list(
        if(
            is_counted and not one_clock,
            [format(
                'device times from {} and {} are not compared', baseline_source, candidate_source
            )],
            []
        ) || execution_notes
    )))), '; '), '') as notes,
    count(same_bits) filter (where is_counted) as blocks_with_bits,
    count(*) filter (where is_counted and same_bits) as blocks_with_same_bits,
    count(distinct baseline_fingerprint) as baseline_results,
    count(distinct candidate_fingerprint) as candidate_results,
    baseline_results = 1 and coalesce(bool_and(baseline_bitwise_repeatable), true) as b_repeats,
    candidate_results = 1 and coalesce(bool_and(candidate_bitwise_repeatable), true)
        as c_repeats,
    case
        when least(count(baseline_fingerprint), count(candidate_fingerprint)) < 2 then null
        when b_repeats then if(c_repeats, 'already', 'lost')
        else if(c_repeats, 'gained', 'not gained')
    end as reproducibility,
    max(columns([
        'baseline_peak_reserved_bytes', 'candidate_peak_reserved_bytes',
        'baseline_peak_allocated_bytes', 'candidate_peak_allocated_bytes',
        'baseline_steady_reserved_bytes', 'candidate_steady_reserved_bytes',
        'baseline_workspace_bytes', 'candidate_workspace_bytes',
        'baseline_relative_l2_error', 'candidate_relative_l2_error'
    ])),
    any_value(no_effect_reason) as no_effect_reason,
    list_sort(list(distinct sweep_id)) as sweeps,
    any_value(too_early) as too_early,
    max(distinct_shapes) as distinct_shapes,
    max(at_most) as at_most,
    any_value(share) as error_share,
    any_value(between_looks) as between_looks
from query_table(pairs)
group by judged_cell
having bool_or(present <> 'candidate') and bool_or(present <> 'baseline');

-- Return all verdicts for each cell and set of other settings. `judged` explains `of_cells`.
create or replace macro contrast_verdicts(
    flag, from_value, to_value, min_effect, of_sweep, of_cells, is_over := null
) as table
with
pairs as materialized (from block_pairs(flag, from_value, to_value, of_sweep, is_over := is_over)),

by_clock as materialized (from logs_by_clock('pairs')),

cells as materialized (from cells_of('pairs')),

-- Cells that the same sweeps measured are a family of tests. Cells whose setting can have no effect
-- are a family of their own.
estimates as materialized (
    select
        means.*,
        [(cells.no_effect_reason is null)::text] || cells.sweeps as family,
        cells.too_early or means.blocks < 2 as too_early
    from over_choices('by_clock') as means
    inner join cells on means.cell = cells.cell
),

verdicts as materialized (
    select * rename (verdict as statistical_verdict)
    from judged('estimates', min_effect, of_cells)
),

answered as (
    select
        flag || ': ' || from_value || ' → ' || to_value as contrast,
        cells.*,
        wall.ratio,
        wall.ratio_low,
        wall.ratio_high,
        case when wall.ratio_high < 1 then 'faster' when wall.ratio_low > 1 then 'slower' end
            as surely,
        coalesce(
            in_choices(
                walls.choices, walls.blocks, walls.most_alike, walls.usual, walls.others,
                ln(1 + min_effect)
            ),
            in_unseen(walls.blocks, walls.most_unseen, walls.unseen_low, walls.unseen_high)
        ) as by_choice,
        wall.blocks_needed as wall_blocks_needed,
        wall.blocks_alone,
        devices.blocks as device_blocks,
        columns(device.* exclude (cell, clock, blocks_needed, blocks_alone)) as 'device_\0', -- noqa
        columns(memory.* exclude (cell, clock, blocks_needed, blocks_alone)) as 'memory_\0', -- noqa
        coalesce(wall.statistical_verdict, 'inconclusive') as wall_statistical_verdict,
        flag <> 'twin'
        and surely_fails(
            cells.candidate_failed, cells.baseline_failed, cells.all_blocks, cells.blocks,
            cells.error_share
        ) as fails,
        cells.blocks >= 3 and not cells.between_looks as looked,
        shown_unless_it_fails(
            cells.no_effect_reason, fails, so_far(wall_statistical_verdict, looked)
        ) as shown_wall
    from cells
    left join verdicts as wall on cells.cell = wall.cell and wall.clock = 'wall'
    left join verdicts as device on cells.cell = device.cell and device.clock = 'device'
    left join verdicts as memory on cells.cell = memory.cell and memory.clock = 'memory'
    left join estimates as walls on cells.cell = walls.cell and walls.clock = 'wall'
    left join estimates as devices on cells.cell = devices.cell and devices.clock = 'device'
)

select
    * exclude (
        all_blocks, wall_blocks_needed, device_blocks, looked, shown_wall, b_repeats, c_repeats,
        sweeps, too_early
    ),
    case
        when blocks + if(no_effect_reason is null, fails::int, split_blocks + doubtful_blocks) = 0
            then 'not_measured'
        when shown_wall <> 'undecided' then shown_wall
        when ratio_high < 1 / (1 + min_effect) then 'so_far_faster'
        when ratio_low > 1 + min_effect then 'so_far_slower'
        else 'undecided'
    end as wall_verdict,
    in_words(wall_verdict, answered) as wall_in_words,
    if(
        contrast like 'precision: %',
        format(
            'error {:.1e} → {:.1e}, same bits in {} of {} blocks', baseline_relative_l2_error,
            candidate_relative_l2_error, blocks_with_same_bits, blocks_with_bits
        ),
        null
    ) as errors,
    case
        when is_decided(wall_verdict) or wall_verdict = 'not_measured' then null
        else coalesce(wall_blocks_needed, nullif(greatest(3 - blocks, 0), 0))
    end as blocks_needed,
    shown_unless_it_fails(no_effect_reason, fails, so_far(device_statistical_verdict, looked))
        as device_verdict,
    if(
        launch_bound and device_verdict in ('helps', 'hurts')
        and wall_verdict not in ('fails', 'no_effect', 'not_measured')
        and wall_verdict <> device_verdict and device_blocks = blocks,
        'device time ' || in_percent(device_ratio, device_ratio_low, device_ratio_high)
        || '; the loop is CPU-bound: wall time ' || in_percent(ratio, ratio_low, ratio_high),
        null
    ) as headline,
    shown_unless_it_fails(no_effect_reason, fails, so_far(memory_statistical_verdict, looked))
        as memory_verdict
from answered;
