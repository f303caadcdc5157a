-- Which trials did not end well, and what went wrong?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, replicate, status, message, trial_id
-- none: every recorded trial is ok
with failed as (
    select * replace (array_to_string(input_shape, 'x') as input_shape)
    from records
    where status <> 'ok' and ($sweep_id is null or sweep_id glob $sweep_id)
)

select -- noqa: ST06
    sweep_id,
    status,
    message,
    workload,
    problem,
    direction,
    input_shape,
    regime,
    state,
    precision,
    layout,
    gpu,
    unnest(config), -- noqa: AL03
    replicate,
    attempt,
    retry,
    host,
    slot,
    started_at,
    trial_id,
    cell_id
from failed
order by started_at, trial_id
