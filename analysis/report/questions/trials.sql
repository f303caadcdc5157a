-- What did each trial of some cells measure?
-- $cell_ids TEXT = '': ids of the cells, separated by commas
select -- noqa: ST06
    -- noqa: disable=RF03
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash']),
    settings as config,
    columns([
        'trial_id', 'sweep_id', 'block', 'position', 'twin', 'status', 'compute_cache',
        'steady_wall_ms', 'steady_device_ms'
    ]),
    list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
    greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_reserved_bytes,
    array_to_string(layout_losses, ', ') as layout_losses,
    columns(['warnings', 'slot', 'host', 'sm_clock_mhz', 'max_sm_clock_mhz']),
    min(started_at) over (partition by sweep_id, launch_id) as began_at,
    concat_ws(' ', sweep_id, strftime(began_at, '%m-%d %H:%M'), host, slot[:12]) as ran_on,
    epoch(started_at - began_at) / 60 as from_minute,
    epoch(ended_at - began_at) / 60 as to_minute,
    started_at,
    message
from records
where status <> 'raced_out' and list_contains(string_split($cell_ids, ','), cell_id)
order by cell_id, env_hash, software_hash, workload_hash, started_at, sweep_id, trial_id
