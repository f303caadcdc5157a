-- How far is each config from float64, and how fast?
-- $sweep_id TEXT = NULL: one sweep; all where null
select
    cell_id,
    env_hash,
    software_hash,
    enabled,
    benchmark,
    benchmark_limit,
    deterministic, -- noqa: RF04
    heuristic_mode_b,
    plan_cache_limit,
    compute_cache_disabled,
    count(*) as trials,
    median(steady_wall_ms) as steady_wall_ms,
    max(relative_l2_error) as relative_l2_error
from records
where
    status = 'ok' and steady_wall_ms is not null and ($sweep_id is null or sweep_id = $sweep_id)
group by all
having max(relative_l2_error) is not null
order by all
