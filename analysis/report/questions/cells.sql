-- Which cells are stored, and how many trials does each cell have?
with counted as (
    select
        columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash']),
        'torch ' || max(torch) as torch,
        max(cudnn) as cudnn,
        'driver ' || max(driver) as driver,
        'code ' || workload_hash[:6] as code,
        max(convolution_flops) / nullif(max(convolution_bytes), 0) as operations_per_byte,
        max(convolution_flops) as convolution_flops,
        median(calibration_matmul_tflops) as matmul_tflops,
        median(calibration_copy_gbps) as copy_gbps,
        count(*) as trials
    from records
    where status <> 'raced_out'
    group by cell_id, env_hash, software_hash, workload_hash
)

select * exclude (cell_order) -- noqa: disable=AM04,RF02,ST07
from named_cells()
inner join counted using (cell_id)
order by cell_order, cell_id, env_hash, software_hash, workload_hash
