-- Which GPU is slower than its peers of the same model?
-- $threshold DOUBLE = 0.05: smallest difference of two speeds that counts, as a share of the higher
-- $least_trials BIGINT = 3: smallest number of calibrated trials that a GPU needs
-- terminal: gpu, host, gpu_uuid, measure, finding, ratio, peers, trials
-- none: no GPU has enough calibrated trials
--
-- There is one row for each GPU and measure. The peers of a GPU are the other GPUs of its model
-- with the same software. A GPU is slow if most of its peers are faster. If half or more of a
-- model's GPUs differ from their peers, no GPU is slow. Trials that shared the GPU are left out.
--
-- throttled: number of trials that found the GPU throttled
with speeds as (
    select
        *,
        coalesce(gpu_uuid, slot) as gpu_id,
        unnest(['copy', 'matmul ' || precision]) as measure,
        unnest(['GB/s', 'TFLOP/s']) as speed_unit,
        unnest([calibration_copy_gbps, calibration_matmul_tflops]) as speed
    from records
    where
        device = 'cuda'
        and not coalesce(list_contains(warnings, 'shared_gpu'), false)
        and ($sweep_id is null or sweep_id glob $sweep_id)
),

gpus as (
    select -- noqa: ST06
        gpu,
        software_hash,
        measure, -- timed operation: copy, or matmul and its precision
        any_value(host) as host, -- noqa: RF04
        any_value(speed_unit) as speed_unit, -- unit of `speed`: GB/s or TFLOP/s
        count(*) as trials, -- number of calibrated trials
        median(speed) as speed, -- median speed over trials
        count(*) filter (where list_contains(warnings, 'throttled')) as throttled,
        max(temperature_c) as temperature_c,
        median(sm_clock_mhz) as sm_clock_mhz,
        max(power_limit_w) as power_limit_w,
        gpu_id as gpu_uuid
    from speeds
    where speed is not null
    group by gpu, software_hash, measure, gpu_id
    having count(*) >= $least_trials
),

compared as (
    select
        *,
        coalesce(list(speed) over peers, []) as speeds,
        len(list_filter(speeds, lambda peer: speed < (1 - $threshold) * peer)) as faster_peers,
        len(list_filter(speeds, lambda peer: peer < (1 - $threshold) * speed)) as slower_peers,
        2 * (faster_peers + slower_peers) > len(speeds) as is_off
    from gpus
    window peers as (
        partition by gpu, software_hash, measure
        rows between unbounded preceding and unbounded following exclude current row
    )
)

select
    * exclude (speeds, faster_peers, slower_peers, is_off),
    case
        when len(speeds) = 0 then 'alone'
        when not is_off then 'alike'
        when 2 * count(*) filter (where is_off) over alike >= count(*) over alike then 'differs'
        else if(faster_peers > slower_peers, 'slow', 'fast')
    end as finding, -- slow, fast, alike, alone (without peers), or differs (if half of the GPUs do)
    len(speeds) as peers, -- number of peers
    list_median(speeds) as peers_speed, -- median speed of the peers
    speed / peers_speed as ratio -- speed divided by peers_speed
from compared
window alike as (partition by gpu, software_hash, measure)
order by finding in ('alike', 'alone'), gpu, software_hash, measure, speed, host, gpu_uuid
