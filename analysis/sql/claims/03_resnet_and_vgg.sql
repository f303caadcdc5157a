-- Do ResNets and VGGs train faster with benchmark?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, workload, precision, measure, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- Training steps of whole networks at fixed sizes, under PyTorch's other settings. A cell holds
-- where its wall time helps by $min_effect or more.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        regexp_extract(workload, '[^.:]+$') || ', ' || precision as condition,
        'helps' as wanted
    from helps_or_hurts(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where
        regexp_matches(lower(workload), 'resnet|vgg') and direction = 'training'
        and regime = 'fixed' and state = 'plain'
        and other_settings = usual_besides('benchmark', '')
),

times as materialized (
    select * from process_times('benchmark', $sweep_id)
),

figures as (
    select * from timed_figures('found', 'times', 'false', 'true')
)

select *
from claimed(
    'figures',
    3,
    'Networks with many convolution layers, such as ResNet and VGG, train faster with '
    || 'benchmark=True.',
    'sweep launch --suite models --only direction=training'
)
