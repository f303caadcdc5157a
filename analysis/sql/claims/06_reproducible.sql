-- Are results reproducible with benchmark off, and not with it on?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, condition, baseline_value, candidate_value, outcome
--
-- Results are the bits of a step's outputs and gradients from equal inputs, under PyTorch's other
-- settings. Across processes the value is how many different results they gave; within a process it
-- is 1 where a process gave other bits when it ran the step again. A cell holds if results differ
-- with benchmark on and are the same with it off. It takes two processes of each; more may show
-- what few do not.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        'across processes, ' || direction as condition,
        if(
            baseline_distinct_results = 1 and candidate_distinct_results > 1,
            'holds',
            'does not hold'
        ) as outcome
    from determinism_cost(
        field := 'benchmark', min_effect := $min_effect, of_sweep_id := $sweep_id
    )
    where
        no_effect_reason is distinct from 'no_cuda' and state = 'plain'
        and other_settings = usual_besides('benchmark', '')
        and least(baseline_processes, candidate_processes) >= 2
),

figures as (
    select *
    from result_figures('found', 'benchmark', $sweep_id)
    union all by name
    select
        'within a process' as condition,
        if(baseline_repeatable and not candidate_repeatable, 'holds', 'does not hold') as outcome,
        'second run differed (1: yes)' as measure,
        (not baseline_repeatable)::int as baseline_value,
        (not candidate_repeatable)::int as candidate_value,
        (not candidate_repeatable)::int as value,
        contrast,
        baseline_processes + candidate_processes as trials,
        cell_id,
        software_hash
    from found
    where baseline_repeatable is not null and candidate_repeatable is not null
)

select *
from claimed(
    'figures',
    6,
    'With benchmark=True results are no longer reproducible; with False they are.',
    'sweep launch --suite claims'
)
