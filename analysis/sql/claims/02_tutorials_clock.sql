-- Does the tutorials' way of timing show what benchmark does?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, workload, measure, baseline_value, candidate_value,
--     value[value_low value_high], verdict_of_it, outcome
--
-- The way: 100 forward calls by `time.time()`, without waiting for the GPU, with benchmark on and
-- then off in one process. It holds if its clock gives the verdict that fresh processes give, which
-- is the wall time of the convolution beside it. A ratio of clocks is on / off, with a t interval
-- over processes; the samples are those of each process. The clock is read while the GPU still
-- works: that of the first loop has the search in it, that of the second launches alone, of plans
-- that the first loop chose. The other order and a script that waits for the GPU stand beside.
with scripts as ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        workload,
        gpu,
        torch,
        cudnn,
        cell_id,
        software_hash,
        array_to_string(input_shape, 'x') as input_shape,
        concat_ws('|', cell_id, env_hash, software_hash) as cell,
        own_times_ms['benchmark_false'] as off_ms,
        own_times_ms['benchmark_true'] as on_ms,
        log_ratio(on_ms, off_ms) as log_ratio,
        started_at
    from records
    where
        own_times_ms is not null and status = 'ok' and twin = 0 and device = 'cuda'
        and ($sweep_id is null or sweep_id glob $sweep_id)
),

estimates as materialized (
    select
        cell,
        'clock' as clock,
        true as family,
        avg(log_ratio) as mean,
        standard_error(log_ratio) as se,
        count(log_ratio) - 1 as df
    from scripts
    group by cell
),

clocks as materialized (
    select * from judged('estimates', $min_effect, 0)
),

fresh as materialized (
    select
        *,
        'fresh processes' as condition,
        null as wanted
    from helps_or_hurts(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where
        problem = 'tutorials/rgb256' and direction = 'forward' and regime = 'fixed'
        and state = 'plain' and precision = 'tf32'
        and other_settings = usual_besides('benchmark', '')
        and gpu in (select scripts.gpu from scripts)
),

times as materialized (
    select * from process_times('benchmark', $sweep_id)
),

known as (
    select
        gpu,
        torch,
        cudnn,
        input_shape,
        any_value(wall_verdict) as verdict
    from fresh
    group by gpu, torch, cudnn, input_shape
),

by_script as (
    select
        cell,
        any_value(workload) as workload,
        any_value(gpu) as gpu,
        any_value(torch) as torch,
        any_value(cudnn) as cudnn,
        any_value(cell_id) as cell_id,
        any_value(software_hash) as software_hash,
        any_value(input_shape) as input_shape,
        median(off_ms) as baseline_value,
        median(on_ms) as candidate_value,
        count(*) as trials,
        list(off_ms order by started_at) as baseline_samples,
        list(on_ms order by started_at) as candidate_samples
    from scripts
    group by cell
),

figures as (
    select
        by_script.* exclude (cell),
        case by_script.workload
            when 'tutorial_true_first' then 'the script'
            when 'tutorial_false_first' then 'the other order'
            else 'warmed up, and synchronised'
        end as condition,
        case
            when by_script.workload <> 'tutorial_true_first' then null
            when
                known.verdict is null or not is_decided(known.verdict)
                or clocks.verdict is null or not is_decided(clocks.verdict)
                then 'undecided'
            else if(clocks.verdict = known.verdict, 'holds', 'does not hold')
        end as outcome,
        'clock of 100 calls, ms' as measure,
        clocks.verdict as verdict_of_it,
        clocks.ratio as value,
        clocks.ratio_low as value_low,
        clocks.ratio_high as value_high,
        'benchmark: false → true' as contrast
    from by_script
    left join clocks on by_script.cell = clocks.cell
    left join known
        on
            by_script.gpu = known.gpu and by_script.torch = known.torch
            and by_script.cudnn = known.cudnn and by_script.input_shape = known.input_shape
    union all by name
    select * replace (null as outcome)
    from timed_figures('fresh', 'times', 'false', 'true')
)

select *
from claimed(
    'figures',
    2,
    'Timing 100 forward calls by time.time(), first with benchmark on and then off in one '
    || 'process, shows the speed-up.',
    'sweep launch --suite claims --only direction=forward'
)
