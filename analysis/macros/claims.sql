-- What people say of torch.backends.cudnn, and what the figures of a store say to it.

-- Whether a verdict is the one that a claim needs.
create or replace macro claim_outcome(verdict, wanted) as case
    when verdict is null or not is_decided(verdict) then 'undecided'
    when verdict = wanted then 'holds'
    else 'does not hold'
end;

-- PyTorch's own settings but for `flag`, as the other settings of a contrast are written; where
-- `changed` is one of them, as benchmark=true, with that.
create or replace macro usual_besides(flag, changed) as array_to_string(
    list_transform(
        string_split(settings_besides(flag, setting_texts(usual_config(), 0)), ', '),
        lambda each: if(split_part(each, '=', 1) = split_part(changed, '=', 1), changed, each)
    ),
    ', '
);

-- What the processes of each cell took under each value of `flag`, in the order in which they ran.
create or replace macro process_times(flag, of_sweep) as table
select
    cell_id,
    env_hash,
    software_hash,
    workload_hash,
    other_settings,
    loop_kind,
    setting,
    list(steady_wall_ms order by started_at) as wall_ms,
    list(steady_device_ms order by started_at) filter (where steady_device_ms is not null)
        as device_ms
from configured(flag, of_sweep)
where status = 'ok' and twin = 0
group by all;

-- Which result each process gave, in the order in which they ran: the results of a cell under one
-- set of other settings are numbered as they come, under either value of `flag`.
create or replace macro process_results(flag, of_sweep) as table
with seen as (
    select
        *,
        min(started_at) over (
            partition by
                cell_id, env_hash, software_hash, workload_hash, other_settings, fingerprint
        ) as first_seen
    from configured(flag, of_sweep)
    where status = 'ok' and fingerprint is not null
),

numbered as (
    select
        *,
        dense_rank() over (
            partition by cell_id, env_hash, software_hash, workload_hash, other_settings
            order by first_seen, fingerprint
        ) as number -- noqa: RF04
    from seen
)

select
    cell_id,
    env_hash,
    software_hash,
    workload_hash,
    other_settings,
    list(number::double order by started_at) filter (where setting = 'false') as baseline_samples,
    list(number::double order by started_at) filter (where setting = 'true') as candidate_samples
from numbered
group by cell_id, env_hash, software_hash, workload_hash, other_settings;

-- How many results processes gave: figures of rows that `determinism_cost` has. `found` names them,
-- each with a `condition` and an `outcome`.
create or replace macro result_figures(found, flag, of_sweep) as table
select
    found_rows.condition,
    found_rows.outcome,
    'different results among processes' as measure,
    found_rows.reproducibility as verdict_of_it,
    found_rows.baseline_distinct_results as baseline_value,
    found_rows.candidate_distinct_results as candidate_value,
    found_rows.candidate_distinct_results as value,
    results.baseline_samples,
    results.candidate_samples,
    found_rows.contrast,
    found_rows.baseline_processes + found_rows.candidate_processes as trials,
    found_rows.cell_id,
    found_rows.software_hash
from query_table(found) as found_rows
left join process_results(flag, of_sweep) as results
    on
        found_rows.cell_id = results.cell_id
        and found_rows.env_hash = results.env_hash
        and found_rows.software_hash = results.software_hash
        and found_rows.workload_hash is not distinct from results.workload_hash
        and found_rows.other_settings = results.other_settings;

-- Figures of rows that `helps_or_hurts` has: wall time, which decides, and device time beside it.
-- `found` names them, each with a `condition` and the verdict `wanted`; `times` names what
-- `process_times` has.
create or replace macro timed_figures(found, times, from_value, to_value) as table
with rows as (
    select
        found_rows.*,
        baseline.wall_ms as baseline_wall_ms,
        candidate.wall_ms as candidate_wall_ms,
        baseline.device_ms as baseline_device_times_ms,
        candidate.device_ms as candidate_device_times_ms
    from query_table(found) as found_rows
    left join query_table(times) as baseline
        on
            found_rows.cell_id = baseline.cell_id
            and found_rows.env_hash = baseline.env_hash
            and found_rows.software_hash = baseline.software_hash
            and found_rows.workload_hash is not distinct from baseline.workload_hash
            and found_rows.other_settings = baseline.other_settings
            and found_rows.loop_kind = baseline.loop_kind
            and baseline.setting = from_value
    left join query_table(times) as candidate
        on
            found_rows.cell_id = candidate.cell_id
            and found_rows.env_hash = candidate.env_hash
            and found_rows.software_hash = candidate.software_hash
            and found_rows.workload_hash is not distinct from candidate.workload_hash
            and found_rows.other_settings = candidate.other_settings
            and found_rows.loop_kind = candidate.loop_kind
            and candidate.setting = to_value
    where found_rows.no_effect_reason is distinct from 'no_cuda'
)

select
    condition,
    claim_outcome(wall_verdict, wanted) as outcome,
    'wall time, ms' as measure,
    wall_verdict as verdict_of_it,
    baseline_ms as baseline_value,
    candidate_ms as candidate_value,
    ratio as value,
    ratio_low as value_low,
    ratio_high as value_high,
    contrast,
    2 * blocks as trials,
    baseline_wall_ms as baseline_samples,
    candidate_wall_ms as candidate_samples,
    cell_id,
    software_hash
from rows
union all
select
    condition,
    null as outcome,
    'device time, ms' as measure,
    device_verdict as verdict_of_it,
    baseline_device_ms as baseline_value,
    candidate_device_ms as candidate_value,
    device_ratio as value,
    device_ratio_low as value_low,
    device_ratio_high as value_high,
    contrast,
    2 * blocks as trials,
    baseline_device_times_ms as baseline_samples,
    candidate_device_times_ms as candidate_samples,
    cell_id,
    software_hash
from rows
where device_ratio is not null;

-- The columns of a claim's figures; where one has no such column it is null. What its cell and its
-- software are called follows from `cell_id` and `software_hash`; a figure over several cells has
-- neither, and says it itself.
create or replace macro no_figures() as table
select
    null::text as condition,
    null::text as outcome,
    null::text as measure,
    null::text as verdict_of_it,
    null::double as baseline_value,
    null::double as candidate_value,
    null::double as value,
    null::double as value_low,
    null::double as value_high,
    null::text as contrast,
    null::bigint as trials,
    null::double[] as baseline_samples,
    null::double[] as candidate_samples,
    null::text as workload,
    null::text as problem,
    null::text as direction,
    null::text as input_shape,
    null::text as regime,
    null::text as state,
    null::text as precision,
    null::text as layout,
    null::text as gpu,
    null::text as torch,
    null::bigint as cudnn,
    null::text as driver,
    null::text as cell_id,
    null::text as software_hash
where false;

-- A claim's figures with its verdict, which is of one GPU model, PyTorch and cuDNN:
--     holds            each figure that is decided says so
--     holds only when  some do: `holds_in` counts them by condition, and `in_words` names those
--                      all of whose decided figures do, then those of which some do
--     does not hold    none does
--     undecided        these agree, but they are fewer than half of the figures
--     not measured     there is no figure; this is a row all the same, whose `command` measures
-- A figure without an outcome stands beside the others and decides nothing. `rests_on_few` names
-- the conditions with one or two decided figures, where others have more; `holds_here` counts those
-- of the row's own condition.
create or replace macro claimed(figures, number, sentence, command) as table
with figured as (
    select * from no_figures() -- noqa: AM04
    union all by name
    select * from query_table(figures)
),

told as (
    select
        figured.* exclude (software_hash) replace (
            coalesce(figured.workload, cell.workload) as workload,
            coalesce(figured.problem, cell.problem) as problem,
            coalesce(figured.direction, cell.direction) as direction,
            coalesce(figured.input_shape, cell.input_shape) as input_shape,
            coalesce(figured.regime, cell.regime) as regime,
            coalesce(figured.state, cell.state) as state,
            coalesce(figured.precision, cell.precision) as precision,
            coalesce(figured.layout, cell.layout) as layout,
            coalesce(figured.gpu, cell.gpu) as gpu,
            coalesce(figured.torch, software.torch) as torch,
            coalesce(figured.cudnn, software.cudnn) as cudnn,
            coalesce(figured.driver, software.driver) as driver
        )
    from figured
    left join cell_labels() as cell on figured.cell_id = cell.cell_id
    left join software_labels() as software on figured.software_hash = software.software_hash
),

by_condition as (
    select
        gpu,
        torch,
        cudnn,
        condition,
        count(*) filter (where outcome = 'holds') as holding,
        count(*) filter (where outcome <> 'undecided') as decided,
        count(*) as figures_of_it,
        concat_ws(
            ', ',
            if(decided > 0, format('{} of {}', holding, decided), null),
            if(figures_of_it > decided, format('{} undecided', figures_of_it - decided), null)
        ) as counted
    from told
    where outcome is not null
    group by gpu, torch, cudnn, condition
),

verdicts as (
    select
        gpu,
        torch,
        cudnn,
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
    coalesce(
        verdicts.verdict, if(told.measure is null, 'not measured', 'undecided')
    ) as verdict,
    coalesce(verdicts.in_words, verdict) as in_words,
    verdicts.holds_in,
    verdicts.rests_on_few,
    by_condition.counted as holds_here,
    told.*, -- noqa: AM04
    command as measured_by
from (select 1 as one) as always
left join told on true
left join verdicts
    on told.gpu = verdicts.gpu and told.torch = verdicts.torch and told.cudnn = verdicts.cudnn
left join by_condition
    on
        told.gpu = by_condition.gpu and told.torch = by_condition.torch
        and told.cudnn = by_condition.cudnn and told.condition = by_condition.condition
order by
    told.gpu, told.torch, told.cudnn, told.outcome is null, told.condition, told.workload,
    told.problem, told.direction, told.precision, told.layout, told.regime, told.state,
    told.measure, told.contrast, told.cell_id, told.input_shape;
