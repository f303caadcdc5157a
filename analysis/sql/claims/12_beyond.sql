-- What matters of benchmark that is seldom told?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, condition, measure, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- Every cell under PyTorch's other settings, by what it shows:
--     memory      the peak of reserved memory is larger by $min_effect or more
--     launches    the loop waits for the CPU, and what changes on the GPU does not reach it
--     choices     processes with benchmark on run different kernels
--     precision   another precision of the same step has another verdict
--     layout      another layout of the same step has another verdict
--     limit       timing all plans (benchmark_limit=0) finds faster ones than ten
with benchmarked as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        found.*,
        labels.* exclude (cell_id),
        software.torch,
        software.cudnn
    from contrast_verdicts('benchmark', 'false', 'true', $min_effect, 1000, 'warm', $sweep_id, 0)
        as found
    inner join cell_labels() as labels on found.cell_id = labels.cell_id
    inner join software_labels() as software on found.software_hash = software.software_hash
    where
        found.other_settings = usual_besides('benchmark', '') and labels.state = 'plain'
        and found.no_effect_reason is distinct from 'no_cuda'
),

limited as materialized (
    select
        *,
        'limit' as condition,
        'helps' as wanted
    from helps_or_hurts(
        field := 'benchmark_limit', baseline := '10', candidate := '0',
        min_effect := $min_effect, of_sweep_id := $sweep_id
    )
    where state = 'plain' and other_settings = usual_besides('benchmark_limit', 'benchmark=true')
),

limited_times as materialized (
    select * from process_times('benchmark_limit', $sweep_id)
),

chosen as materialized (
    select *
    from choice_stability(of_sweep_id := $sweep_id)
    where
        benchmark and processes >= 2 and state = 'plain' and benchmark_limit = 10
        and not deterministic and enabled
),

verdicts as (
    select *
    from benchmarked
    where wall_verdict in ('helps', 'hurts', 'equivalent')
),

precisions as (
    select
        workload,
        problem,
        direction,
        input_shape,
        regime,
        layout,
        gpu,
        torch,
        cudnn,
        count(distinct precision) as ways,
        count(distinct wall_verdict) as verdicts,
        string_agg(
            distinct precision || ' ' || wall_verdict, ', '
            order by precision || ' ' || wall_verdict
        ) as said
    from verdicts
    group by all
    having count(distinct precision) > 1
),

layouts as (
    select
        workload,
        problem,
        direction,
        input_shape,
        regime,
        precision,
        gpu,
        torch,
        cudnn,
        count(distinct layout) as ways,
        count(distinct wall_verdict) as verdicts,
        string_agg(
            distinct layout || ' ' || wall_verdict, ', '
            order by layout || ' ' || wall_verdict
        ) as said
    from verdicts
    group by all
    having count(distinct layout) > 1
),

figures as (
    select
        'memory' as condition,
        claim_outcome(memory_verdict, 'hurts') as outcome,
        'peak of reserved memory, MB' as measure,
        memory_verdict as verdict_of_it,
        baseline_peak_reserved_bytes / 1e6 as baseline_value,
        candidate_peak_reserved_bytes / 1e6 as candidate_value,
        memory_ratio as value,
        memory_ratio_low as value_low,
        memory_ratio_high as value_high,
        contrast,
        2 * blocks as trials,
        cell_id,
        software_hash
    from benchmarked
    where memory_ratio is not null
    union all by name
    select
        'launches' as condition,
        if(
            not is_decided(wall_verdict),
            'undecided',
            if(wall_verdict = device_verdict, 'does not hold', 'holds')
        ) as outcome,
        'wall time, ms' as measure,
        'device ' || device_verdict || ', wall ' || wall_verdict as verdict_of_it,
        baseline_ms as baseline_value,
        candidate_ms as candidate_value,
        ratio as value,
        ratio_low as value_low,
        ratio_high as value_high,
        contrast,
        2 * blocks as trials,
        cell_id,
        software_hash
    from benchmarked
    where launch_bound and device_verdict in ('helps', 'hurts')
    union all by name
    select
        'choices' as condition,
        if(distinct_choices > 1, 'holds', 'does not hold') as outcome,
        'different choices of kernels' as measure,
        format('the slowest takes {:.3f} times as long as the fastest', slowest_choice_ratio)
            as verdict_of_it,
        distinct_choices as value,
        processes as trials,
        cell_id,
        software_hash
    from chosen
    union all by name
    select * exclude (ways, verdicts, said), 'precision' as condition,
        if(verdicts > 1, 'holds', 'does not hold') as outcome,
        'different verdicts of the precisions' as measure,
        said as verdict_of_it,
        verdicts as value
    from precisions
    union all by name
    select * exclude (ways, verdicts, said), 'layout' as condition,
        if(verdicts > 1, 'holds', 'does not hold') as outcome,
        'different verdicts of the layouts' as measure,
        said as verdict_of_it,
        verdicts as value
    from layouts
    union all by name
    select *
    from timed_figures('limited', 'limited_times', '10', '0')
)

select *
from claimed(
    'figures',
    12,
    'More matters than the folklore knows: memory, launches, precision, layout, the choice '
    || 'itself, benchmark_limit.',
    'sweep launch --suite claims'
)
