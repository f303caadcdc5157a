-- What does each bundled problem, model, regime, state and control take, and which way does it go?
select
    workload || coalesce(' ' || problem, '') as name,
    direction,
    array_to_string(input_shape, 'x') as input,
    concat_ws(', ', nullif(regime, 'fixed'), nullif(state, 'plain')) as regime_or_state,
    precision,
    array_to_string(list_sort(list_distinct(routes)), ', ') as routes,
    steady_wall_ms,
    steady_device_ms,
    round(cold_peak_allocated_bytes / 1048576)::bigint as cold_peak_mib,
    round(steady_peak_allocated_bytes / 1048576)::bigint as steady_peak_mib,
    if(status = 'ok', '', status || ': ' || message) as failed
from records
order by
    workload = 'conv' and regime = 'fixed' and state = 'plain', workload <> 'conv',
    workload, problem, direction, regime, state, input_shape, trial_id
