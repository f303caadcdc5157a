-- Do processes choose the same kernels, and what does it cost if they do not?
-- $ranks BIGINT = 8: number of processes in a job that wait for each other in each step
-- terminal: cell, config, processes, distinct_choices, slowest_choice_ratio, rank_agreement,
--     rank_agreement_high, straggler_cost, search_stalls
-- none: no kernels are recorded; only ok trials on a GPU record them
--
-- There is one row for each cell and config. A choice is the list of kernels, with their grids,
-- that the convolutions of a step launch. The modal choice is the most common one. Kernels,
-- conversions and logs are those of the modal choice. Times are medians over processes. Values for
-- ranks are predicted from single processes, except in the seen_ columns, which trials on several
-- GPUs measure.
--
-- entropy_bits: entropy of the choices; 0 if all agree, log2(n) for n equally common choices
-- slowest_choice_ratio: device time of the slowest choice, divided by that of the fastest
-- layout_conversion_share: share of device time in layout conversions; null if shapes vary
-- straggler_cost: relative time that a step loses by waiting for the slowest of $ranks processes
-- search_stalls: number of steps that wait for a search, if each rank draws its own sizes
with trials as (
    select
        *,
        list_distinct(list_transform(rank_results, lambda r: r.kernels_hash)) as rank_choices,
        list_distinct(list_transform(rank_results, lambda r: r.fingerprint)) as rank_bits,
        list_transform(rank_results, lambda r: r.device_ms) as rank_device_ms,
        list_avg(list_transform(rank_results, lambda r: r.wait_ms)) as rank_wait_ms
    from configured(null, $sweep_id)
    where status = 'ok' and kernels_hash is not null
),

drawn as (
    select
        columns([
            'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'settings', 'kernels_source',
            'kernels_hash'
        ]),
        any_value(config) as config,
        any_value(if(enabled and benchmark, regime_shapes, null)) as searched_shapes,
        count(*) as processes,
        list(fingerprint) filter (where fingerprint is not null) as fingerprints,
        min(struct_pack(sweep_id := sweep_id, trial_id := trial_id)) as trial,
        median(steady_device_ms) as choice_device_ms, -- device time with the modal choice, median
        list(steady_device_ms) filter (where steady_device_ms is not null) as device_ms,
        max(layout_conversions) as layout_conversions,
        list(layout_conversion_ms) as conversion_ms,
        list(layout_conversion_ms / steady_device_ms) filter (where regime_shapes = 1)
            as conversion_shares,
        arg_min(struct_pack(sweep_id := sweep_id, trial_id := trial_id), started_at)
        filter (where logged_kernels_agree) as log_trial,
        max(logged_workspace_bytes) filter (where logged_kernels_agree) as logged_workspace_bytes,
        list((len(rank_choices) = 1)::int) as same_choices,
        list((len(rank_bits) = 1)::int) as same_bits,
        list(list_max(rank_device_ms) / list_avg(rank_device_ms) - 1) as straggler_costs,
        list(rank_wait_ms) as wait_ms
    from trials
    group by cell_id, env_hash, software_hash, workload_hash, settings, kernels_source, kernels_hash
),

ranked as (
    select
        *,
        row_number() over (same order by processes desc, kernels_hash asc) = 1 as is_modal,
        sum(processes) over same as of_config,
        count(distinct kernels_hash) over (
            partition by cell_id, env_hash, software_hash, workload_hash, kernels_source
        ) as cell_choices
    from drawn
    window same as (
        partition by cell_id, env_hash, software_hash, workload_hash, settings, kernels_source
    )
),

config_choices as (
    select -- noqa: ST06
        any_value(config) as config,
        sum(processes)::bigint as processes, -- number of processes whose kernels are known
        sum(processes)::bigint as n,
        max(processes) as k,
        -- A further rank makes the same choice with probability (processes - 1) / (of_config - 1).
        sum(processes / of_config * ((processes - 1) / nullif(of_config - 1, 0)) ** ($ranks - 1))
            as rank_agreement, -- chance that ranks choose the same kernels; null for one process
        map_values(list_histogram(flatten(list(fingerprints)))) as of_same_bits,
        any_value(searched_shapes) as searched_shapes,
        any_value(cell_choices) as cell_choices, -- different choices over all configs of the cell
        count(*) as distinct_choices, -- number of different choices in this config
        any_value(kernels_hash) filter (where is_modal) as choice, -- hash of the modal choice
        max(processes) / sum(processes) as choice_share, -- share of processes with the modal choice
        log2(sum(processes)) - sum(processes * log2(processes)) / sum(processes) as raw_entropy,
        greatest(raw_entropy, 0) as entropy_bits,
        any_value(trial) filter (where is_modal) as trial,
        any_value(choice_device_ms) filter (where is_modal) as choice_device_ms,
        list_sort(flatten(list(device_ms))) as every_device_ms,
        max(choice_device_ms) / min(choice_device_ms) as slowest_choice_ratio,
        any_value(layout_conversions) filter (where is_modal) as layout_conversions,
        list_median(flatten(list(conversion_ms))) as layout_conversion_ms,
        list_median(flatten(list(conversion_shares))) as layout_conversion_share,
        any_value(log_trial) filter (where is_modal) as log_trial,
        max(logged_workspace_bytes) filter (where is_modal) as logged_workspace_bytes,
        list_avg(flatten(list(same_choices)))
            as seen_rank_agreement, -- share of trials whose ranks all chose the same kernels
        list_avg(flatten(list(same_bits)))
            as seen_bits_agreement, -- share of trials whose ranks all got the same bits
        list_avg(flatten(list(straggler_costs)))
            as seen_straggler_cost, -- device time of the slowest rank, divided by the mean, less 1
        list_avg(flatten(list(wait_ms)))
            as seen_wait_ms, -- time of NCCL's kernels, mean over ranks
        kernels_source,
        columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
    from ranked
    group by cell_id, env_hash, software_hash, workload_hash, settings, kernels_source
),

predicted as (
    select
        *,
        len(every_device_ms) as timed,
        list_sum(list_transform(
            of_same_bits,
            lambda n: n / list_sum(of_same_bits)
            * ((n - 1) / nullif(list_sum(of_same_bits) - 1, 0)) ** ($ranks - 1)
        )) as rank_bits_agreement, -- chance that ranks compute the same bits; null for one process
        -- Each process is weighted by its probability of being the slowest one.
        list_sum(list_transform(
            range(1, timed + 1),
            lambda n: every_device_ms[n] * ((n / timed) ** $ranks - ((n - 1) / timed) ** $ranks)
        )) / list_avg(every_device_ms) - 1 as straggler_cost,
        list_sum(list_transform(
            range(40 * searched_shapes),
            lambda step: 1 - (1 - (1 - 1 / searched_shapes) ** step) ** $ranks
        )) as search_stalls
    from config_choices
),

shown_trials as ( -- noqa: ST03
    select unnest([trial, log_trial]) as trial
    from config_choices
),

shown_choices as (from choices_of('shown_trials'))

select -- noqa: disable=AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order),
    unnest(predicted.config), -- noqa: AL03
    predicted.* exclude (
        config, n, k, of_same_bits, searched_shapes, raw_entropy, trial, every_device_ms,
        log_trial, timed, cell_id, env_hash, software_hash, workload_hash
    ),
    shown_choices.kernels,
    list_median(predicted.every_device_ms) as device_ms, -- device time, median over processes
    if(predicted.k = 1, 0, modal_shares.low ** $ranks) as rank_agreement_low,
    -- No choice is more common than the modal one.
    modal_shares.high ** ($ranks - 1) as rank_agreement_high,
    from_log.engines as logged_engines, -- engines of the modal choice, from cuDNN's log
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
from predicted
inner join cell_labels() as labels using (cell_id)
inner join share_intervals('predicted') as modal_shares
    on predicted.k = modal_shares.k and predicted.n = modal_shares.n
left join shown_choices on predicted.trial = shown_choices.trial
left join shown_choices as from_log on predicted.log_trial = from_log.trial
order by
    labels.cell_order, predicted.software_hash, predicted.config, predicted.kernels_source,
    predicted.cell_id, predicted.env_hash, predicted.workload_hash
