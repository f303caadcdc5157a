-- Which cells are stored, and how many trials has each?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
select
    cell_id,
    env_hash,
    software_hash,
    workload_hash,
    any_value(columns([
        'workload', 'problem', 'model_arguments', 'loss', 'optimiser', 'optimiser_parameters',
        'direction'
    ])),
    any_value(array_to_string(input_shape, 'x')) as input_shape,
    any_value(columns([
        'regime', 'regime_parameters', 'state', 'state_parameters', 'precision', 'layout'
    ])),
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
