-- Which effects of benchmark are seldom mentioned?
-- terminal: verdict, cell, condition, measure, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- All other settings are PyTorch's defaults. The claim holds for a cell with one of these effects:
--     memory             the peak of reserved memory grows by $min_effect or more
--     launches           wall time does not show the change of device time, in a CPU-bound loop
--     choices            processes choose different kernels with benchmark on
--     precision, layout  the verdict on the step changes with precision or layout
--     limit              timing all plans finds faster plans than timing ten
with benchmarked as materialized ( -- noqa: disable=RF02,RF03,RF04,ST03,ST06,ST07,AL03,AM04
    select * from contrast_figures('benchmark', 'false', 'true', $min_effect, $sweep_id)
    where beside = '' and state = 'plain'
),

-- Each cell has two rows. One is compared across precisions, the other across layouts.
others as (
    select
        * exclude (precision, layout),
        unnest(['precision', 'layout']) as condition,
        if(condition = 'precision', null, precision) as precision,
        if(condition = 'layout', null, layout) as layout,
        if(condition = 'precision', benchmarked.precision, benchmarked.layout) as way
    from benchmarked
    where measure = 'wall time, ms' and wall_verdict in ('helps', 'hurts', 'equivalent')
),

figures as (
    select
        *,
        'memory' as condition,
        claim_outcome(measure, verdict_of_it, verdict_of_it = 'hurts') as outcome
    from benchmarked
    where measure = 'peak of reserved memory, MB'
    union all by name
    select
        * replace ('device ' || device_verdict || ', wall ' || wall_verdict as verdict_of_it),
        'launches' as condition,
        claim_outcome(measure, wall_verdict, wall_verdict <> device_verdict) as outcome
    from benchmarked
    where measure = 'wall time, ms' and launch_bound and device_verdict in ('helps', 'hurts')
    union all by name
    select
        chosen.*,
        software.* exclude (software_hash),
        'choices' as condition,
        if(distinct_choices > 1, 'holds', 'does not hold') as outcome,
        unnest(figure_of(
            'different choices of kernels',
            format('the slowest takes {:.3f} times as long as the fastest', slowest_choice_ratio),
            null, null, distinct_choices, null, null, processes
        ))
    from choice_stability(of_sweep_id := $sweep_id) as chosen
    inner join software_labels() as software using (software_hash)
    where
        benchmark and processes >= 2 and state = 'plain' and benchmark_limit = 10
        and not deterministic and enabled
    union all by name
    select
        columns(axis_names()),
        columns(['gpu', 'torch', 'cudnn', 'condition']),
        'different verdicts of the ' || condition || 's' as measure,
        count(distinct wall_verdict) as value,
        if(count(distinct wall_verdict) > 1, 'holds', 'does not hold') as outcome,
        string_agg(
            distinct way || ' ' || wall_verdict, ', ' order by way || ' ' || wall_verdict
        ) as verdict_of_it
    from others
    group by all
    having count(distinct way) > 1
    union all by name
    select
        *,
        'limit' as condition,
        claim_outcome(measure, verdict_of_it, verdict_of_it = 'helps') as outcome
    from contrast_figures('benchmark_limit', '10', '0', $min_effect, $sweep_id)
    where beside = 'benchmark=true' and state = 'plain' and measure like '% time, ms'
)

from claimed(
    'figures',
    12,
    'More matters than the folklore knows: memory, launches, precision, layout, the choice '
    || 'itself, benchmark_limit.',
    'sweep launch --suite claims'
)
