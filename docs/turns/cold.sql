-- What did processes meet that started first or second of a block in turns, or alone?
-- $sweep_prefix TEXT = 'cold-': sweeps whose names begin so
--
-- place: which of its block started first
-- block_s: median time of their blocks, from the first process's start to the last one's end
-- cold_ms: median cold cost
-- cold_sd: standard deviation of its log
-- choices: different choices of kernels
with blocks as (
    select
        *,
        min(started_at) over block_of as block_began,
        max(ended_at) over block_of as block_ended,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms
    from records
    where starts_with(sweep_id, $sweep_prefix) and status = 'ok'
    window block_of as (partition by sweep_id, launch_id, block)
)

select
    coalesce(problem, workload) as cell,
    precision,
    direction,
    compute_cache,
    sweep_id,
    if(started_at = block_began, 'first', 'second') as place,
    count(*) as processes,
    median(epoch(block_ended - block_began)) as block_s,
    median(one_time_s) as one_time_s,
    median(overlapped_s) as overlapped_s,
    median(cold_ms) as cold_ms,
    stddev_samp(ln(cold_ms)) as cold_sd,
    min(cold_free_bytes) / 1e9 as least_free_gb,
    max(cold_peak_reserved_bytes) / 1e9 as peak_reserved_gb,
    max(logged_largest_workspace_bytes) / 1e9 as largest_workspace_gb,
    count(distinct kernels_hash) as choices,
    mode(kernels_hash)[:8] as most_frequent
from blocks
group by all
order by all
