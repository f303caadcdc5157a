-- How many trials does each warning concern?
-- $sweep_id TEXT = NULL: one sweep; all where null
with named as (
    select unnest(warnings) as warning
    from records
    where $sweep_id is null or sweep_id = $sweep_id
)

select
    warning,
    count(*) as trials
from named
group by warning
order by trials desc, warning asc
