-- What became of each reported case, a line each?
with named as (
    select
        *,
        case measure
            when 'memory' then 'memory, MB'
            when 'roofline' then 'share of the roofline'
            when 'cold' then 'first call, ms'
            when 'cold_ms' then 'first call, ms'
            when 'wall' then 'wall, ms'
            when 'device' then 'device, ms'
            when 'device_ms' then 'device, ms'
            else replace(measure, '_', ' ')
        end as clock,
        list_transform(
            if(candidate_value is null, [], [baseline_value, candidate_value]),
            lambda each: format(
                if(each >= 1000, '{:,.0f}', '{:.3g}'), if(measure = 'memory', each / 1e6, each)
            )
        ) as sides,
        if(candidate_value is null, '{:.3g}', '{:.3f}') as form
    from field_cases(of_sweep_id := 'field')
)

select
    case_id || ' ' || address as reported,
    claim,
    coalesce(because, contrast, '') as compared,
    outcome || coalesce(': ' || cause, '') as today,
    coalesce(concat_ws(': ', clock, nullif(array_to_string(sides, ' → '), '')), '') as measured,
    coalesce(
        format(form || ' (' || form || ' to ' || form || ')', value, value_low, value_high), ''
    ) as number_of_the_claim
from named
order by
    list_position(['still there', 'reversed', 'gone', 'undecided', 'not to be run here'], outcome),
    case_id
