-- Which values did each night measure, for comparison with other nights?
-- terminal: night, cell, config, metric, value, word, processes
-- none: no night is recorded
--
-- There is one row for each night, cell, config and metric. The value is the median over the
-- night's processes, with their most common GPU, host and code. Processes of confirm-DATE-NAME with
-- the launch's own software belong to night-DATE-NAME. Times leave out processes whose GPU was
-- throttled or shared. If one trial failed, the night has a failure.
--
-- value: median over the processes; null if the metric has a word
-- word: text of the metric: kernels (engine), hash of bits (bits), whether bits repeat (repeats),
--     status of trials (failure), or layers that lose channels_last (layout_losses)
with grouped as (
    select
        night,
        env_hash,
        cell_id,
        settings,
        mode(software_hash order by software_hash) as software_hash,
        mode(workload_hash order by workload_hash) as workload_hash,
        mode(gpu_uuid order by gpu_uuid) as gpu_uuid,
        mode(host order by host) as host, -- noqa: RF04
        mode(cpu_model order by cpu_model) as cpu_model,
        median_of(columns([
            'steady_wall', 'steady_device', 'cold_empty', 'cold_warm', 'peak_memory', 'error'
        ])),
        most_common(engine) as engine,
        most_common(layout_losses) as layout_losses,
        if(bool_and(repeats = 'repeat'), most_common(bits), null) as bits,
        coalesce(
            most_common(if(repeats = 'repeat' or is_fresh, null, repeats)),
            if(count(repeats) >= 3, most_common(if(is_fresh, null, repeats)), null)
        ) as repeats,
        coalesce(
            most_common(if(failure = 'ok' or is_fresh, null, failure)),
            most_common(if(is_fresh, null, failure))
        ) as failure
    from night_processes($launch, $until)
    where software is null
    group by night, env_hash, cell_id, settings
),

by_metric as (
    unpivot grouped
    on steady_wall, steady_device, cold_empty, cold_warm, peak_memory, error, engine, failure,
    bits, repeats, layout_losses
    into name metric value found
)

select
    night,
    metric,
    found['value'] as value, -- noqa: RF04
    found['word'] as word,
    found['processes'] as processes, -- number of processes behind the value or word
    columns([
        'settings', 'workload_hash', 'cell_id', 'env_hash', 'software_hash', 'gpu_uuid', 'host',
        'cpu_model'
    ])
from by_metric
order by cell_id, settings, metric, env_hash, night
