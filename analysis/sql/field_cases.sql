-- Do the cases that people reported still occur?
-- terminal: case_id, claim, outcome, because, baseline_value, candidate_value,
--     value[value_low value_high], cause
-- none: no trial is recorded
--
-- A measured case has one row for each GPU, hardware and software. Any other case has one row. A
-- trial of any suite is used if it has the cell and the settings of a case. docs/field.md (What
-- became of them) explains the outcomes and causes.
--
-- case_id: identifier of the case in workloads/field/cases.csv
-- address: URL of the report
-- kind: kind of comparison: config, precision, layout, sizes, bound, version, execution or other
-- claim: what the report claims, as a sentence
-- contrast: setting that differs, with both values; null if the claim is about one side
-- measure: name of the number that the claim is about
-- holds: claim about the number: above `bound`, below it, or within that factor of 1
-- bound: limit that the claim sets for the number
-- assumed: assumptions about details that the report does not give
-- outcome: still there, gone, reversed, undecided, not measured yet, or not to be run here
-- value_low, value_high: ends of the interval of `value`; without a candidate, range over processes
-- baseline_value: measured value of the baseline, in ms, in bytes, or without a unit
-- torch_then, cudnn_then, gpu_then: version or GPU that the report names
with claims as materialized ( -- noqa: disable=RF01,RF02,RF03,RF04,RF05,ST06,LT02,LT09,LT14,AL10
    select
        *,
        replace(measure, '_ms', '') as number
    from reported_cases()
    where exists (select 1 from records where $sweep_id is null or sweep_id glob $sweep_id)
),

wanted as materialized (
    from (
        select case_id, 'baseline' as side, columns('baseline_(.*)') as "\1" from claims
        union all
        select case_id, 'candidate' as side, columns('candidate_(.*)') as "\1" from claims
    )
    where workload is not null
),

trials as materialized (
    select
        wanted.case_id,
        wanted.side,
        concat_ws('|', wanted.case_id, trial.gpu, trial.env_hash, trial.software_hash) as cell,
        trial.* exclude (
            steady_wall_samples_ms, steady_wall_rounds, steady_device_samples_ms,
            steady_device_rounds
        ),
        trial.status = 'ok' and not is_doubtful(trial.warnings) as counts,
        min(trial.steady_iterations) over (
            partition by
                wanted.case_id, trial.gpu, trial.env_hash, trial.software_hash, trial.loop_kind
        ) as steps
    from records as trial
    inner join wanted
        on
            trial.workload = wanted.workload
            and trial.problem is not distinct from wanted.problem
            and trial.direction = wanted.direction
            and array_to_string(trial.input_shape, 'x') = wanted.input
            and trial.regime = wanted.regime
            and trial.precision = wanted.precision
            and trial.layout = wanted.layout
            and unusual_among(settings_besides(null, setting_texts(trial.config, 0)))
            = wanted.settings
    where
        ($sweep_id is null or trial.sweep_id glob $sweep_id)
        and trial.twin = 0
        and trial.cell_id in (from usual_cells(['layout']))
),

processes as materialized (
    select
        columns([
            'cell', 'side', 'cell_id', 'sweep_id', 'launch_id', 'slot', 'block', 'trial_id',
            'steady_device_source'
        ]),
        -- Later steps of open loops have other shapes. Only the steps of all processes are used.
        coalesce(list_avg(loops.ms[:trials.steps]), trials.steady_wall_ms) as wall,
        trials.steady_device_ms as device,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes)::double as memory,
        trials.cold[1].first_ms as cold,
        trials.cold[1].first_ms / nullif(trials.cold[1].second_ms, 0) as first_over_second,
        trials.roofline_share as roofline
    from trials
    left join open_loops() as loops on [trials.sweep_id, trials.trial_id] = loops.id
    where trials.counts
),

sides as materialized (
    select
        columns(['cell', 'side']),
        any_value(columns(['case_id', 'gpu', 'env_hash', 'software_hash'])),
        count(*) as trials,
        any_value(message) filter (where status <> 'ok') as message,
        count(*) filter (where counts) as measured,
        -- true if all ok trials have unreliable times
        measured = 0 and bool_or(status = 'ok') as lacks,
        string_agg(distinct array_to_string(list_sort(routes), ' '), ', ')
            filter (where counts) as routes,
        avg((not contains(lower(array_to_string(routes, ' ')), 'cudnn'))::int)
            filter (where counts) as outside_cudnn,
        avg((not bitwise_repeatable)::int) filter (where counts) as unrepeatable,
        avg((status not in ('ok', 'raced_out'))::int) as failed,
        count(distinct kernels_hash) filter (where counts)::double as choices,
        mode(kernels_hash order by kernels_hash) filter (where counts) as kernels_hash,
        median(layout_conversion_ms) filter (where counts) as conversion_ms
    from trials
    group by cell, side
),

by_side as materialized (
    select
        columns(['cell', 'side', 'measure']),
        count(log_of(figure)) as n,
        avg(log_of(figure)) as mean,
        var_samp(log_of(figure)) as var,
        median(figure) as middle,
        min(figure) as low,
        max(figure) as high
    from (
        unpivot processes
        on wall, device, memory, cold, first_over_second, roofline
        into name measure value figure
    )
    group by cell, side, measure
    union all by name
    select
        columns(['cell', 'side', 'measure']),
        share as middle,
        share as low,
        share as high
    from (
        unpivot sides
        on outside_cudnn, unrepeatable, failed, choices
        into name measure value share
    )
),

pairs as ( -- noqa: ST03
    select
        b.cell,
        wall,
        if(b.steady_device_source = c.steady_device_source, device, null) as device,
        log_ratio(c.memory, b.memory) as memory,
        log_ratio(c.cold, b.cold) as cold
    from same_blocks('processes', 'baseline', 'candidate')
    where b.cell_id = c.cell_id
),

in_blocks as (
    select
        cell,
        measure,
        count(observed) as pairs,
        avg(observed) as mean,
        standard_error(observed) as se
    from (
        unpivot pairs
        on wall, device, memory, cold
        into name measure value observed
    )
    group by cell, measure
    having count(observed) >= 2
),

estimates as ( -- noqa: ST03
    select
        b.cell,
        b.measure as clock,
        coalesce(in_blocks.mean, c.mean - b.mean) as mean,
        coalesce(in_blocks.se, sqrt(b.var / b.n + c.var / c.n)) as se,
        coalesce(in_blocks.pairs - 1, welch_df(b.var, b.n, c.var, c.n)) as df
    from by_side as b
    inner join by_side as c
        on
            b.cell = c.cell and b.measure = c.measure
            and b.side = 'baseline' and c.side = 'candidate'
    left join in_blocks on b.cell = in_blocks.cell and b.measure = in_blocks.measure
    where b.measure in ('wall', 'device', 'memory', 'cold')
),

figures as (
    select
        cell,
        side,
        map_from_entries(list((measure, { 'middle': middle, 'low': low, 'high': high }))) as of
    from by_side
    group by cell, side
),

verdicts as materialized (from judged('estimates', $min_effect, 0)),

found as (
    select -- noqa: ST06
        claims.*,
        claims.candidate_workload is not null as has_two,
        case holds when 'above' then bound when 'within' then 1 / bound end as least,
        if(holds = 'above', null, bound) as most,
        b,
        c,
        b.gpu,
        b.env_hash,
        b.software_hash,
        coalesce(b.trials, 0) as baseline_trials, -- number of trials of the baseline
        coalesce(c.trials, 0) as candidate_trials,
        b.routes as baseline_routes, -- backends that PyTorch selected in the baseline
        c.routes as candidate_routes,
        now.of[number].middle as baseline_value,
        other.of[number].middle as candidate_value,
        if(has_two, verdicts.ratio, now.of[number].middle) as value, -- measured value of the number
        if(has_two, verdicts.ratio_low, now.of[number].low) as value_low,
        if(has_two, verdicts.ratio_high, now.of[number].high) as value_high,
        verdicts.verdict in ('helps', 'hurts') as differs,
        wall.verdict in ('helps', 'hurts') as wall_differs,
        device.verdict in ('helps', 'hurts') as device_differs,
        other.of['device'].middle - now.of['device'].middle as device_difference_ms,
        not_here is null
        and (coalesce(b.lacks, true) or (has_two and coalesce(c.lacks, true))) as is_lacking,
        not_here is null and not is_lacking and measure <> 'failed'
        and (b.measured = 0 or (has_two and c.measured = 0)) as cannot_run,
        case
            when not_here is not null or cannot_run then 'not to be run here'
            when is_lacking then 'not measured yet'
            when value_low is null or value_high is null then 'undecided'
            when coalesce(value_low > least, true) and coalesce(value_high < most, true)
                then 'still there'
            when has_two and holds = 'above' and value_high < 1 / (1 + $min_effect) then 'reversed'
            when has_two and holds = 'below' and value_low > 1 + $min_effect then 'reversed'
            when value_high <= least or value_low >= most then 'gone'
            else 'undecided'
        end as outcome
    from claims
    left join sides as b on claims.case_id = b.case_id and b.side = 'baseline'
    left join sides as c on b.cell = c.cell and c.side = 'candidate'
    left join figures as now on b.cell = now.cell and now.side = 'baseline'
    left join figures as other on b.cell = other.cell and other.side = 'candidate'
    left join verdicts on b.cell = verdicts.cell and claims.number = verdicts.clock
    left join verdicts as wall on b.cell = wall.cell and wall.clock = 'wall'
    left join verdicts as device on b.cell = device.cell and device.clock = 'device'
)

select
    found.* exclude (
        not_here, baseline_problem, baseline_direction, baseline_input, baseline_precision,
        baseline_layout, baseline_settings, candidate_workload, candidate_problem,
        candidate_direction, candidate_input, candidate_regime, candidate_precision,
        candidate_layout, candidate_settings, number, has_two, least, most, b, c, differs,
        wall_differs, device_differs, device_difference_ms, is_lacking, cannot_run
    ) rename (baseline_workload as workload, baseline_regime as regime),
    case
        when found.not_here is not null then found.not_here
        when found.cannot_run
            then 'it fails: ' || coalesce(
                if(b.measured = 0, b.message, null), if(c.measured = 0, c.message, null),
                'no message'
            )
    end as because, -- reason why the case cannot be run here
    case
        when found.measure = 'outside_cudnn' and found.value > 0 then 'route'
        when not coalesce(found.differs, false) then null
        when found.measure = 'memory' then 'memory'
        when found.measure = 'cold' then 'search'
        when b.routes <> c.routes then 'route'
        when
            found.device_differs
            and abs(c.conversion_ms - b.conversion_ms) >= 0.5 * abs(found.device_difference_ms)
            and sign(c.conversion_ms - b.conversion_ms) = sign(found.device_difference_ms)
            then 'layout conversion'
        when found.wall_differs and not found.device_differs then 'launch'
        when b.kernels_hash <> c.kernels_hash and found.contrast like '%benchmark=%'
            then 'heuristic'
        when b.kernels_hash <> c.kernels_hash then 'kernel'
        else 'not in the record'
    end as cause, -- cause of the difference between the two sides; null if they hardly differ
    software.torch,
    software.cudnn,
    software.driver
from found
left join software_labels() as software on found.software_hash = software.software_hash
order by found.case_id, found.gpu, found.env_hash, found.software_hash
