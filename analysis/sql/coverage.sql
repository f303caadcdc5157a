-- Which cells of each sweep are measured, how often, and what is missing?
-- terminal: sweep_id, cell, blocks, usable_blocks, planned, recorded, failed, missing, not_begun
-- none: no trial is recorded
--
-- There is one row for each sweep and cell. The plan of a cell has a trial of each config in each
-- block. In a race, a recorded trial that is neither ok nor failed was raced out. A cell without
-- records has no row, but sweep_planned includes its trials.
--
-- incomplete_blocks: number of blocks in which a config failed or is missing
-- split_blocks: complete blocks whose trials ran on different slots or in different launches
-- doubtful_blocks: complete blocks that are not split, but had a throttled or shared GPU
-- sweep_recorded: number of planned trials that are recorded
with trials as materialized ( -- noqa: disable=AM04,RF02,ST06,ST07
    select
        columns([
            'sweep_id', 'suite', 'cell_id', 'block', 'settings', 'twin', 'plan_trials', 'shard',
            'shards', 'repeats_block', 'launch_id', 'slot', 'env_hash', 'software_hash', 'warnings',
            'plan_cells'
        ]),
        status = 'ok' as is_ok,
        status = 'raced_out' as is_out
    from configured(null, $sweep_id)
),

by_config as (
    select
        columns(['sweep_id', 'cell_id']),
        any_value(suite) as suite,
        count(*) as recorded,
        count(*) filter (where is_ok) as ok,
        count(*) filter (where is_out) as raced_out,
        count(*) filter (where is_ok and twin = 0) as replicates,
        sum(twin)::bigint as twins
    from trials
    group by sweep_id, cell_id, settings
),

cells as (
    select
        columns(['sweep_id', 'cell_id']),
        any_value(suite) as suite,
        count(*) as configs,
        min(replicates) as replicates,
        sum(recorded)::bigint as recorded,
        sum(ok)::bigint as ok,
        sum(recorded - ok - raced_out)::bigint as failed,
        sum(twins)::bigint as twins
    from by_config
    group by sweep_id, cell_id
),

blocks as (
    select
        columns(['sweep_id', 'cell_id']),
        count(distinct settings) filter (where is_ok and twin = 0 or is_out) as ok_configs,
        count(distinct row(launch_id, slot, env_hash, software_hash)) filter (where not is_out) > 1
            as split,
        bool_or(is_doubtful(warnings)) as doubtful,
        count(repeats_block) > 0 as is_repeat
    from trials
    group by sweep_id, cell_id, block
),

grouped as (
    select
        sweep_id,
        cell_id,
        count(*) as blocks, -- number of blocks with a recorded trial
        count(*) filter (where is_repeat) as repeated_blocks, -- blocks that repeat split blocks
        count(*) filter (where ok_configs < configs) as incomplete_blocks,
        count(*) filter (where ok_configs = configs and split) as split_blocks,
        count(*) filter (where ok_configs = configs and not split and doubtful)
            as doubtful_blocks,
        count(*) filter (where ok_configs = configs and not split and not doubtful)
            as usable_blocks -- number of complete blocks that are neither split nor doubtful
    from blocks
    inner join cells using (sweep_id, cell_id)
    group by sweep_id, cell_id
),

sweeps as (
    select
        sweep_id,
        max(plan_trials) as sweep_planned, -- number of trials in the sweep's plan
        count(*) filter (where repeats_block is null) as sweep_recorded,
        greatest(max(plan_cells) - count(distinct cell_id), 0) as not_begun,
        string_agg(distinct shard || '/' || shards, ', ' order by shard || '/' || shards)
            as sweep_shards -- shards with records, such as 1/4; null if the plan was not split
    from trials
    group by sweep_id
)

select
    sweep_id,
    cells.suite,
    labels.* exclude (cell_id, cell_order),
    cells.configs, -- number of recorded configs of the cell
    grouped.* exclude (sweep_id, cell_id),
    cells.replicates, -- smallest number of ok trials of a config, without twins
    cells.configs * grouped.blocks + cells.twins as planned, -- trials planned in these blocks
    cells.recorded,
    cells.ok,
    cells.failed,
    planned - cells.recorded as missing, -- number of planned trials that are not recorded
    sweeps.* exclude (sweep_id),
    cell_id
from cells
inner join grouped using (sweep_id, cell_id)
inner join sweeps using (sweep_id)
inner join cell_labels() as labels using (cell_id)
order by sweep_id, labels.cell_order, cell_id
