-- What do the first calls of all shapes cost, by config and state of the compute cache?
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
    coalesce(compute_cache, 'none') as compute_cache,
    median(distinct_shapes) as distinct_shapes,
    count(*) as trials,
    median(list_sum(list_transform(cold, lambda shape: shape.first_ms))) as cold_ms
from records
where status = 'ok' and len(cold) > 0 and ($sweep_id is null or sweep_id = $sweep_id)
group by all
order by all
