-- Which sweeps are stored, and how far has each one come?
-- terminal: sweep_id, suite, first_started_at, planned, recorded, ok, failed, gpu
-- none: no trial is recorded
--
-- shards: shards with records, such as 1/4; null if the plan was not split
-- has_ended: whether the sweep has ended; if not, verdicts are those of the last interim analysis
select -- noqa: disable=RF02,ST07
    sweep_id,
    any_value(suite) as suite,
    min(started_at) as first_started_at,
    max(ended_at) as last_ended_at,
    max(plan_trials) as planned,
    count(*) filter (where repeats_block is null) as recorded,
    count(repeats_block) as repeats, -- number of recorded trials in repeats of split blocks
    count(*) filter (where status = 'ok') as ok,
    count(*) filter (where status not in ('ok', 'raced_out')) as failed,
    greatest(max(plan_cells) - count(distinct cell_id), 0) as not_begun,
    string_agg(distinct shard || '/' || shards, ', ' order by shard || '/' || shards) as shards,
    -- null if each cell gets blocks until it is decided
    case
        when recorded >= planned then true
        when any_value(looks) is null then false
    end as finished, -- whether all planned trials are recorded
    any_value(ended.has_ended) as has_ended,
    string_agg(distinct gpu, ', ' order by gpu) as gpu,
    string_agg(distinct torch, ', ' order by torch) as torch,
    string_agg(distinct cudnn::text, ', ' order by cudnn::text) as cudnn
from records
inner join ended_sweeps() as ended using (sweep_id)
group by sweep_id
order by first_started_at desc, sweep_id asc
