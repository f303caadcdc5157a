-- Does benchmark speed up one convolution of fixed shape?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, problem, direction, precision, measure, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- The convolution is Conv2d(3, 64, 3, 1, 1, bias=False) on 64 x 3 x 256 x 256. A cell holds where
-- its wall time helps by $min_effect or more.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        direction || ', ' || precision as condition,
        'helps' as wanted
    from helps_or_hurts(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where
        problem = 'tutorials/rgb256' and input_shape = '64x3x256x256'
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
    1,
    'benchmark=True significantly speeds up a convolution of fixed shape, Conv2d(3, 64, 3, 1, 1, '
    || 'bias=False) on 64x3x256x256.',
    'sweep launch --suite claims --only problem=tutorials/rgb256'
)
