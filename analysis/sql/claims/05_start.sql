-- What does benchmark cost at the start?
-- terminal: verdict, cell, condition, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- The value is the extra time of the first calls of all shapes, in ms. The state of CUDA's cache of
-- compiled kernels is empty, warm or disabled. The claim holds for a cell if the whole interval is
-- above 0. Rows without outcome have the extra time of each further shape.
with found as materialized ( -- noqa: disable=RF02,RF03,RF04,ST03,ST06,ST07,LT02,LT09,LT14,AL03,AM04
    select
        costs.* exclude (outcome),
        software.* exclude (software_hash),
        'compute cache ' || compute_cache as condition,
        unnest([
            figure_of(
                'extra time of first calls, ms', null, baseline_cold_ms, candidate_cold_ms,
                tuning_ms, tuning_ms_low, tuning_ms_high, 2 * tuning_blocks
            ),
            figure_of(
                'extra time of each further shape, ms', null, null, null, later_shape_ms, null,
                null, 2 * tuning_blocks
            )
        ]) as figure
    from break_even(of_sweep_id := $sweep_id) as costs
    inner join software_labels() as software using (software_hash)
    where
        no_effect_reason is distinct from 'no_cuda' and state = 'plain'
        and unusual_among(other_settings) in ('', 'compute_cache_disabled=true')
),

figures as (
    select
        *,
        unnest(figure),
        case
            when figure.value_low is null then null
            when figure.value_low > 0 then 'holds'
            when figure.value_high <= 0 then 'does not hold'
            else 'undecided'
        end as outcome
    from found
    where figure.value is not null
)

from claimed(
    'figures',
    5,
    'benchmark=True costs extra time at the start.',
    'sweep launch --suite claims --only problem=networks/resnet50_conv2_3x3'
)
