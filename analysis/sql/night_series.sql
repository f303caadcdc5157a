-- What did each night measure, as the series that nights are compared by?
-- $launch TEXT = NULL: name that ends the nights' sweep_ids; every sweep where null
-- $until TEXT = NULL: last night, as 2026-11-21; all where null
--
-- A row a night, cell, config and metric: the median over the night's processes. A night is the
-- sweep night-DATE-NAME; what confirm-DATE-NAME measured afresh with the same software joins it.
-- Times leave out processes whose GPU was throttled or shared. A single trial that failed makes a
-- failure of the night. Second trials of A/A pairs are left out.
--
-- night: sweep_id of the night
-- metric: what it is; times are in ms, memory in bytes, the error is a share
-- value: median over the processes; null where the metric is no number
-- word: of engine the most common kernels of a step, of failure how trials ended; else null
-- processes: processes behind it
with trials as materialized (
    select -- noqa: ST06
        night,
        is_fresh,
        env_hash,
        software_hash,
        cell_id,
        settings,
        kernels_hash,
        engines(logged_choices) as logged_engines,
        status,
        status = 'ok' as is_ok,
        status = 'ok' and not is_doubtful(warnings) as is_timed,
        coalesce(compute_cache in ('empty', 'disabled'), false) as compiles,
        steady_wall_ms,
        steady_device_ms,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes,
        relative_l2_error
    from night_trials($launch, $until)
),

chosen as (
    select
        kernels_hash,
        nullif(convolution_kernels(any_value(kernels)), []) as kernel_names
    from night_trials($launch, $until)
    where kernels_hash is not null
    group by kernels_hash
),

described as (
    select
        trials.*,
        array_to_string(
            list_distinct(coalesce(chosen.kernel_names, trials.logged_engines)), ', '
        ) as engine_name
    from trials
    left join chosen on trials.kernels_hash = chosen.kernels_hash
),

grouped as (
    select
        night,
        env_hash,
        cell_id,
        settings,
        mode(software_hash order by software_hash) as software_hash,
        median_of(steady_wall_ms, is_timed) as steady_wall,
        median_of(steady_device_ms, is_timed) as steady_device,
        median_of(cold_ms, is_timed and compiles) as cold_empty,
        median_of(cold_ms, is_timed and not compiles) as cold_warm,
        median_of(peak_bytes, is_ok) as peak_memory,
        median_of(relative_l2_error, is_ok) as error, -- noqa: RF04
        most_common(engine_name, is_ok) as engine,
        coalesce(
            most_common(status, not is_ok and not is_fresh),
            most_common(status, not is_fresh)
        ) as failure
    from described
    group by night, env_hash, cell_id, settings
),

by_metric as (
    unpivot grouped
    on steady_wall, steady_device, cold_empty, cold_warm, peak_memory, error, engine, failure
    into name metric value found
)

select -- noqa: ST06
    by_metric.night,
    by_metric.metric,
    by_metric.found['value'] as value, -- noqa: RF04
    by_metric.found['word'] as word,
    by_metric.found['processes'] as processes,
    by_metric.settings,
    by_metric.cell_id,
    by_metric.env_hash,
    by_metric.software_hash
from by_metric
order by
    by_metric.cell_id, by_metric.settings, by_metric.metric, by_metric.env_hash, by_metric.night
