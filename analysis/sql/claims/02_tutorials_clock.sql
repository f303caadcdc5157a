-- Does the tutorials' way of timing show what benchmark does?
-- terminal: verdict, workload, measure, baseline_value, candidate_value,
--     value[value_low value_high], verdict_of_it, outcome
--
-- The tutorials read `time.time()` around 100 forward calls without waiting for the GPU, first with
-- benchmark on and then off in one process. The claim holds if this clock gives the same verdict as
-- the wall time of fresh processes. The value is the clock's time with benchmark on, divided by
-- that with benchmark off. The first loop's time includes the search. The second loop's time is
-- only that of launches, because the GPU still works. Rows for other scripts have no outcome.
with scripts as materialized ( -- noqa: disable=RF02,RF03,RF04,ST03,ST06,ST07,AL03,AM04
    select
        concat_ws('|', cell_id, env_hash, software_hash) as cell,
        'clock' as clock,
        any_value(columns(['cell_id', 'software_hash', 'gpu'])),
        avg(log_ratio(on_ms, off_ms)) as mean,
        standard_error(log_ratio(on_ms, off_ms)) as se,
        count(log_ratio(on_ms, off_ms)) - 1 as df,
        median(off_ms) as off_ms,
        median(on_ms) as on_ms,
        count(*) as processes
    from ( -- noqa: AL10
        select
            *,
            own_times_ms['benchmark_false'] as off_ms,
            own_times_ms['benchmark_true'] as on_ms
        from records
        where
            own_times_ms is not null and status = 'ok' and twin = 0 and device = 'cuda'
            and ($sweep_id is null or sweep_id glob $sweep_id)
    )
    group by 1
),

fresh as materialized (
    select
        *,
        'fresh processes' as condition
    from contrast_figures('benchmark', 'false', 'true', $min_effect, $sweep_id)
    where
        beside = '' and state = 'plain' and measure like '% time, ms'
        and problem = 'tutorials/rgb256' and direction = 'forward' and regime = 'fixed'
        and precision = 'tf32'
),

known as (
    select
        columns(['gpu', 'torch', 'cudnn', 'input_shape']),
        any_value(wall_verdict) as verdict
    from fresh
    group by all
),

figures as (
    select
        labels.*,
        software.* exclude (software_hash),
        'benchmark: false → true' as contrast,
        case labels.workload
            when 'tutorial_true_first' then 'the script'
            when 'tutorial_false_first' then 'the other order'
            else 'warmed up, and synchronised'
        end as condition,
        case
            when labels.workload <> 'tutorial_true_first' then null
            when coalesce(is_decided(known.verdict) and is_decided(timed.verdict), false)
                then if(timed.verdict = known.verdict, 'holds', 'does not hold')
            else 'undecided'
        end as outcome,
        unnest(figure_of(
            'clock of 100 calls, ms', timed.verdict, off_ms, on_ms, ratio, ratio_low, ratio_high,
            processes
        ))
    from scripts
    inner join cell_labels() as labels using (cell_id)
    inner join software_labels() as software using (software_hash)
    left join judged('scripts', $min_effect, 0) as timed using (cell)
    left join known
        on
            labels.gpu = known.gpu and software.torch = known.torch
            and software.cudnn = known.cudnn and labels.input_shape = known.input_shape
    union all by name
    select * from fresh
    where gpu in (select scripts.gpu from scripts)
)

from claimed(
    'figures',
    2,
    'Timing 100 forward calls by time.time(), first with benchmark on and then off in one '
    || 'process, shows the speed-up.',
    'sweep launch --suite claims --only direction=forward'
)
