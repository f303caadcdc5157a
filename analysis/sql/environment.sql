-- On what hardware and software was everything measured, and was the hardware steady?
-- terminal: host, gpu, slots, driver, cudnn, torch, trials, sweeps
-- none: no trial is recorded
--
-- There is one row for each host, hardware and software. Clock, power and copy_gbps are medians
-- over trials.
--
-- throttled, shared_gpu, power_capped, clocks_unsettled: number of trials with this warning
-- other_shapes: number of trials whose workload made other shapes than requested
-- own_loss_unused: number of trials that did not use the loss that the model returned
-- not_finite: number of trials whose first calls returned infinities or NaN
-- diverged: number of trials whose loss was finite at first, but not at the end
-- resembling_sweeps: sweeps with correlated blocks, whose intervals may be too narrow
-- commits: git commits of cudnn-sweep, if known
select -- noqa: ST06
    host,
    device,
    gpu,
    max(gpu_memory_bytes) as gpu_memory_bytes,
    any_value(mig_profile) as mig_profile,
    max(max_sm_clock_mhz) as max_sm_clock_mhz,
    max(power_limit_w) as power_limit_w,
    count(distinct slot) as slots, -- number of GPUs or CPU slots with trials
    max(cpu_cores) as cpu_cores, -- largest number of CPU cores of a trial
    min(cpu_cores) as fewest_cpu_cores, -- smallest number of CPU cores of a trial
    any_value(columns(['driver', 'cuda', 'cudnn', 'torch', 'ray', 'python', 'os', 'version'])),
    list_sort(list(distinct commit) filter (where commit is not null)) as commits,
    count(*) as trials, -- number of trials on this hardware and software
    count(distinct sweep_id) as sweeps, -- number of sweeps on this hardware and software
    min(started_at) as first_started_at,
    max(ended_at) as last_ended_at,
    count(*) filter (where list_contains(warnings, 'throttled')) as throttled,
    count(*) filter (where list_contains(warnings, 'shared_gpu')) as shared_gpu,
    count(*) filter (where list_contains(warnings, 'power_capped')) as power_capped,
    count(*) filter (where list_contains(warnings, 'clocks_unsettled')) as clocks_unsettled,
    count(*) filter (where list_contains(warnings, 'other_shapes')) as other_shapes,
    count(*) filter (where list_contains(warnings, 'own_loss_unused')) as own_loss_unused,
    count(*) filter (where list_contains(warnings, 'not_finite')) as not_finite,
    count(*) filter (where list_contains(warnings, 'diverged')) as diverged,
    list_sort(list(distinct sweep_id) filter (
        where sweep_id in (from resembling_sweeps($sweep_id))
    )) as resembling_sweeps,
    median(sm_clock_mhz) as sm_clock_mhz,
    min(sm_clock_low_mhz) as sm_clock_low_mhz,
    median(power_w) as power_w,
    max(temperature_c) as temperature_c,
    median(calibration_copy_gbps) as copy_gbps, -- speed of the calibration's copy, 10^9 bytes/s
    quantile_cont(calibration_copy_gbps, 0.1) as copy_gbps_p10, -- 10th percentile of copy_gbps
    quantile_cont(calibration_copy_gbps, 0.9) as copy_gbps_p90, -- 90th percentile of copy_gbps
    env_hash,
    software_hash
from records
where $sweep_id is null or sweep_id glob $sweep_id
group by host, device, gpu, env_hash, software_hash
order by first_started_at, host, device, gpu, env_hash, software_hash
