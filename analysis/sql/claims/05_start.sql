-- What does benchmark cost at the start?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, condition, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- The value is the extra time of the first call of a shape, in ms. It is shown by the state of
-- CUDA's cache of compiled kernels: empty as in a new container, warm as on a machine that ran it
-- before, or disabled. A cell holds if the whole interval lies above 0; one block has no interval.
-- Where a regime has several shapes, what each further one costs stands beside.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select *
    from cold_cost(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where
        no_effect_reason is distinct from 'no_cuda' and state = 'plain'
        and other_settings in (
            usual_besides('benchmark', ''),
            usual_besides('benchmark', 'compute_cache_disabled=true')
        )
),

figures as (
    select
        'compute cache ' || compute_cache as condition,
        case
            when extra_ms_low is null then null
            when extra_ms_low > 0 then 'holds'
            when extra_ms_high <= 0 then 'does not hold'
            else 'undecided'
        end as outcome,
        'extra time of first calls, ms' as measure,
        cold_verdict as verdict_of_it,
        baseline_cold_ms as baseline_value,
        candidate_cold_ms as candidate_value,
        extra_ms as value,
        extra_ms_low as value_low,
        extra_ms_high as value_high,
        contrast,
        2 * blocks as trials,
        cell_id,
        software_hash
    from found
    union all by name
    select
        'compute cache ' || compute_cache as condition,
        null as outcome,
        'extra time of each further shape, ms' as measure,
        extra_later_shape_ms as value,
        contrast,
        2 * blocks as trials,
        cell_id,
        software_hash
    from found
    where extra_later_shape_ms is not null
)

select *
from claimed(
    'figures',
    5,
    'benchmark=True costs extra time at the start.',
    'sweep launch --suite claims --only problem=networks/resnet50_conv2_3x3'
)
