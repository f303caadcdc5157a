-- How fast were the replays of a process at first and at last, and what was read of the GPU?
-- $sweep_prefix TEXT = 'speeds-': sweeps whose names begin so
--
-- first_ms: median device time of the first tenth of its replays, one at least
-- last_ms: of the last tenth
-- telemetry: null where the GPU was not read
with cut as (
    select
        *,
        steady_device_samples_ms as samples,
        greatest(1, len(steady_device_samples_ms) // 10) as tenth
    from records
    where starts_with(sweep_id, $sweep_prefix) and status = 'ok' and len(samples) > 0
)

select
    sweep_id,
    coalesce(problem, workload) as cell,
    strftime(started_at, '%H:%M:%S') as started,
    list_median(samples[:tenth]) as first_ms,
    list_median(samples[-tenth:]) as last_ms,
    steady_device_ms,
    sm_clock_low_mhz,
    sm_clock_high_mhz,
    memory_clock_mhz,
    power_w,
    telemetry
from cut
order by cell, started_at
