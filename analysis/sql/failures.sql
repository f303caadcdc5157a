-- Which trials did not end well, and what went wrong?
-- terminal: cell, config, replicate, status, message, trial_id
-- none: every recorded trial is ok
--
-- This query returns what a trial printed, with the traceback of its error:
--     sweep query "select last_output from records where trial_id = '...'"
select -- noqa: disable=AL03,AM04,RF02,ST06,ST07
    sweep_id,
    status,
    message,
    labels.* exclude (cell_id, cell_order),
    unnest(config),
    replicate,
    attempt,
    retry,
    host,
    slot,
    started_at,
    trial_id,
    cell_id,
    last_output
from records
inner join cell_labels() as labels using (cell_id)
where status not in ('ok', 'raced_out') and ($sweep_id is null or sweep_id glob $sweep_id)
order by started_at, trial_id
