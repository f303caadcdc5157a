-- Do scripts of torch alone time what the trials time?
--
-- `repro`, a table of case_id, setting, process and ms, is put before it by docs/field.py. A row a
-- case and setting. A script agrees where its median lies within 3% or 3 us of the trials' median
-- device time, or, where the trials chose different kernels, within the range of their device times.
, sides as (
    select
        case_id,
        if(contrast is null, 'this cell', split_part(contrast, ' → ', 1)) as setting,
        baseline_problem as problem,
        baseline_direction as direction,
        baseline_precision as precision,
        baseline_layout as layout,
        baseline_settings as settings
    from reported_cases()
    union all
    select
        case_id,
        split_part(contrast, ' → ', 2) as setting,
        candidate_problem as problem,
        candidate_direction as direction,
        candidate_precision as precision,
        candidate_layout as layout,
        candidate_settings as settings
    from reported_cases()
    where candidate_problem is not null
),

scripts as (
    select
        case_id,
        setting,
        count(*) as processes,
        median(ms) as script_ms
    from repro
    group by case_id, setting
),

trials as (
    select
        sides.case_id,
        sides.setting,
        count(records.steady_device_ms) as trials,
        median(records.steady_device_ms) as trials_ms,
        min(records.steady_device_ms) as fastest_ms,
        max(records.steady_device_ms) as slowest_ms,
        count(distinct records.kernels_hash) as choices
    from sides
    inner join records
        on
            sides.problem = records.problem
            and sides.direction = records.direction
            and sides.precision = records.precision
            and sides.layout = records.layout
            and sides.settings
            = unusual_among(settings_besides(null, setting_texts(records.config, 0)))
    where records.status = 'ok' and records.twin = 0 and not is_doubtful(records.warnings)
    group by sides.case_id, sides.setting
)

select
    scripts.case_id,
    scripts.setting,
    scripts.processes,
    scripts.script_ms,
    trials.trials_ms,
    scripts.script_ms / trials.trials_ms as ratio,
    trials.fastest_ms,
    trials.slowest_ms,
    trials.choices,
    abs(scripts.script_ms - trials.trials_ms) <= greatest(0.03 * trials.trials_ms, 0.003)
    or (
        trials.choices > 1
        and scripts.script_ms between trials.fastest_ms and trials.slowest_ms
    ) as agrees
from scripts
left join trials on scripts.case_id = trials.case_id and scripts.setting = trials.setting
order by scripts.case_id, scripts.setting
