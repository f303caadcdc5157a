-- Which kernels run with a setting and without it, and are the others faster?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, blocks, other_kernels_share, other_kernels_device_ratio,
--     same_kernels_device_ratio, baseline_choice_share, candidate_choice_share
-- none: no pair of processes told its kernels: they are known of ok trials on a GPU
--
-- A row a cell and set of other settings; its blocks are the paired ones whose kernels are known of
-- both. A choice is what the convolutions of one step launch: kernels, their order and grids; every
-- process draws its own, and of each side the most common one is shown. Ratios are of device times,
-- candidate / baseline, geometric means over blocks.
--
-- blocks: paired blocks whose kernels are known of both
-- blocks_with_other_kernels: those where the two ran other kernels
-- other_kernels_share: of the blocks
-- other_kernels_device_ratio: over the blocks where the convolutions ran other kernels
-- same_kernels_device_ratio: over those where they ran the same
-- baseline_choice: hash of the baseline's most common choice
-- candidate_choice: hash of the candidate's
-- baseline_choice_share: of the blocks, where the baseline drew it
-- candidate_choice_share: of the blocks, where the candidate drew it
-- baseline_kernels: kernels of the baseline's choice, in order
-- candidate_kernels: kernels of the candidate's
-- baseline_engines: cuDNN's engines for it, from a log whose process launched the same
-- candidate_engines: the same of the candidate
-- baseline_layout_conversions: layout conversions that a step with the baseline's choice launches
-- candidate_layout_conversions: the same of the candidate
-- baseline_layout_conversion_share: of device time, median; null where shapes vary
-- candidate_layout_conversion_share: the same of the candidate
-- unlimited_blocks: paired blocks with the candidate's settings at benchmark_limit 0 and at 10
-- unlimited_device_ratio: device time at benchmark_limit 0, which searches every plan, / at 10
with blocks as materialized (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash) as place,
        concat_ws('|', place, other_settings) as cell,
        log_ratio(candidate_device_ms, baseline_device_ms) as log_ratio
    from block_pairs($field, $baseline, $candidate, $sweep_id)
    where pairing = 'paired' and other_kernels is not null
),

cells as (
    select
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(columns(['other_settings', 'baseline_settings', 'candidate_settings'])),
        count(*) as blocks,
        count(*) filter (where other_kernels) as blocks_with_other_kernels,
        count(*) filter (where other_kernels) / count(*) as other_kernels_share,
        exp(avg(log_ratio) filter (where other_kernels)) as other_kernels_device_ratio,
        exp(avg(log_ratio) filter (where not other_kernels)) as same_kernels_device_ratio,
        mode(baseline_kernels_hash order by baseline_kernels_hash) as baseline_choice,
        mode(candidate_kernels_hash order by candidate_kernels_hash) as candidate_choice,
        list(baseline_kernels_hash) as baseline_hashes,
        list(candidate_kernels_hash) as candidate_hashes,
        any_value(columns([
            'no_effect_reason', 'place', 'cell_id', 'env_hash', 'software_hash', 'workload_hash'
        ]))
    from blocks
    group by cell
),

found as (
    select
        *,
        len(list_filter(baseline_hashes, lambda drawn: drawn = baseline_choice)) / blocks
            as baseline_choice_share,
        len(list_filter(candidate_hashes, lambda drawn: drawn = candidate_choice)) / blocks
            as candidate_choice_share
    from cells
),

-- what the processes of one config that drew one choice have in common
choices as (
    select
        settings,
        kernels_hash as choice,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash) as place,
        min(struct_pack(sweep_id := sweep_id, trial_id := trial_id)) as trial,
        arg_min(struct_pack(sweep_id := sweep_id, trial_id := trial_id), started_at)
        filter (where logged_kernels_agree) as log_trial,
        max(layout_conversions) as layout_conversions,
        median(layout_conversion_ms / steady_device_ms) filter (where regime_shapes = 1)
            as layout_conversion_share
    from configured($field, $sweep_id)
    where status = 'ok' and kernels_hash is not null
    group by place, settings, kernels_hash
),

asked as ( -- noqa: ST03
    select trial
    from choices
    union all
    select log_trial as trial
    from choices
),

told as (
    select * from choices_of('asked')
),

unlimited as (
    select
        baseline_settings as limited_settings,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash) as place,
        count(*) as blocks,
        exp(avg(log_ratio(candidate_device_ms, baseline_device_ms))) as device_ratio
    from block_pairs('benchmark_limit', '10', '0', $sweep_id)
    where pairing = 'paired' and baseline_benchmark
    group by place, baseline_settings
)

select -- noqa: ST06
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    found.contrast,
    found.other_settings,
    found.blocks,
    found.blocks_with_other_kernels,
    found.other_kernels_share,
    found.other_kernels_device_ratio,
    found.same_kernels_device_ratio,
    found.baseline_choice,
    found.candidate_choice,
    found.baseline_choice_share,
    found.candidate_choice_share,
    b_kernels.kernels as baseline_kernels,
    c_kernels.kernels as candidate_kernels,
    b_log.engines as baseline_engines,
    c_log.engines as candidate_engines,
    b.layout_conversions as baseline_layout_conversions,
    c.layout_conversions as candidate_layout_conversions,
    b.layout_conversion_share as baseline_layout_conversion_share,
    c.layout_conversion_share as candidate_layout_conversion_share,
    coalesce(unlimited.blocks, 0) as unlimited_blocks,
    unlimited.device_ratio as unlimited_device_ratio,
    found.no_effect_reason,
    found.cell_id,
    found.env_hash,
    found.software_hash,
    found.workload_hash
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
inner join choices as b
    on
        found.place = b.place
        and found.baseline_settings = b.settings
        and found.baseline_choice = b.choice
inner join choices as c
    on
        found.place = c.place
        and found.candidate_settings = c.settings
        and found.candidate_choice = c.choice
left join told as b_kernels on b.trial = b_kernels.trial
left join told as c_kernels on c.trial = c_kernels.trial
left join told as b_log on b.log_trial = b_log.trial
left join told as c_log on c.log_trial = c_log.trial
left join unlimited
    on found.place = unlimited.place and found.candidate_settings = unlimited.limited_settings
order by
    labels.cell_order, found.other_settings, found.software_hash, found.cell_id, found.env_hash,
    found.workload_hash
