-- What does each bundled set of problems, model, regime, state and control take?
-- $each BOOLEAN = false: a row for each problem of a set, too
with named as (
    select
        *,
        concat_ws(', ', nullif(regime, 'fixed'), nullif(state, 'plain')) as regime_or_state,
        problem is not null and regime = 'fixed' and state = 'plain' as of_a_set,
        if(of_a_set and not $each, split_part(problem, '/', 1), problem) as problems,
        workload || coalesce(' ' || problems, '') as cells
    from records
)

select
    cells,
    direction,
    if(count(distinct input_shape) = 1, array_to_string(any_value(input_shape), 'x'), '') as input,
    regime_or_state,
    precision,
    array_to_string(list_sort(list_distinct(flatten(array_agg(routes)))), ', ') as routes,
    count(*) as trials,
    min(steady_wall_ms) as least_wall_ms,
    max(steady_wall_ms) as most_wall_ms,
    min(steady_device_ms) as least_device_ms,
    max(steady_device_ms) as most_device_ms,
    round(max(greatest(cold_peak_allocated_bytes, steady_peak_allocated_bytes)) / 1048576)::bigint
        as peak_mib,
    count_if(status <> 'ok') as failed
from named
group by of_a_set, workload, cells, direction, regime_or_state, precision
order by of_a_set, workload <> 'conv', cells, direction, regime_or_state, precision
