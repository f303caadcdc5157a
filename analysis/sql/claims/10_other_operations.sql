-- Does cuDNN speed up pooling, normalisation and activations?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, workload, direction, measure, baseline_value, candidate_value,
--     value[value_low value_high], verdict_of_it, outcome
--
-- Each operation alone, with cuDNN and without. It holds where the wall time hurts by $min_effect
-- or more without it. `no_effect`: PyTorch never runs that operation in cuDNN.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        workload as condition,
        'hurts' as wanted
    from helps_or_hurts(
        field := 'enabled', baseline := 'true', candidate := 'false',
        min_effect := $min_effect, of_sweep_id := $sweep_id
    )
    where
        workload in ('batch_norm', 'max_pool', 'relu', 'sigmoid', 'tanh') and state = 'plain'
        and other_settings = usual_besides('enabled', '')
),

times as materialized (
    select * from process_times('enabled', $sweep_id)
),

figures as (
    select * from timed_figures('found', 'times', 'true', 'false')
)

select *
from claimed(
    'figures',
    10,
    'cuDNN also speeds up pooling, normalisation and activations.',
    'sweep launch --suite claims'
)
