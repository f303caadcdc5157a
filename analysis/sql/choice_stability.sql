-- Do processes agree on the kernels they choose, and what does it cost where they do not?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, processes, distinct_choices, choice_share, entropy_bits,
--     slowest_choice_ratio
-- none: no process told its kernels: they are known of ok trials on a GPU
--
-- A row a cell and config. A choice is what the convolutions of one step launch: kernels, their
-- order and grids; every process draws its own. The modal choice is the most common one. Entropy is
-- 0 where all processes agree, and log2(n) where n choices are equally common; from few processes
-- it comes out too small.
--
-- processes: processes whose kernels are known
-- distinct_choices: different choices among them
-- cell_choices: different choices over all the cell's configs
-- choice: hash of the modal choice, equal in two rows that run the same
-- choice_share: share of the processes that drew it
-- entropy_bits: entropy of the choices
-- kernels: kernels of the modal choice, in order
-- choice_device_ms: device time of the processes that drew it, median
-- device_ms: device time of all, median
-- device_ms_min: their smallest
-- device_ms_max: their largest
-- slowest_choice_ratio: median device time of the slowest choice / of the fastest
-- layout_conversions: layout conversions that a step with the modal choice launches
-- layout_conversion_ms: device time that a step would save without them, median
-- layout_conversion_share: of device time, median; null where shapes vary
-- logs_taken: processes whose choice is known from a log of cuDNN too
-- logs_that_agree: those whose logging process launched the same kernels
-- logged_engines: engines of the modal choice, from such a log
-- logged_workspace_bytes: largest workspace that such logs show
with drawn as (
    select
        cell_id,
        env_hash,
        software_hash,
        workload_hash,
        settings,
        kernels_source,
        kernels_hash,
        any_value(config) as config,
        count(*) as processes,
        min(struct_pack(sweep_id := sweep_id, trial_id := trial_id)) as trial,
        median(steady_device_ms) as choice_device_ms,
        list(steady_device_ms) filter (where steady_device_ms is not null) as device_ms,
        max(layout_conversions) as layout_conversions,
        list(layout_conversion_ms) as conversion_ms,
        list(layout_conversion_ms / steady_device_ms) filter (where regime_shapes = 1)
            as conversion_shares,
        count(logged_kernels_agree) as logs_taken,
        count(*) filter (where logged_kernels_agree) as logs_that_agree,
        arg_min(struct_pack(sweep_id := sweep_id, trial_id := trial_id), started_at)
        filter (where logged_kernels_agree) as log_trial,
        max(logged_workspace_bytes) filter (where logged_kernels_agree) as logged_workspace_bytes
    from configured(null, $sweep_id)
    where status = 'ok' and kernels_hash is not null
    group by cell_id, env_hash, software_hash, workload_hash, settings, kernels_source, kernels_hash
),

ranked as (
    select
        *,
        row_number() over (
            partition by cell_id, env_hash, software_hash, workload_hash, settings, kernels_source
            order by processes desc, kernels_hash asc
        ) = 1 as is_modal,
        count(distinct kernels_hash) over (
            partition by cell_id, env_hash, software_hash, workload_hash, kernels_source
        ) as cell_choices
    from drawn
),

found as (
    select -- noqa: ST06
        any_value(config) as config,
        sum(processes)::bigint as processes,
        any_value(cell_choices) as cell_choices,
        count(*) as distinct_choices,
        any_value(kernels_hash) filter (where is_modal) as choice,
        max(processes) / sum(processes) as choice_share,
        log2(sum(processes)) - sum(processes * log2(processes)) / sum(processes) as raw_entropy,
        greatest(raw_entropy, 0) as entropy_bits, -- rounding may leave it below 0
        any_value(trial) filter (where is_modal) as trial,
        any_value(choice_device_ms) filter (where is_modal) as choice_device_ms,
        flatten(list(device_ms)) as every_device_ms,
        max(choice_device_ms) / min(choice_device_ms) as slowest_choice_ratio,
        any_value(layout_conversions) filter (where is_modal) as layout_conversions,
        list_median(flatten(list(conversion_ms))) as layout_conversion_ms,
        list_median(flatten(list(conversion_shares))) as layout_conversion_share,
        sum(logs_taken)::bigint as logs_taken,
        sum(logs_that_agree)::bigint as logs_that_agree,
        any_value(log_trial) filter (where is_modal) as log_trial,
        max(logged_workspace_bytes) filter (where is_modal) as logged_workspace_bytes,
        kernels_source,
        cell_id,
        env_hash,
        software_hash,
        workload_hash
    from ranked
    group by cell_id, env_hash, software_hash, workload_hash, settings, kernels_source
),

asked as ( -- noqa: ST03
    select trial
    from found
    union all
    select log_trial as trial
    from found
),

told as (
    select * from choices_of('asked')
)

select -- noqa: ST06
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    unnest(found.config), -- noqa: AL03
    found.processes,
    found.cell_choices,
    found.distinct_choices,
    found.choice,
    found.choice_share,
    found.entropy_bits,
    told.kernels,
    found.choice_device_ms,
    list_median(found.every_device_ms) as device_ms,
    list_min(found.every_device_ms) as device_ms_min,
    list_max(found.every_device_ms) as device_ms_max,
    found.slowest_choice_ratio,
    found.layout_conversions,
    found.layout_conversion_ms,
    found.layout_conversion_share,
    found.logs_taken,
    found.logs_that_agree,
    from_log.engines as logged_engines,
    found.logged_workspace_bytes,
    found.kernels_source,
    found.cell_id,
    found.env_hash,
    found.software_hash,
    found.workload_hash
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
left join told on found.trial = told.trial
left join told as from_log on found.log_trial = from_log.trial
order by
    labels.cell_order, found.software_hash, found.config, found.kernels_source, found.cell_id,
    found.env_hash, found.workload_hash
