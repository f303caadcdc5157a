-- How near to the hardware's limit is each cell, which limit is it, and is its loop CPU-bound?
-- terminal: cell, config, timed_ms, roofline_ms, roofline_share, limited_by, achieved_tflops,
--     wall_over_device, launch_bound
-- none: no trial has a known roofline or device time
--
-- One row for each cell and config, with medians over processes. The limit is what calibration
-- reached on that GPU at that time: a matrix product in the trial's precision, and a copy. A step's
-- other work is in its time, not in its limit. A share above 1 is possible: the matrix product is
-- no upper bound, algorithms and caches may save work. No limit is known without calibration or
-- convolutions. If a loop is CPU-bound, only a CUDA graph shows what a setting saves.
--
-- operations_per_byte: arithmetic intensity of the convolutions
-- matmul_tflops, copy_gbps: what calibration reached
-- wall_ms, device_ms: time per iteration; device time is free of launch gaps
with found as (
    select -- noqa: ST06
        settings,
        loop_kind,
        count(*) as processes, -- processes whose roofline or device time is known
        median(coalesce(steady_device_ms, steady_wall_ms)) as timed_ms, -- device time, else wall
        median(roofline_ms) as roofline_ms, -- least time of the convolutions at their limits
        median(roofline_share) as roofline_share,
        max(convolution_flops) / (1e12 * median(calibration_matmul_tflops))
        > max(convolution_bytes) / (1e9 * median(calibration_copy_gbps)) as computes_longer,
        case when computes_longer then 'compute' when not computes_longer then 'memory' end
            as limited_by, -- compute or memory, whichever takes the convolutions longer
        max(convolution_flops) / nullif(max(convolution_bytes), 0) as operations_per_byte,
        max(convolution_flops) / (1e9 * timed_ms) as achieved_tflops, -- 10^12 operations per second
        median(calibration_matmul_tflops) as matmul_tflops,
        max(convolution_bytes) / (1e6 * timed_ms) as achieved_gbps, -- 10^9 bytes moved per second
        median(calibration_copy_gbps) as copy_gbps,
        max(convolution_flops) as convolution_flops,
        max(convolution_bytes) as convolution_bytes,
        median(steady_wall_ms) as wall_ms,
        median(steady_device_ms) as device_ms,
        median(steady_wall_ms / steady_device_ms) as wall_over_device, -- wall time / device time
        avg(launch_bound::int) > 0.5 as launch_bound,
        min(steady_device_source) as device_source, -- graph (replayed) or profiler (kernel times)
        columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
    from configured(null, $sweep_id)
    where status = 'ok' and (roofline_share is not null or steady_device_ms > 0)
    group by cell_id, env_hash, software_hash, workload_hash, settings, loop_kind
)

select
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    found.* exclude (computes_longer) -- noqa: RF02
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
order by
    labels.cell_order, found.software_hash, found.settings, found.loop_kind, found.cell_id,
    found.env_hash, found.workload_hash
