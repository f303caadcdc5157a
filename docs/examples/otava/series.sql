-- What was each night's value of each series, as Apache Otava reads it from a CSV file?
-- none: no night is recorded
--
-- A series is a branch to Otava, which compares the nights of one branch.
select
    night[7:16] as time, -- noqa: RF04
    md5(concat_ws('|', night[18:], env_hash, cell_id, metric, settings))[:12] as branch,
    value, -- noqa: RF04
    metric,
    cell_id,
    settings,
    software_hash
from night_series()
where value is not null and night glob 'night-*'
order by night, branch
