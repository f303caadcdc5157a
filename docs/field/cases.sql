-- Which reported cases are still there, or reversed, a line each?
with named as (
    select
        *,
        case measure
            when 'cold' then 'first call'
            when 'cold_ms' then 'ms of the first call'
            when 'device_ms' then 'ms of device time'
            when 'memory' then 'memory'
            when 'roofline' then 'of the roofline'
            else replace(measure, '_', ' ')
        end as clock,
        if(candidate_value is null, '{:.3g}', '{:.3f}') as form
    from field_cases(of_sweep_id := 'field')
    where because is null and outcome in ('still there', 'reversed')
)

select
    case_id || ' ' || address as reported,
    claim,
    concat_ws(': ', outcome, cause) as today,
    format(form || ' (' || form || '–' || form || ') {}', value, value_low, value_high, clock)
        as number
from named
order by
    outcome desc,
    case_id asc
