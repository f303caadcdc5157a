-- Which sweeps are stored, and how far has each one come?
--
-- first_started_at: when its first trial started, UTC
-- last_ended_at: when its last one ended, UTC
-- planned: trials in its plan
-- recorded: trials recorded
-- ok: trials that ended well
-- failed: trials that did not
-- finished: whether all that is planned is recorded
-- gpu: GPU models that measured
-- torch: PyTorch's versions
-- cudnn: cuDNN's versions
select
    sweep_id,
    any_value(suite) as suite,
    min(started_at) as first_started_at,
    max(ended_at) as last_ended_at,
    max(plan_trials) as planned,
    count(*) as recorded,
    count(*) filter (where status = 'ok') as ok,
    count(*) filter (where status <> 'ok') as failed,
    count(*) >= max(plan_trials) as finished,
    string_agg(distinct gpu, ', ' order by gpu) as gpu,
    string_agg(distinct torch, ', ' order by torch) as torch,
    string_agg(distinct cudnn::text, ', ' order by cudnn::text) as cudnn
from records
group by sweep_id
order by first_started_at desc, sweep_id asc
