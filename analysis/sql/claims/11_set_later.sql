-- What does benchmark do if it is set later, or around the forward pass alone?
-- terminal: verdict, cell, condition, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- The cells are those in which benchmark helps if it is set before the first step. The claim holds
-- if the interval of the ratio with benchmark set later lies above the interval with benchmark set
-- early. The state `benchmark_later` sets benchmark after the first step. The state
-- `benchmark_around_forward` sets it around the forward pass. Other rows have no outcome.
with found as ( -- noqa: disable=RF02,RF03,RF04,ST03,ST06,ST07,LT02,LT09,LT14,AL03,AM04
    select
        *,
        arg_min(
            struct_pack(wall_verdict := wall_verdict, ratio_high := ratio_high), cell_id
        ) filter (where state = 'plain') over same as early,
        bool_or(state <> 'plain') over same as is_compared
    from contrast_figures('benchmark', 'false', 'true', $min_effect, $sweep_id)
    inner join cell_tasks('state') using (cell_id)
    where
        beside = '' and measure like '% time, ms'
        and state in ('plain', 'benchmark_later', 'benchmark_around_forward')
    window same as (partition by task, env_hash, software_hash, loop_kind, in_turns)
),

figures as (
    select
        *,
        case state
            when 'plain' then 'set before the first step'
            when 'benchmark_later' then 'after the first step'
            else 'around the forward pass'
        end as condition,
        case
            when state = 'plain' or measure <> 'wall time, ms' then null
            when not is_decided(early.wall_verdict) or ratio_low is null then 'undecided'
            when coalesce(early.wall_verdict, '') <> 'helps' then null
            when ratio_low > early.ratio_high then 'holds'
            else 'does not hold'
        end as outcome
    from found
    where is_compared and early is not null
)

from claimed(
    'figures',
    11,
    'It should be set before training starts.',
    'sweep launch --suite claims --only problem=tutorials/r3d18_stem'
)
