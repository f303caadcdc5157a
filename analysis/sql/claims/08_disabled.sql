-- Is the code that runs without cuDNN slower?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, measure, baseline_value, candidate_value, value[value_low value_high],
--     outcome
--
-- Cells with convolutions or recurrent layers, with cuDNN and without, under PyTorch's other
-- settings. A cell holds where its wall time hurts by $min_effect or more without cuDNN.
-- `no_effect`: the convolution ran elsewhere all the time.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        if(workload = 'conv', 'convolutions', regexp_extract(workload, '[^.:]+$')) || ', '
        || direction as condition,
        'hurts' as wanted
    from helps_or_hurts(
        field := 'enabled', baseline := 'true', candidate := 'false',
        min_effect := $min_effect, of_sweep_id := $sweep_id
    )
    where
        workload not in ('batch_norm', 'max_pool', 'relu', 'sigmoid', 'tanh') and state = 'plain'
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
    8,
    'enabled=False falls back to slower code.',
    'sweep launch --suite claims'
)
