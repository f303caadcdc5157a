-- What is measured of each sweep, how often, and what is missing?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: sweep_id, cell, blocks, usable_blocks, planned, recorded, ok, failed, missing
-- none: no trial is recorded
--
-- A row a sweep and cell. A block has each of the cell's configs once: what is planned of a cell is
-- reckoned from its blocks, and a cell or block of which nothing is recorded shows in none. The
-- sweep's own counts tell: sweep_planned less sweep_recorded are all that lack, `missing` those of
-- them that a recorded block names. Where a plan is split into shards, what a shard that has not
-- begun is to run is among those that lack.
--
-- configs: configs recorded of the cell
-- blocks: blocks of which a trial is recorded
-- repeated_blocks: those among them that ran a split one again
-- usable_blocks: those with every config ok, on one slot, in one launch, and not doubtful
-- incomplete_blocks: blocks that lack an ok trial of a config
-- split_blocks: complete ones whose trials ran on different slots or in different launches
-- doubtful_blocks: complete ones on one slot with a trial whose GPU was throttled or shared
-- replicates: ok trials of the config that has least of them, A/A twins left out
-- planned: trials of those blocks: configs × blocks, and the recorded A/A twins
-- recorded: trials recorded
-- ok: trials that ended well
-- failed: trials that did not
-- missing: planned less recorded
-- sweep_planned: trials in the sweep's plan
-- sweep_recorded: trials of that plan that are recorded
-- sweep_shards: parts of the plan that recorded something, as 1/4; null where it was not split
with trials as materialized (
    select -- noqa: ST06
        sweep_id,
        suite,
        cell_id,
        block,
        settings,
        twin,
        plan_trials,
        shard || '/' || shards as shard_name,
        repeats_block,
        status = 'ok' as ok,
        is_doubtful(warnings) as doubtful,
        launch_id,
        slot,
        env_hash,
        software_hash
    from configured(null, $sweep_id)
),

blocks as (
    select
        sweep_id,
        cell_id,
        block,
        count(distinct settings) filter (where ok and twin = 0) as ok_configs,
        count(distinct row(launch_id, slot, env_hash, software_hash)) > 1 as split,
        bool_or(doubtful) as doubtful,
        count(repeats_block) > 0 as is_repeat
    from trials
    group by sweep_id, cell_id, block
),

configs_done as (
    select
        sweep_id,
        cell_id,
        settings,
        count(*) filter (where ok and twin = 0) as replicates
    from trials
    group by sweep_id, cell_id, settings
),

cells as (
    select
        sweep_id,
        cell_id,
        count(*) as configs,
        min(replicates) as replicates
    from configs_done
    group by sweep_id, cell_id
),

counted as (
    select
        sweep_id,
        cell_id,
        any_value(suite) as suite,
        count(*) as recorded,
        count(*) filter (where ok) as ok,
        count(*) filter (where not ok) as failed,
        sum(twin)::bigint as twins
    from trials
    group by sweep_id, cell_id
),

grouped as (
    select
        blocks.sweep_id,
        blocks.cell_id,
        count(*) as blocks,
        count(*) filter (where blocks.is_repeat) as repeated_blocks,
        count(*) filter (where blocks.ok_configs < cells.configs) as incomplete_blocks,
        count(*) filter (where blocks.ok_configs = cells.configs and blocks.split)
            as split_blocks,
        count(*) filter (
            where blocks.ok_configs = cells.configs and not blocks.split and blocks.doubtful
        ) as doubtful_blocks
    from blocks
    inner join cells on blocks.sweep_id = cells.sweep_id and blocks.cell_id = cells.cell_id
    group by blocks.sweep_id, blocks.cell_id
),

sweeps as (
    select
        sweep_id,
        max(plan_trials) as sweep_planned,
        count(*) filter (where repeats_block is null) as sweep_recorded,
        string_agg(distinct shard_name, ', ' order by shard_name) as sweep_shards
    from trials
    group by sweep_id
)

select -- noqa: ST06
    counted.sweep_id,
    counted.suite,
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    cells.configs,
    grouped.* exclude (sweep_id, cell_id), -- noqa: AM04, RF02
    grouped.blocks - grouped.incomplete_blocks - grouped.split_blocks - grouped.doubtful_blocks
        as usable_blocks,
    cells.replicates,
    cells.configs * grouped.blocks + counted.twins as planned,
    counted.recorded,
    counted.ok,
    counted.failed,
    planned - counted.recorded as missing,
    sweeps.* exclude (sweep_id), -- noqa: AM04, RF02
    counted.cell_id
from counted
inner join cells on counted.sweep_id = cells.sweep_id and counted.cell_id = cells.cell_id
inner join grouped on counted.sweep_id = grouped.sweep_id and counted.cell_id = grouped.cell_id
inner join sweeps on counted.sweep_id = sweeps.sweep_id
inner join cell_labels() as labels on counted.cell_id = labels.cell_id
order by
    counted.sweep_id, labels.cell_order, counted.cell_id
