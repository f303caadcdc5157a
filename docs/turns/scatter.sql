-- Is the scatter between blocks more than the error of one block's own ratio?
-- $sweep_id TEXT = 'aa': a sweep of A/A pairs alone
--
-- scatter_percent: standard deviation between blocks of the median log ratio of a block's rounds
-- error_percent: standard error of such a median, from those of eight parts of the block, one after another
with sides as (
    select
        coalesce(problem, workload) as cell,
        precision,
        direction,
        launch_id,
        block,
        row_number() over (partition by launch_id, block order by twin) as side,
        unnest(steady_wall_samples_ms) as ms,
        unnest(steady_wall_rounds) as round
    from records
    where sweep_id = $sweep_id and status = 'ok' and in_turns
),

rounds as (
    select
        cell,
        precision,
        direction,
        launch_id,
        block,
        ln(b.ms / a.ms) as log_ratio,
        ntile(8) over (partition by launch_id, block order by round) as part
    from sides as a
    inner join sides as b using (cell, precision, direction, launch_id, block, round)
    where a.side = 1 and b.side = 2
),

parts as (
    select cell, precision, direction, launch_id, block, part, median(log_ratio) as of_part
    from rounds
    group by all
),

blocks as (
    select
        cell,
        precision,
        direction,
        launch_id,
        block,
        median(log_ratio) as of_block,
        (
            select stddev_samp(p.of_part) / sqrt(count(*))
            from parts as p
            where p.launch_id = rounds.launch_id and p.block = rounds.block
        ) as error
    from rounds
    group by all
)

select
    cell,
    precision,
    direction,
    count(*) as blocks,
    100 * stddev_samp(of_block) as scatter_percent,
    100 * sqrt(avg(error ** 2)) as error_percent
from blocks
group by all
order by all
