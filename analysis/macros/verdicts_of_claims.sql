-- Return whether a measured number agrees with a claim: holds, does not hold or undecided. Wall
-- time and memory are undecided until their verdict is decided. The outcome of device time is null.
create or replace macro claim_outcome(measure, verdict, holds) as case
    when measure = 'device time, ms' then null
    when
        measure in ('wall time, ms', 'peak of reserved memory, MB')
        and (verdict is null or not is_decided(verdict))
        then 'undecided'
    when holds then 'holds'
    when not holds then 'does not hold'
end;

create or replace macro figure_of(
    measure, verdict_of_it, baseline_value, candidate_value, value, value_low, value_high, trials
) as struct_pack(
    measure := measure,
    verdict_of_it := verdict_of_it::text,
    baseline_value := baseline_value::double,
    candidate_value := candidate_value::double,
    value := value::double,
    value_low := value_low::double,
    value_high := value_high::double,
    trials := trials::bigint
);

-- Return the measured numbers of a contrast, with one row for each cell and measure. The column
-- `beside` has the other settings that differ from PyTorch's defaults.
create or replace macro contrast_figures(flag, from_value, to_value, min_effect, of_sweep) as table
with processes as (
    select
        place_of(cell_id, env_hash, software_hash, workload_hash, other_settings) as place,
        setting,
        count(fingerprint) as processes,
        count(distinct fingerprint) as distinct_results,
        bool_and(bitwise_repeatable) filter (where fingerprint is not null) as repeatable,
        distinct_results = 1 and coalesce(repeatable, true) as reproducible
    from configured(flag, of_sweep)
    where status = 'ok' and setting in (from_value, to_value)
    group by place, setting
),

labelled as (
    select
        verdicts.* exclude (reproducibility),
        labels.* exclude (cell_id, cell_order),
        software.* exclude (software_hash),
        unusual_among(verdicts.other_settings) as beside,
        b.processes as baseline_processes,
        c.processes as candidate_processes,
        c.repeatable as candidate_repeatable,
        case
            when least(b.processes, c.processes) < 2 then null
            when b.reproducible then if(c.reproducible, 'already', 'lost')
            else if(c.reproducible, 'gained', 'not gained')
        end as reproducibility,
        unnest([
            figure_of(
                'wall time, ms', wall_verdict, baseline_ms, candidate_ms, ratio, ratio_low,
                ratio_high, 2 * blocks
            ),
            figure_of(
                'device time, ms', device_verdict, baseline_device_ms, candidate_device_ms,
                device_ratio, device_ratio_low, device_ratio_high, 2 * blocks
            ),
            figure_of(
                'peak of reserved memory, MB', memory_verdict, baseline_peak_reserved_bytes / 1e6,
                candidate_peak_reserved_bytes / 1e6, memory_ratio, memory_ratio_low,
                memory_ratio_high, 2 * blocks
            ),
            figure_of(
                'different results among processes', reproducibility, b.distinct_results,
                c.distinct_results, c.distinct_results, null, null, b.processes + c.processes
            ),
            figure_of(
                'second run differed (1: yes)', null, (not b.repeatable)::int,
                (not c.repeatable)::int, (not c.repeatable)::int, null, null,
                b.processes + c.processes
            )
        ]) as figure
    from contrast_verdicts(flag, from_value, to_value, min_effect, of_sweep, 0) as verdicts
    inner join cell_labels() as labels using (cell_id) -- noqa: ST07
    inner join software_labels() as software using (software_hash) -- noqa: ST07
    left join processes as b on verdicts.place = b.place and b.setting = from_value
    left join processes as c on verdicts.place = c.place and c.setting = to_value
    where verdicts.no_effect_reason is distinct from 'no_cuda'
)

select
    * exclude (figure), -- noqa: AM04
    unnest(figure) -- noqa: AL03
from labelled
where figure.measure = 'wall time, ms' or figure.value is not null;

-- Return the measured numbers of a claim, with the verdict for that GPU model, PyTorch and cuDNN.
-- If there are none, return one row with the `command` that measures them. `holds_in` counts the
-- numbers that agree with the claim, for each condition. `rests_on_few` names conditions with only
-- one or two decided numbers.
create or replace macro claimed(figures, number, sentence, command) as table
with by_condition as (
    select
        columns(['gpu', 'torch', 'cudnn', 'condition']),
        count(*) filter (where outcome = 'holds') as holding,
        count(*) filter (where outcome <> 'undecided') as decided,
        count(*) as figures_of_it,
        concat_ws(
            ', ',
            if(decided > 0, format('{} of {}', holding, decided), null),
            if(figures_of_it > decided, format('{} undecided', figures_of_it - decided), null)
        ) as counted
    from query_table(figures)
    where outcome is not null
    group by all
),

verdicts as (
    select
        columns(['gpu', 'torch', 'cudnn']),
        case
            when sum(holding) between 1 and sum(decided) - 1 then 'holds only when'
            when 2 * sum(decided) < sum(figures_of_it) then 'undecided'
            when sum(holding) > 0 then 'holds'
            else 'does not hold'
        end as verdict,
        string_agg(format('{}: {}', condition, counted), '; ' order by condition) as holds_in,
        string_agg(condition, '; ' order by condition)
            filter (where holding = decided and holding > 0) as always,
        string_agg(
            format('{} ({} of {})', condition, holding, decided), '; '
            order by holding / decided desc, condition
        ) filter (where holding between 1 and decided - 1) as in_part,
        case
            when verdict <> 'holds only when' then verdict
            when always is null then 'holds in part: ' || in_part
            else concat_ws('; in part: ', 'holds only when: ' || always, in_part)
        end as in_words,
        if(
            max(decided) > 2,
            string_agg(condition, '; ' order by condition) filter (where decided between 1 and 2),
            null
        ) as rests_on_few
    from by_condition
    group by gpu, torch, cudnn
)

select
    number as claim,
    sentence as said,
    coalesce(verdicts.verdict, if(of_claim.measure is null, 'not measured', 'undecided'))
        as verdict,
    coalesce(verdicts.in_words, if(of_claim.measure is null, 'not measured', 'undecided'))
        as in_words,
    verdicts.holds_in,
    verdicts.rests_on_few,
    by_condition.counted as holds_here,
    of_claim.condition,
    of_claim.outcome,
    of_claim.measure,
    of_claim.verdict_of_it,
    of_claim.baseline_value,
    of_claim.candidate_value,
    of_claim.value,
    of_claim.value_low,
    of_claim.value_high,
    of_claim.contrast,
    of_claim.trials,
    columns(axis_names()),
    of_claim.gpu,
    of_claim.torch,
    of_claim.cudnn,
    of_claim.driver,
    of_claim.cell_id,
    command as measured_by
from (select 1 as one) as always
left join query_table(figures) as of_claim on true
left join verdicts using (gpu, torch, cudnn) -- noqa: ST07
left join by_condition using (gpu, torch, cudnn, condition) -- noqa: ST07
order by
    of_claim.gpu, of_claim.torch, of_claim.cudnn, of_claim.outcome is null, of_claim.condition,
    row(*columns(axis_names())), of_claim.measure, of_claim.contrast, of_claim.cell_id, of_claim;
