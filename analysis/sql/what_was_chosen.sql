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
-- process draws its own, and of each side the most common one is shown; `sweep query
-- choice_stability` has its engines and layout conversions. Ratios are of device times, candidate /
-- baseline, geometric means over blocks.
--
-- blocks: paired blocks whose kernels are known of both
-- blocks_with_other_kernels: those where the two ran other kernels
-- other_kernels_share: of the blocks
-- other_kernels_device_ratio: over the blocks where the convolutions ran other kernels
-- same_kernels_device_ratio: over those where they ran the same
-- baseline_choice: hash of the baseline's most common choice
-- baseline_choice_share: share of the blocks in which the baseline drew it
-- baseline_kernels: kernels of the baseline's choice, in order
with blocks as materialized (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash, other_settings) as cell,
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
            'no_effect_reason', 'cell_id', 'env_hash', 'software_hash', 'workload_hash'
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

asked as ( -- noqa: ST03
    select
        kernels_hash as choice,
        min(struct_pack(sweep_id := sweep_id, trial_id := trial_id)) as trial
    from records
    where kernels_hash is not null
    group by kernels_hash
),

choices as (
    select
        asked.choice,
        told.kernels
    from asked
    inner join choices_of('asked') as told on asked.trial = told.trial
)

select -- noqa: disable=AM04,RF02,ST06
    labels.* exclude (cell_id, cell_order),
    found.* exclude (
        baseline_settings, candidate_settings, baseline_hashes, candidate_hashes, cell_id, env_hash,
        software_hash, workload_hash
    ),
    b.kernels as baseline_kernels,
    c.kernels as candidate_kernels,
    found.cell_id,
    found.env_hash,
    found.software_hash,
    found.workload_hash
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
inner join choices as b on found.baseline_choice = b.choice
inner join choices as c on found.candidate_choice = c.choice
order by
    labels.cell_order, found.other_settings, found.software_hash, found.cell_id, found.env_hash,
    found.workload_hash
