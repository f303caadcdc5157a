-- Which GPU is slower than its peers of the same model?
-- $threshold DOUBLE = 0.05: by what share of the faster one two GPUs must differ to be told apart
-- $least_trials BIGINT = 3: GPUs with fewer calibrated trials are left out
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: gpu, host, gpu_uuid, measure, finding, ratio, peers, trials
-- none: no GPU has enough calibrated trials
--
-- A row a GPU and measure: the calibration's copy, or its matrix product in one precision; medians
-- over trials, those left out in which another process used the GPU. Peers are other GPUs of its
-- model that ran the same software. One that differs from most of its peers is off. Where at least
-- half of a model's GPUs are off, as with two that differ, nobody can say which is at fault.
--
-- measure: copy, or matmul and the precision
-- speed_unit: of the speeds: GB/s, or TFLOP/s
-- trials: calibrated trials
-- speed: median over them
-- peers: GPUs that it is compared with
-- peers_speed: the median of theirs
-- ratio: speed / peers_speed
-- finding: slow, fast, differs (off, and so are half of them or more), alike, or alone (no peer)
-- throttled: of its trials those that found the GPU throttled
-- temperature_c: highest temperature seen
with trials as (
    select
        *,
        coalesce(gpu_uuid, slot) as gpu_id
    from records
    where
        device = 'cuda'
        and not coalesce(list_contains(warnings, 'shared_gpu'), false)
        and ($sweep_id is null or sweep_id glob $sweep_id)
),

speeds as (
    select
        *,
        'copy' as measure,
        'GB/s' as speed_unit,
        calibration_copy_gbps as speed
    from trials
    union all
    select
        *,
        'matmul ' || precision as measure,
        'TFLOP/s' as speed_unit,
        calibration_matmul_tflops as speed
    from trials
),

gpus as materialized (
    select
        gpu,
        software_hash,
        measure,
        gpu_id,
        any_value(host) as host, -- noqa: RF04
        any_value(speed_unit) as speed_unit,
        count(speed) as trials,
        median(speed) as speed,
        count(*) filter (where list_contains(warnings, 'throttled')) as throttled,
        max(temperature_c) as temperature_c,
        median(sm_clock_mhz) as sm_clock_mhz,
        max(power_limit_w) as power_limit_w
    from speeds
    where speed is not null
    group by gpu, software_hash, measure, gpu_id
    having count(speed) >= $least_trials
),

compared as (
    select
        one.gpu,
        one.software_hash,
        one.measure,
        one.gpu_id,
        count(peer.gpu_id) as peers,
        median(peer.speed) as peers_speed,
        count(*) filter (where one.speed < (1 - $threshold) * peer.speed) -- noqa: RF02
            as faster_peers,
        count(*) filter (where peer.speed < (1 - $threshold) * one.speed) -- noqa: RF02
            as slower_peers,
        2 * (faster_peers + slower_peers) > peers as is_off
    from gpus as one
    left join gpus as peer
        on
            one.gpu = peer.gpu
            and one.software_hash = peer.software_hash
            and one.measure = peer.measure
            and one.gpu_id <> peer.gpu_id
    group by one.gpu, one.software_hash, one.measure, one.gpu_id
),

judged as (
    select
        *,
        case
            when peers = 0 then 'alone'
            when not is_off then 'alike'
            when 2 * count(*) filter (where is_off) over alike >= count(*) over alike then 'differs'
            else if(faster_peers > slower_peers, 'slow', 'fast')
        end as finding
    from compared
    window alike as (partition by gpu, software_hash, measure)
)

select -- noqa: ST06
    gpus.* exclude (gpu_id), -- noqa: AM04, RF02
    gpus.gpu_id as gpu_uuid,
    judged.finding,
    judged.peers,
    judged.peers_speed,
    gpus.speed / judged.peers_speed as ratio
from gpus
inner join judged
    on
        gpus.gpu = judged.gpu
        and gpus.software_hash = judged.software_hash
        and gpus.measure = judged.measure
        and gpus.gpu_id = judged.gpu_id
order by
    judged.finding in ('alike', 'alone'), gpus.gpu, gpus.software_hash, gpus.measure, gpus.speed,
    gpus.host, gpus.gpu_id
