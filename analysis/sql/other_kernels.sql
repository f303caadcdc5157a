-- Did the candidate run other kernels than the baseline, and was it faster?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $sweep_id TEXT = NULL: one sweep; all where null
--
-- A row a cell; its blocks are those paired whose kernels are known of both. A ratio is candidate
-- device time / baseline device time, the geometric mean over the blocks where the convolutions ran
-- other kernels, and over those where they ran the same. The kernels shown are those of the
-- baseline's and of the candidate's most common choice, in order.
with blocks as materialized (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, other_settings) as cell,
        log_ratio(candidate_device_ms, baseline_device_ms) as log_ratio
    from block_pairs($field, $baseline, $candidate, $sweep_id)
    where pairing = 'paired' and other_kernels is not null
),

choices as (
    select
        kernels_hash as choice,
        convolution_kernels(any_value(kernels)) as kernels
    from records
    where kernels_hash is not null
    group by choice
),

cells as (
    select
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(workload) as workload,
        any_value(problem) as problem,
        any_value(direction) as direction,
        any_value(input_shape) as input_shape,
        any_value(regime) as regime,
        any_value(state) as state,
        any_value(precision) as precision, -- noqa: RF04
        any_value(layout) as layout,
        any_value(gpu) as gpu,
        any_value(other_settings) as other_settings,
        count(*) as blocks,
        count(*) filter (where other_kernels) as blocks_with_other_kernels,
        count(*) filter (where other_kernels) / count(*) as other_kernels_share,
        exp(avg(log_ratio) filter (where other_kernels)) as other_kernels_device_ratio,
        exp(avg(log_ratio) filter (where not other_kernels)) as same_kernels_device_ratio,
        mode(baseline_kernels_hash order by baseline_kernels_hash) as baseline_choice,
        mode(candidate_kernels_hash order by candidate_kernels_hash) as candidate_choice,
        any_value(no_effect_reason) as no_effect_reason,
        any_value(cell_id) as cell_id,
        any_value(env_hash) as env_hash,
        any_value(software_hash) as software_hash
    from blocks
    group by cell
),

named as (
    select
        cells.*,
        ran.kernels as baseline_kernels,
        tried.kernels as candidate_kernels
    from cells
    inner join choices as ran on cells.baseline_choice = ran.choice
    inner join choices as tried on cells.candidate_choice = tried.choice
)

select
    workload,
    problem,
    direction,
    input_shape,
    regime,
    state,
    precision,
    layout,
    gpu,
    contrast,
    other_settings,
    blocks,
    blocks_with_other_kernels,
    other_kernels_share,
    other_kernels_device_ratio,
    same_kernels_device_ratio,
    baseline_kernels,
    candidate_kernels,
    no_effect_reason,
    cell_id,
    env_hash,
    software_hash
from named
order by
    gpu, workload, problem, direction, input_shape, regime, state, precision, layout, other_settings,
    software_hash, cell_id, env_hash
