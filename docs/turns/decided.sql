-- What did each verdict cost in blocks and in GPU seconds, and what with a fixed number of blocks?
-- $sweep_id TEXT = 'decided': the sweep
-- $fixed BIGINT = 20: blocks of each cell
-- terminal: verdict, cells, blocks, seconds, fixed_seconds
--
-- A row a verdict, then one for all. A block's seconds are those from the start of its first
-- process to the end of its last one.
--
-- blocks: blocks of these cells together
-- fixed_seconds: what they would take with so many blocks each, at the mean of their blocks
with verdicts as (
    select
        cell_id,
        wall_verdict
    from contrast_verdicts('benchmark', 'false', 'true', 0.03, $sweep_id, 0)
),

by_block as (
    select
        cell_id,
        block,
        epoch(max(ended_at) - min(started_at)) as took_s
    from records
    where sweep_id glob $sweep_id
    group by cell_id, block
),

by_cell as (
    select
        verdicts.wall_verdict,
        count(*) as blocks,
        sum(by_block.took_s) as seconds,
        $fixed * avg(by_block.took_s) as fixed_seconds
    from by_block
    inner join verdicts on by_block.cell_id = verdicts.cell_id
    group by verdicts.cell_id, verdicts.wall_verdict
)

select
    coalesce(wall_verdict, 'all') as verdict,
    count(*) as cells,
    sum(blocks)::bigint as blocks,
    sum(seconds) as seconds,
    sum(fixed_seconds) as fixed_seconds
from by_cell
group by grouping sets ((wall_verdict), ())
order by wall_verdict nulls last
