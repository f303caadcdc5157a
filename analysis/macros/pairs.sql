-- What a contrast compares: of each block, the baseline's trial and the candidate's.

-- Why a flag cannot have mattered in these trials; null where it could.
create or replace macro no_effect_reason(flag, device, convolutions, routes, other_settings) as case
    when device = 'cpu' then 'no_cuda'
    when flag in ('benchmark', 'benchmark_limit') and convolutions = 0 then 'flag_not_consulted'
    when flag = 'benchmark_limit' and contains(other_settings, 'benchmark=false')
        then 'flag_not_consulted'
    when
        flag <> 'enabled' and convolutions > 0 and len(routes) > 0
        and not contains(lower(array_to_string(routes, ' ')), 'cudnn')
        then 'not_cudnn'
end;

-- The verdict that is shown: no difference is credited to a flag that cannot have mattered.
create or replace macro shown(reason, verdict) as
    if(reason is null or verdict is null, verdict, 'no_effect');

-- One row a block and set of other settings. `pairing` is paired, split (the two ran on different
-- slots, or in different launches) or unpaired (one failed or is missing). `loop_kind` is mixed
-- where one loop was open and the other closed: their times do not compare. `compute_cache` is the
-- state that both met (none without CUDA), null where they differ.
create or replace macro block_pairs(flag, from_value, to_value, of_sweep) as table
with trials as (
    select
        sweep_id,
        block,
        cell_id,
        env_hash,
        software_hash,
        workload,
        problem,
        direction,
        array_to_string(input_shape, 'x') as input_shape,
        regime,
        precision,
        layout,
        device,
        gpu,
        torch,
        cudnn,
        driver,
        map {
            'enabled': enabled::text,
            'benchmark': benchmark::text,
            'benchmark_limit': benchmark_limit::text,
            'deterministic': deterministic::text,
            'heuristic_mode_b': heuristic_mode_b::text,
            'plan_cache_limit': plan_cache_limit::text
        } as settings,
        if(
            map_contains(settings, flag), flag,
            error('field ' || flag || ' is none of ' || map_keys(settings)::text)
        ) as field,
        {
            'ok': status = 'ok',
            'place': [launch_id, slot, env_hash, software_hash],
            'loop_kind': loop_kind,
            'compute_cache': coalesce(compute_cache, 'none'),
            'cold_ms': list_sum(list_transform(cold, lambda shape: shape.first_ms)),
            'wall_ms': steady_wall_ms,
            'samples_ms': if(loop_kind = 'open', steady_wall_samples_ms, null),
            'device_ms': steady_device_ms,
            'peak_bytes': greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes),
            'convolutions': convolutions,
            'routes': routes
        } as trial
    from records
    where twin = 0 and (of_sweep is null or sweep_id = of_sweep)
),

configured as (
    select
        *,
        coalesce(settings[field], 'null') as setting,
        array_to_string(
            list_transform(
                list_filter(map_entries(settings), lambda entry: entry.key <> field),
                lambda entry: entry.key || '=' || coalesce(entry.value, 'null')
            ),
            ', '
        ) as other_settings
    from trials
),

joined as (
    select
        sweep_id,
        block,
        cell_id,
        other_settings,
        any_value(env_hash) as env_hash,
        any_value(software_hash) as software_hash,
        any_value(workload) as workload,
        any_value(problem) as problem,
        any_value(direction) as direction,
        any_value(input_shape) as input_shape,
        any_value(regime) as regime,
        any_value(precision) as precision,
        any_value(layout) as layout,
        any_value(device) as device,
        any_value(gpu) as gpu,
        any_value(torch) as torch,
        any_value(cudnn) as cudnn,
        any_value(driver) as driver,
        any_value(trial) filter (where setting = from_value) as b,
        any_value(trial) filter (where setting = to_value) as c
    from configured
    where setting in (from_value, to_value)
    group by sweep_id, block, cell_id, other_settings
),

kinds as (
    select
        *,
        if(b.loop_kind <> c.loop_kind, 'mixed', coalesce(b.loop_kind, c.loop_kind)) as own_kind,
        -- an open loop's budget may cut one of the two short: only steps that both made compare
        least(len(b.samples_ms), len(c.samples_ms)) as steps
    from joined
)

select
    * exclude (b, c, own_kind, steps),
    case
        when b is null then 'candidate'
        when c is null then 'baseline'
        else 'both'
    end as present,
    case
        when not (coalesce(b.ok, false) and coalesce(c.ok, false)) then 'unpaired'
        else if(b.place = c.place, 'paired', 'split')
    end as pairing,
    coalesce(own_kind, max(own_kind) over cell) as loop_kind,
    if(b.compute_cache = c.compute_cache, b.compute_cache, null) as compute_cache,
    case own_kind when 'closed' then b.wall_ms when 'open' then list_avg(b.samples_ms[:steps]) end
        as baseline_ms,
    case own_kind when 'closed' then c.wall_ms when 'open' then list_avg(c.samples_ms[:steps]) end
        as candidate_ms,
    b.device_ms as baseline_device_ms,
    c.device_ms as candidate_device_ms,
    b.cold_ms as baseline_cold_ms,
    c.cold_ms as candidate_cold_ms,
    b.peak_bytes as baseline_peak_reserved_bytes,
    c.peak_bytes as candidate_peak_reserved_bytes,
    greatest(b.convolutions, c.convolutions) as convolutions,
    list_concat(b.routes, c.routes) as routes
from kinds
window cell as (partition by cell_id, env_hash, software_hash, other_settings);
