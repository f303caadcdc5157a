-- What measured?
-- $sweep_id TEXT = NULL: one sweep; all where null
select
    gpu,
    count(distinct gpu_uuid) as gpus,
    any_value(gpu_memory_bytes) as gpu_memory_bytes,
    mig_profile,
    driver,
    cuda,
    cudnn,
    torch,
    ray,
    python,
    os,
    version,
    string_agg(distinct host, ', ' order by host) as hosts,
    count(*) as trials
from records
where $sweep_id is null or sweep_id = $sweep_id
group by all
order by all
