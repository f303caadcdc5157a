-- What did another software measure beside this one, block by block?
-- $software TEXT = 'last_good': what the other one was called
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, block, metric, baseline, candidate, log_ratio
-- none: no block was measured with two softwares side by side
--
-- A row a block, cell, config and metric that both softwares measured on one slot: what the night
-- has in common cancels in their ratio. Pairs of which one failed, was throttled or shared its GPU
-- are left out, and those that ran on two slots or in two launches.
--
-- metric: what it is; times are in ms, memory in bytes, the error is a share
-- baseline: what the other software measured
-- candidate: what the launch's own measured
-- log_ratio: ln(candidate / baseline), above 0 where the launch's own takes more
-- baseline_software_hash: hash of the other software
with blocks as (
    select * from software_blocks($software, $sweep_id)
),

by_metric as (
    unpivot blocks
    on steady_wall, steady_device, cold_empty, cold_warm, peak_memory, error
    into name metric value found
)

select -- noqa: ST06
    sweep_id,
    block,
    metric,
    found['baseline'] as baseline,
    found['candidate'] as candidate,
    log_ratio(found['candidate'], found['baseline']) as log_ratio,
    settings,
    cell_id,
    env_hash,
    baseline_software_hash,
    software_hash
from by_metric
where found['baseline'] is not null and found['candidate'] is not null
order by cell_id, settings, metric, sweep_id, block, software_hash
