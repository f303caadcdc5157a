-- Does deterministic make every run the same, and what does it cost?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, condition, measure, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- With benchmark off and with it on. A run is the same where all processes gave the same bits, and
-- gave them again; one process in which they were not is enough. It costs speed where wall time
-- hurts by $min_effect or more.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        if(contains(other_settings, 'benchmark=true'), 'benchmark on', 'benchmark off')
            as beside,
        'costs speed, ' || beside as condition,
        'hurts' as wanted
    from determinism_cost(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where
        no_effect_reason is distinct from 'no_cuda' and state = 'plain'
        and other_settings in (
            usual_besides('deterministic', ''), usual_besides('deterministic', 'benchmark=true')
        )
),

alike as materialized (
    select
        * replace ('the same bits, ' || beside as condition),
        if(
            candidate_distinct_results = 1 and coalesce(candidate_repeatable, true),
            'holds',
            'does not hold'
        ) as outcome
    from found
    where candidate_processes >= 2
),

times as materialized (
    select * from process_times('deterministic', $sweep_id)
),

figures as (
    select *
    from timed_figures('found', 'times', 'false', 'true')
    union all by name
    select *
    from result_figures('alike', 'deterministic', $sweep_id)
)

select *
from claimed(
    'figures',
    7,
    'deterministic=True makes every run the same, and costs speed.',
    'sweep launch --suite claims'
)
