-- Which cells are stored, and how many trials has each?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
select
    cell_id,
    env_hash,
    software_hash,
    workload_hash,
    any_value(workload) as workload,
    any_value(problem) as problem,
    any_value(model_arguments) as model_arguments,
    any_value(loss) as loss,
    any_value(optimiser) as optimiser,
    any_value(optimiser_parameters) as optimiser_parameters,
    any_value(direction) as direction,
    any_value(array_to_string(input_shape, 'x')) as input_shape,
    any_value(regime) as regime,
    any_value(regime_parameters) as regime_parameters,
    any_value(state) as state,
    any_value(state_parameters) as state_parameters,
    any_value(precision) as precision, -- noqa: RF04
    any_value(layout) as layout,
    max(gpu) as gpu,
    'torch ' || max(torch) as torch,
    max(cudnn) as cudnn,
    'driver ' || max(driver) as driver,
    'code ' || workload_hash[:6] as code,
    count(*) as trials
from records
where $sweep_id is null or sweep_id glob $sweep_id
group by cell_id, env_hash, software_hash, workload_hash
order by
    gpu, workload, problem, direction, input_shape, regime, state, precision, layout, cell_id,
    env_hash, software_hash, workload_hash
