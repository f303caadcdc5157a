-- What a contrast compares: of each block, the baseline's trial and the candidate's.

-- Why a setting cannot have mattered, from what ran; null where it could, or where that is unknown.
-- `convolved`: convolutions ran in cuDNN. `others`: something else did. `searched`: with benchmark
-- on, cuDNN's log shows a search. Records of schema 1 know neither of the last two.
create or replace macro no_effect_reason(
    flag, device, other_settings, convolutions, convolved, others, searched
) as case
    when flag = 'twin' then null
    when device = 'cpu' then 'no_cuda'
    -- whatever is compiled at run time, in cuDNN or not
    when flag = 'compute_cache_disabled' then null
    when flag = 'benchmark_limit' and contains(other_settings, 'benchmark=false')
        then 'flag_not_consulted'
    -- a search always asks heuristic A, and the fallback
    when flag = 'heuristic_mode_b' and contains(other_settings, 'benchmark=true')
        then 'flag_not_consulted'
    when flag in ('benchmark', 'benchmark_limit') and searched then null
    when flag in ('benchmark', 'benchmark_limit') and convolved and not searched
        then 'flag_not_consulted'
    when coalesce(convolved, true) then null
    when others then if(flag in ('enabled', 'deterministic'), null, 'flag_not_consulted')
    when not others then 'not_cudnn'
    -- schema 1 knows the convolutions alone
    when flag = 'enabled' then null
    when convolutions > 0 then 'not_cudnn'
    when flag in ('benchmark', 'benchmark_limit') then 'flag_not_consulted'
end;

-- The verdict that is shown: no difference is credited to a flag that cannot have mattered.
create or replace macro shown(reason, verdict) as
    if(reason is null or verdict is null, verdict, 'no_effect');

-- One row a block and set of other settings. `pairing` is paired, split (the two ran on different
-- slots, or in different launches) or unpaired (one failed or is missing). `loop_kind` is mixed
-- where one loop was open and the other closed: their times do not compare, nor do device times
-- from two sources (null then). `compute_cache` is the state that both met (none without CUDA),
-- null where they differ; where disabling it is the contrast, what the one that had a cache met. The
-- flag twin pairs a config's A/A trials; others leave out the second.
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
        state,
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
            'plan_cache_limit': plan_cache_limit::text,
            'compute_cache_disabled': coalesce(compute_cache_disabled, false)::text,
            'twin': twin::text
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
            'device_source': steady_device_source,
            'launch_bound': launch_bound,
            'peak_bytes': greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes),
            'warnings': warnings,
            'kernels_source': kernels_source,
            'kernels_hash': kernels_hash
        } as trial,
        -- a trial without cuDNN does not tell what would have run in it
        flag <> 'enabled' or enabled as tells,
        twin,
        convolutions,
        case
            when contains(lower(array_to_string(routes, ' ')), 'cudnn') then true
            when contains(array_to_string(cudnn_operations, ' '), 'cudnn_convolution') then true
            when convolutions = 0 or len(routes) > 0 then false
        end as convolved,
        len(cudnn_operations) > 0 as others,
        case
            when not benchmark or coalesce(len(logged_choices), 0) = 0 then null
            when logged_searches > 0 then true
            -- a search builds many plans: where several were built and none seen timed, who knows
            when list_max(list_transform(logged_choices, lambda choice: choice.plans_built)) <= 1
                then false
        end as searched
    from records
    where (flag = 'twin' or twin = 0) and (of_sweep is null or sweep_id = of_sweep)
),

configured as (
    select
        *,
        coalesce(settings[field], 'null') as setting,
        array_to_string(
            list_transform(
                list_filter(map_entries(settings), lambda entry: entry.key not in (field, 'twin')),
                lambda entry: entry.key || '=' || coalesce(entry.value, 'null')
            ),
            ', '
        ) as other_settings
    from trials
),

reasons as (
    select
        cell_id,
        env_hash,
        software_hash,
        other_settings,
        no_effect_reason(
            flag,
            any_value(device),
            other_settings,
            max(convolutions) filter (where tells),
            bool_or(convolved) filter (where tells),
            bool_or(others) filter (where tells),
            bool_or(searched) filter (where tells)
        ) as no_effect_reason
    from configured
    where setting in (from_value, to_value)
    group by cell_id, env_hash, software_hash, other_settings
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
        any_value(state) as state,
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
    having flag <> 'twin' or bool_or(twin = 1) -- few blocks have a twin
),

kinds as (
    select
        *,
        if(b.loop_kind <> c.loop_kind, 'mixed', coalesce(b.loop_kind, c.loop_kind)) as own_kind,
        -- an open loop's budget may cut one of the two short: only steps that both made compare
        least(len(b.samples_ms), len(c.samples_ms)) as steps,
        b.device_source is not distinct from c.device_source as same_source
    from joined
)

select
    kinds.* exclude (b, c, own_kind, steps, same_source),
    case
        when b is null then 'candidate'
        when c is null then 'baseline'
        else 'both'
    end as present,
    case
        when not (coalesce(b.ok, false) and coalesce(c.ok, false)) then 'unpaired'
        else if(b.place = c.place, 'paired', 'split')
    end as pairing,
    reasons.no_effect_reason,
    coalesce(own_kind, max(own_kind) over cell) as loop_kind,
    case
        when b.compute_cache = c.compute_cache then b.compute_cache
        when flag = 'compute_cache_disabled' and c.compute_cache = 'disabled' then b.compute_cache
        when flag = 'compute_cache_disabled' and b.compute_cache = 'disabled' then c.compute_cache
    end as compute_cache,
    case own_kind when 'closed' then b.wall_ms when 'open' then list_avg(b.samples_ms[:steps]) end
        as baseline_ms,
    case own_kind when 'closed' then c.wall_ms when 'open' then list_avg(c.samples_ms[:steps]) end
        as candidate_ms,
    if(same_source, b.device_ms, null) as baseline_device_ms,
    if(same_source, c.device_ms, null) as candidate_device_ms,
    [b.launch_bound, c.launch_bound] as launch_bound,
    b.cold_ms as baseline_cold_ms,
    c.cold_ms as candidate_cold_ms,
    b.peak_bytes as baseline_peak_reserved_bytes,
    c.peak_bytes as candidate_peak_reserved_bytes,
    list_concat(b.warnings, c.warnings) as warnings,
    b.kernels_hash as baseline_kernels_hash,
    c.kernels_hash as candidate_kernels_hash,
    if(b.kernels_source = c.kernels_source, b.kernels_hash <> c.kernels_hash, null) as other_kernels
from kinds
inner join reasons using (cell_id, env_hash, software_hash, other_settings)
window cell as (
    partition by kinds.cell_id, kinds.env_hash, kinds.software_hash, kinds.other_settings
);
