-- Do configs and processes compute the same bits, and how far are results from float64?
-- terminal: cell, config, processes, distinct_fingerprints, bitwise_repeatable, same_as_default,
--     relative_l2_error
-- none: no trial ended well
--
-- There is one row for each cell and config, over all processes. A fingerprint is a hash of a
-- step's outputs and gradients. Processes with the same fingerprint have the same error. Each
-- process is compared with the process of PyTorch's default config in its block.
--
-- same_as_default: number of processes with the same bits as the default config
-- processes_with_error: number of processes whose error against float64 is known
-- relative_l2_error, relative_max_error: largest relative error among the processes
-- finite_losses: whether the first and last loss of every process are finite
with processes as (
    select
        * replace (
            max(relative_l2_error) over alike as relative_l2_error,
            max(relative_max_error) over alike as relative_max_error
        ),
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash) as cell,
        config = usual_config() and twin = 0 as is_standard
    from records
    where
        status = 'ok' and (fingerprint is not null or loss_first is not null)
        and ($sweep_id is null or sweep_id glob $sweep_id)
    window alike as (partition by cell_id, env_hash, software_hash, workload_hash, fingerprint)
),

paired as (
    select
        *,
        fingerprint = any_value(fingerprint) filter (where is_standard) over beside as same_bits,
        any_value(loss_first) filter (where is_standard) over beside as standard_loss,
        abs(loss_first - standard_loss) / abs(standard_loss) as loss_difference
    from processes
    window beside as (
        partition by cell, sweep_id, block
        rows between unbounded preceding and unbounded following exclude current row
    )
),

counted as (
    select
        config,
        count(fingerprint) as processes, -- number of processes whose fingerprint is known
        count(distinct fingerprint) as distinct_fingerprints, -- number of different fingerprints
        bool_and(bitwise_repeatable) as bitwise_repeatable,
        count(same_bits) as default_pairs, -- number of processes compared with the default config
        count(*) filter (where same_bits) as same_as_default,
        count(relative_l2_error) as processes_with_error,
        max(relative_l2_error) as relative_l2_error,
        max(relative_max_error) as relative_max_error,
        median(loss_first) as loss, -- loss of the first training step, median over processes
        count(loss_difference) as loss_pairs, -- processes whose loss is compared with the default's
        max(loss_difference) as loss_difference, -- largest relative difference of compared losses
        bool_and(isfinite(loss_first) and isfinite(loss_last)) as finite_losses,
        any_value(columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash']))
    from paired
    group by cell, config
)

select -- noqa: ST06
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    unnest(counted.config), -- noqa: AL03
    counted.* exclude (config) -- noqa: AM04, RF02
from counted
inner join cell_labels() as labels on counted.cell_id = labels.cell_id
order by
    labels.cell_order, counted.software_hash, counted.config, counted.cell_id, counted.env_hash,
    counted.workload_hash
