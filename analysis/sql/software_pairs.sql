-- What did another software measure beside this one, block by block?
-- $software TEXT = 'last_good': what the other one was called
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, block, metric, baseline, candidate, log_ratio
-- none: no block was measured with two softwares side by side
--
-- A row a block, cell, config and metric that both softwares measured on one slot: what the night
-- has in common cancels in their ratio. Pairs of which one failed, was throttled or shared its GPU
-- are left out, and those that ran on two slots or in two launches. Of open loops only as many
-- steps count as both made.
--
-- metric: what it is; times are in ms, memory in bytes, the error is a share
-- baseline: what the other software measured
-- candidate: what the launch's own measured
-- log_ratio: ln(candidate / baseline), above 0 where the launch's own takes more
-- baseline_software_hash: hash of the other software
with sweeps as ( -- noqa: disable=RF01,RF02,RF03,RF04,ST03,ST06,ST07,AM04
    select distinct sweep_id
    from records
    where software = $software
),

trials as (
    select
        sweep_id,
        block,
        trial_id,
        cell_id,
        settings,
        launch_id,
        slot,
        env_hash,
        software_hash,
        software,
        loop_kind,
        steady_iterations,
        steady_wall_ms,
        steady_device_ms,
        steady_device_source,
        relative_l2_error,
        coalesce(in_turns, false) as took_turns,
        compute_cache,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes
    from configured(null, $sweep_id)
    where
        status = 'ok' and twin = 0 and not is_doubtful(warnings)
        and sweep_id in (select sweeps.sweep_id from sweeps)
),

pairs as (
    select
        b,
        c,
        b.sweep_id,
        b.trial_id as b_trial_id,
        c.trial_id as c_trial_id,
        -- null where both made as many
        if(
            b.steady_iterations <> c.steady_iterations,
            least(b.steady_iterations, c.steady_iterations),
            null
        ) as steps,
        coalesce(b.compute_cache, 'none') as cache
    from trials as b
    inner join trials as c
        on
            b.sweep_id = c.sweep_id
            and b.block = c.block
            and b.cell_id = c.cell_id
            and b.settings = c.settings
            and b.launch_id = c.launch_id
            and b.slot = c.slot
            and b.env_hash = c.env_hash
            and b.loop_kind = c.loop_kind
            and b.took_turns = c.took_turns
    where b.software = $software and c.software is null
),

in_turns as (
    select * from logs_in_turns('pairs')
),

measured as (
    select
        pairs.*,
        unnest([
            {
                'metric': 'steady_wall',
                'baseline': coalesce(
                    if(pairs.steps is null, null, list_avg(b_loops.ms[:pairs.steps])),
                    in_rounds(b.steady_wall_ms, c.steady_wall_ms, -in_turns.wall_log)
                ),
                'candidate': coalesce(
                    if(pairs.steps is null, null, list_avg(c_loops.ms[:pairs.steps])),
                    in_rounds(c.steady_wall_ms, b.steady_wall_ms, in_turns.wall_log)
                )
            },
            {
                'metric': 'steady_device',
                'baseline': if(
                    b.steady_device_source = c.steady_device_source,
                    in_rounds(b.steady_device_ms, c.steady_device_ms, -in_turns.device_log),
                    null
                ),
                'candidate': in_rounds(c.steady_device_ms, b.steady_device_ms, in_turns.device_log)
            },
            {
                'metric': if(cache in ('empty', 'disabled'), 'cold_empty', 'cold_warm'),
                'baseline': if(
                    b.compute_cache is not distinct from c.compute_cache, b.cold_ms, null
                ),
                'candidate': c.cold_ms
            },
            { 'metric': 'peak_memory', 'baseline': b.peak_bytes, 'candidate': c.peak_bytes },
            {
                'metric': 'error',
                'baseline': b.relative_l2_error,
                'candidate': c.relative_l2_error
            }
        ]) as found
    from pairs
    left join in_turns
        on pairs.sweep_id = in_turns.sweep_id and pairs.c_trial_id = in_turns.c_trial_id
    left join open_loops() as b_loops on [pairs.sweep_id, pairs.b_trial_id] = b_loops.id
    left join open_loops() as c_loops on [pairs.sweep_id, pairs.c_trial_id] = c_loops.id
)

select
    sweep_id,
    c.block,
    found.metric,
    found.baseline,
    found.candidate,
    log_ratio(found.candidate, found.baseline) as log_ratio,
    c.settings,
    c.cell_id,
    c.env_hash,
    b.software_hash as baseline_software_hash,
    c.software_hash
from measured
where found.baseline is not null and found.candidate is not null
order by c.cell_id, c.settings, found.metric, sweep_id, c.block, c.software_hash
