-- Which kernels did convolutions run, and in how many processes of each config?
-- $cell_ids TEXT = '': ids of the cells, separated by commas
with launched as (
    select -- noqa: disable=RF03,ST06
        columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash', 'trial_id']),
        settings as config,
        unnest(list_filter(kernels, lambda item: item.kind = 'convolution')) as kernel
    from records
    where status = 'ok' and list_contains(string_split($cell_ids, ','), cell_id)
)

select -- noqa: disable=AL09,RF03,RF04,ST06
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash', 'config']),
    kernel.operation as operation,
    kernel.name as kernel,
    count(distinct trial_id) as processes,
    count(*) as launches -- number of launches in all of these processes
from launched
group by all
order by all
