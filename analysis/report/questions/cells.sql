-- Which cells are stored, and how many trials has each?
select -- noqa: ST06
    counted.env_hash,
    counted.software_hash,
    counted.workload_hash,
    named.* exclude (cell_order), -- noqa: AM04, RF02
    counted.* exclude (cell_id, env_hash, software_hash, workload_hash) -- noqa: AM04, RF02
from (
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
) as counted
inner join named_cells() as named on counted.cell_id = named.cell_id
order by
    named.cell_order, counted.cell_id, counted.env_hash, counted.software_hash,
    counted.workload_hash
