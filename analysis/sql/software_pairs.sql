-- What did each block measure in the launch's own software environment, and in another one?
-- $software TEXT = 'last_good': name of the other environment
-- terminal: cell, config, block, metric, baseline, candidate, log_ratio
-- none: no block was measured with two software environments side by side
--
-- There is one row for each block, cell, config and metric. Both environments measured it on the
-- same slot in the same launch. Blocks with a failed, throttled or shared trial are left out. In
-- open loops, only steps that both trials made are compared.
--
-- log_ratio: natural logarithm of `candidate` divided by `baseline`
with processes as ( -- noqa: disable=RF01,RF02,RF03,RF04,ST03,ST06,ST07,AM04
    select
        trial.* exclude (software, device, steady_wall_samples_ms, steady_device_samples_ms),
        coalesce(software, '') as side,
        concat_ws('|', cell_id, settings, env_hash, loop_kind, coalesce(in_turns, false)) as cell,
        -- Later steps of open loops have other shapes. Only the steps of both trials are used.
        min(steady_iterations) over pair as steps,
        if(loop_kind = 'open', list_avg(loops.ms[:steps]), steady_wall_ms) as wall,
        if(
            min(steady_device_source) over pair = max(steady_device_source) over pair,
            steady_device_ms,
            null
        ) as device,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes
    from configured(null, $sweep_id) as trial
    left join open_loops() as loops on [trial.sweep_id, trial.trial_id] = loops.id
    where
        status = 'ok' and twin = 0 and not is_doubtful(warnings)
        and coalesce(software, $software) = $software
        and sweep_id in (
            select records.sweep_id from records
            where records.software = $software
        )
    window pair as (
        partition by
            sweep_id, block, slot, launch_id, cell_id, settings, env_hash, loop_kind, in_turns
    )
),

measured as (
    select
        b,
        c,
        unnest([
            {
                'metric': 'steady_wall',
                'baseline': in_rounds(b.wall, c.wall, -wall),
                'candidate': in_rounds(c.wall, b.wall, wall)
            },
            {
                'metric': 'steady_device',
                'baseline': in_rounds(b.device, c.device, -device),
                'candidate': in_rounds(c.device, b.device, device)
            },
            {
                'metric': if(
                    coalesce(b.compute_cache, 'none') in ('empty', 'disabled'),
                    'cold_empty',
                    'cold_warm'
                ),
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
    from same_blocks('processes', $software, '')
)

select
    c.sweep_id,
    c.block,
    found.metric,
    found.baseline, -- value in the other environment
    found.candidate, -- value in the launch's own environment
    log_ratio(found.candidate, found.baseline) as log_ratio,
    c.settings,
    c.cell_id,
    c.env_hash,
    b.software_hash as baseline_software_hash, -- software_hash of the other environment
    c.software_hash
from measured
where found.baseline is not null and found.candidate is not null
order by c.cell_id, c.settings, found.metric, c.sweep_id, c.block, c.software_hash
