-- How close is each cell to the hardware's limit, which limit is it, and is its loop CPU-bound?
-- terminal: cell, config, timed_ms, roofline_ms, roofline_share, limited_by, achieved_tflops,
--     wall_over_device, launch_bound
-- none: no trial has a known roofline or device time
--
-- There is one row for each cell and config, with medians over processes. The limits are the speeds
-- that calibration measured on that GPU: a matrix product in the trial's precision, and a copy. No
-- limit is known without calibration or convolutions. A share can exceed 1, because algorithms and
-- caches may save work. A CPU-bound loop hides what a setting saves on the GPU.
--
-- timed_ms: device time per iteration, or wall time if device time is unknown
-- operations_per_byte: number of operations for each byte that the convolutions move
-- matmul_tflops: speed of the calibration's matrix product, 10^12 operations/s
-- achieved_tflops: speed of the convolutions, 10^12 operations/s
-- achieved_gbps: speed at which the convolutions move data, 10^9 bytes/s
with found as (
    select -- noqa: ST06
        settings,
        loop_kind,
        count(*) as processes, -- number of processes whose roofline or device time is known
        median(coalesce(steady_device_ms, steady_wall_ms)) as timed_ms,
        median(roofline_ms) as roofline_ms, -- shortest possible time of the convolutions
        median(roofline_share) as roofline_share,
        max(convolution_flops) / (1e12 * median(calibration_matmul_tflops))
        > max(convolution_bytes) / (1e9 * median(calibration_copy_gbps)) as computes_longer,
        case when computes_longer then 'compute' when not computes_longer then 'memory' end
            as limited_by, -- limit that slows the convolutions more: compute or memory
        max(convolution_flops) / nullif(max(convolution_bytes), 0) as operations_per_byte,
        max(convolution_flops) / (1e9 * timed_ms) as achieved_tflops,
        median(calibration_matmul_tflops) as matmul_tflops,
        max(convolution_bytes) / (1e6 * timed_ms) as achieved_gbps,
        median(calibration_copy_gbps) as copy_gbps, -- speed of the calibration's copy, 10^9 bytes/s
        max(convolution_flops) as convolution_flops,
        max(convolution_bytes) as convolution_bytes,
        median(steady_wall_ms) as wall_ms, -- wall time per iteration
        median(steady_device_ms) as device_ms, -- device time per iteration
        median(steady_wall_ms / steady_device_ms) as wall_over_device, -- wall time over device time
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
