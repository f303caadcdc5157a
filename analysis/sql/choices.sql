-- Which kernels were chosen, did another setting choose others, and do processes agree?
-- $sweep_id TEXT = NULL: one sweep; all where null
--
-- A row a cell and config. A choice is what the convolutions of one step launch: kernels, their
-- order and grids; every process draws its own. Of the config's most common one: `choice`, its
-- hash, equal in two rows that run the same; its share of the processes; its kernels, in order; and
-- from those logs of cuDNN whose process launched the same, engines and the largest workspace.
-- `cell_choices` counts over all the cell's configs. `layout_conversion_share` is of device time,
-- where all steps have one shape.
with processes as (
    select
        * replace (array_to_string(input_shape, 'x') as input_shape),
        concat_ws('|', cell_id, env_hash, software_hash, kernels_source) as cell,
        row(
            enabled, benchmark, benchmark_limit, deterministic, heuristic_mode_b, plan_cache_limit,
    compute_cache_disabled,
            compute_cache_disabled
        ) as config
    from records
    where
        status = 'ok' and kernels_hash is not null
        and ($sweep_id is null or sweep_id = $sweep_id)
),

counted as (
    select
        *,
        count(*) over (partition by cell, config, kernels_hash) as processes,
        count(distinct kernels_hash) over (partition by cell) as cell_choices
    from processes
),

ranked as (
    select
        *,
        first_value(kernels_hash) over (
            partition by cell, config order by processes desc, kernels_hash asc
        ) as choice,
        kernels_hash = choice as is_common,
        is_common and logged_kernels_agree as is_logged
    from counted
)

select
    any_value(workload) as workload,
    any_value(problem) as problem,
    any_value(direction) as direction,
    any_value(input_shape) as input_shape,
    any_value(regime) as regime,
    any_value(state) as state,
    any_value(precision) as precision, -- noqa: RF04
    any_value(layout) as layout,
    any_value(gpu) as gpu,
    any_value(enabled) as enabled,
    any_value(benchmark) as benchmark,
    any_value(benchmark_limit) as benchmark_limit,
    any_value(deterministic) as deterministic, -- noqa: RF04
    any_value(heuristic_mode_b) as heuristic_mode_b,
    any_value(plan_cache_limit) as plan_cache_limit,
    any_value(compute_cache_disabled) as compute_cache_disabled,
    count(*) as processes,
    any_value(cell_choices) as cell_choices,
    count(distinct kernels_hash) as distinct_choices,
    any_value(choice) as choice,
    count(*) filter (where is_common) / count(*) as choice_share,
    convolution_kernels(any_value(kernels) filter (where is_common)) as kernels,
    median(steady_device_ms) filter (where is_common) as choice_device_ms,
    median(steady_device_ms) as device_ms,
    min(steady_device_ms) as device_ms_min,
    max(steady_device_ms) as device_ms_max,
    any_value(layout_conversions) filter (where is_common) as layout_conversions,
    median(layout_conversion_ms) as layout_conversion_ms,
    median(layout_conversion_ms / steady_device_ms) filter (where regime_shapes = 1)
        as layout_conversion_share,
    count(logged_kernels_agree) as logs_taken,
    count(*) filter (where logged_kernels_agree) as logs_that_agree,
    engines(any_value(logged_choices order by started_at) filter (where is_logged))
        as logged_engines,
    max(logged_workspace_bytes) filter (where is_logged) as logged_workspace_bytes,
    any_value(kernels_source) as kernels_source,
    any_value(cell_id) as cell_id,
    any_value(env_hash) as env_hash,
    any_value(software_hash) as software_hash
from ranked
group by cell, config
order by
    gpu, workload, problem, direction, input_shape, regime, state, precision, layout, software_hash,
    enabled, benchmark, benchmark_limit, deterministic, heuristic_mode_b, plan_cache_limit,
    compute_cache_disabled,
    kernels_source, cell_id, env_hash
