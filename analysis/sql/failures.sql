-- Which trials did not end well, and what went wrong?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, replicate, status, message, trial_id
-- none: every recorded trial is ok
select -- noqa: ST06
    records.sweep_id,
    records.status,
    records.message,
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    unnest(records.config), -- noqa: AL03
    records.replicate,
    records.attempt,
    records.retry,
    records.host,
    records.slot,
    records.started_at,
    records.trial_id,
    records.cell_id
from records
inner join cell_labels() as labels on records.cell_id = labels.cell_id
where
    records.status <> 'ok'
    and ($sweep_id is null or records.sweep_id glob $sweep_id) -- noqa: RF02
order by records.started_at, records.trial_id
