-- On which GPUs and hosts did each night run, and how fast were they?
-- terminal: night, gpu, host, precision, trials, calibration_matmul_tflops, calibration_copy_gbps
-- none: no night is recorded
--
-- There is one row for each night, GPU, host and precision. Calibration results are medians over
-- trials. If the matrix product and the copy are both slower than in other nights, so was the
-- machine.
select
    sweep_id as night,
    env_hash,
    gpu,
    gpu_uuid,
    host,
    cpu_model,
    precision, -- noqa: RF04
    count(*) as trials, -- number of the night's trials on this GPU and host, in this precision
    median(calibration_matmul_tflops) as calibration_matmul_tflops,
    median(calibration_copy_gbps) as calibration_copy_gbps
from records
where not is_confirmation(sweep_id) and is_night_of(sweep_id, $launch, $until)
group by sweep_id, env_hash, gpu, gpu_uuid, host, cpu_model, precision
order by sweep_id, env_hash, gpu_uuid, host, cpu_model, precision
