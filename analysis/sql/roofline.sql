-- How near to the hardware's limit does each cell run, and which limit is it?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, timed_ms, roofline_ms, roofline_share, limited_by, achieved_tflops,
--     achieved_gbps
-- none: the roofline is known of no trial: calibration was off, or nothing convolved
--
-- A row a cell and config, of the processes whose roofline is known. The limit is what calibration
-- reached on that GPU at that moment: a matrix product in the trial's precision, and a copy. What a
-- step does besides its convolutions is in its time, not in its limit. A share above 1 is possible:
-- the matrix product is no upper bound, algorithms may need fewer operations, caches save bytes.
--
-- processes: processes whose roofline is known
-- timed_ms: device time per iteration, median; wall time without CUDA
-- roofline_ms: least time for the convolutions, each at the ceiling that limits it, median
-- roofline_share: roofline_ms / timed_ms, median over processes
-- headroom_ms: timed_ms less roofline_ms, median
-- limited_by: compute or memory, whichever a step's convolutions together take longer at
-- operations_per_byte: their arithmetic intensity
-- achieved_tflops: 10^12 operations a second of convolutions, median
-- matmul_tflops: what calibration reached, median
-- achieved_gbps: 10^9 bytes a second that they must move, median
-- copy_gbps: what calibration reached, median
with found as (
    select -- noqa: ST06
        settings,
        loop_kind,
        count(*) as processes,
        median(coalesce(steady_device_ms, steady_wall_ms)) as timed_ms,
        median(roofline_ms) as roofline_ms,
        median(roofline_share) as roofline_share,
        median(coalesce(steady_device_ms, steady_wall_ms) - roofline_ms) as headroom_ms,
        if(
            max(convolution_flops) / (1e12 * median(calibration_matmul_tflops))
            > max(convolution_bytes) / (1e9 * median(calibration_copy_gbps)),
            'compute',
            'memory'
        ) as limited_by,
        max(convolution_flops) / nullif(max(convolution_bytes), 0) as operations_per_byte,
        max(convolution_flops) / (1e9 * timed_ms) as achieved_tflops,
        median(calibration_matmul_tflops) as matmul_tflops,
        max(convolution_bytes) / (1e6 * timed_ms) as achieved_gbps,
        median(calibration_copy_gbps) as copy_gbps,
        max(convolution_flops) as convolution_flops,
        max(convolution_bytes) as convolution_bytes,
        cell_id,
        env_hash,
        software_hash,
        workload_hash
    from configured(null, $sweep_id)
    where status = 'ok' and roofline_share is not null
    group by cell_id, env_hash, software_hash, workload_hash, settings, loop_kind
)

select
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    found.*
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
order by
    labels.cell_order, found.software_hash, found.settings, found.loop_kind, found.cell_id,
    found.env_hash, found.workload_hash
