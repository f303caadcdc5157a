-- How much of benchmark's gain does a process keep if errata replace benchmark?
-- terminal: cell, off_ms, on_ms, frozen_ms, frozen_ratio[frozen_ratio_low frozen_ratio_high],
--     kept[kept_low kept_high], kept_by, on_first_ms, frozen_first_ms
-- none: no cell was measured with benchmark off, on, and with errata; use `sweep freeze`
--
-- There is one row for each sweep, cell and set of errata. A process is `on` if benchmark is on,
-- `off` if it is off, and `frozen` if errata replace it. Ratios are geometric means over blocks
-- that have all three kinds of processes.
--
-- rules: number of rules in the errata
-- on_ratio: wall time of a step with benchmark on, divided by that with benchmark off
-- on_device_ratio: device time of a step with benchmark on, divided by that with benchmark off
-- frozen_ratio: wall time of a step with errata, divided by that with benchmark off
-- frozen_device_ratio: device time of a step with errata, divided by that with benchmark off
-- kept: share of benchmark's gain that frozen processes keep; null unless benchmark surely gains
-- off_ms: wall time of a step with benchmark off, median over processes
-- off_first_ms: time of first calls with benchmark off and an empty compute cache, median
-- off_first_warm_ms: time of first calls with benchmark off and a warm compute cache, median
-- off_peak_bytes: peak memory reserved with benchmark off
-- off_results: number of different results with benchmark off
-- off_choices: number of different choices of kernels with benchmark off
-- off_l2_error: largest relative L2 error against float64 with benchmark off
with trials as ( -- noqa: disable=AL03,AM04,RF01,RF02,RF03,RF04,ST03,ST06
    select
        *,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as first_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes
    from configured(null, $sweep_id)
    where status = 'ok' and twin = 0
),

ways as (
    select
        [sweep_id, cell_id, software_hash, settings] as way,
        any_value(columns(['sweep_id', 'cell_id', 'errata'])),
        count(*) as processes,
        median(steady_wall_ms) as ms,
        median(first_ms) filter (where compute_cache = 'empty') as first_ms,
        median(first_ms) filter (where compute_cache = 'warm') as first_warm_ms,
        max(peak_bytes) as peak_bytes,
        count(distinct fingerprint) as results,
        count(distinct kernels_hash) as choices,
        max(relative_l2_error) as l2_error
    from trials
    group by way
),

pairs as materialized (
    select
        [sweep_id, cell_id, software_hash, baseline_settings] as off_way,
        [sweep_id, cell_id, software_hash, candidate_settings] as way,
        concat_ws('|', sweep_id, judged_cell) as cell_of_pair,
        candidate_settings as pool,
        columns([
            'block', 'choice', 'share', 'waits_for_cpu', 'origin', 'wall_elsewhere',
            'device_elsewhere', 'wall_error', 'device_error'
        ]),
        log_ratio(candidate_ms, baseline_ms) as wall,
        log_ratio(candidate_device_ms, baseline_device_ms) as device
    from (
        from block_pairs('benchmark', 'false', 'true', $sweep_id)
        union all by name
        from block_pairs('frozen', 'no', 'yes', $sweep_id)
    ) as both_pairs
    where pairing = 'paired'
),

-- `by_frozen` and `by_on` are the weights of the two ratios' logarithms in the interval of `kept`.
blocks as (
    select
        frozen.cell_of_pair as cell,
        coalesce(frozen.waits_for_cpu or searching.waits_for_cpu, false) as waits,
        -- A single block has the usual 95% interval.
        if(count(*) over own = 1, 1, frozen.share) as own_share,
        exp(avg(if(waits, frozen.device, frozen.wall)) over own) as by_frozen,
        exp(avg(if(waits, searching.device, searching.wall)) over own) as on_ratio,
        (1 - by_frozen) / nullif(1 - on_ratio, 0) as gained,
        gained * on_ratio as by_on,
        (by_frozen ** 2 + by_on ** 2 + (by_frozen - by_on) ** 2) / 2 as squares,
        frozen,
        searching
    from pairs as frozen
    inner join pairs as searching
        on
            frozen.off_way = searching.off_way
            and frozen.block = searching.block
            and contains(frozen.pool, 'benchmark=false')
            and contains(searching.pool, 'benchmark=true')
    window own as (partition by frozen.cell_of_pair)
),

sides as (
    select
        cell,
        own_share,
        unnest(['on', 'frozen', 'kept']) as side,
        unnest([searching, frozen, struct_update(
            frozen,
            choice := frozen.choice || searching.choice,
            wall := by_on * searching.wall - by_frozen * frozen.wall,
            device := by_on * searching.device - by_frozen * frozen.device,
            wall_elsewhere := frozen.wall_elsewhere * squares,
            device_elsewhere := frozen.device_elsewhere * squares,
            wall_error := greatest(frozen.wall_error, searching.wall_error) * squares,
            device_error := greatest(frozen.device_error, searching.device_error) * squares
        )], recursive := true)
    from blocks
),

logs as (
    select
        * replace (
            side || if(clock = 'wall', '', '_device') as clock,
            own_share as share,
            if(clock = 'wall', origin, null) as origin
        ),
        if(clock = 'wall', wall_elsewhere, device_elsewhere) as elsewhere,
        if(clock = 'wall', wall_error, device_error) as error
    from (unpivot sides on wall, device into name clock value observed)
),

estimates as (
    select
        cell,
        clock,
        exp(mean) as ratio,
        exp(mean - t_half(df, share) * se_low) as ratio_low,
        exp(mean + t_half(df, share) * se_high) as ratio_high
    from over_choices('logs')
),

ratios as materialized (
    pivot estimates
    on clock in ('on', 'on_device', 'frozen', 'frozen_device', 'kept', 'kept_device')
    using max(ratio) as ratio, max(ratio_low) as ratio_low, max(ratio_high) as ratio_high
    group by cell
),

cells as (
    select
        cell,
        any_value(columns(['waits', 'on_ratio', 'gained'])),
        any_value(frozen.way) as frozen_way,
        any_value(searching.way) as on_way,
        any_value(frozen.off_way) as off_way,
        count(*) as blocks
    from blocks
    group by cell
)

select -- noqa: ST06
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    if(frozen.errata = '', 0, len(string_split(frozen.errata, ', '))) as rules,
    cells.blocks, -- number of blocks with an off, an on and a frozen process
    columns(ratios.* exclude (
        cell, kept_ratio, kept_ratio_low, kept_ratio_high, kept_device_ratio, kept_device_ratio_low,
        kept_device_ratio_high
    )),
    if(if(waits, on_device_ratio_high, on_ratio_high) < 1, gained, null) as kept,
    kept + ln(if(waits, kept_device_ratio_low / kept_device_ratio, kept_ratio_low / kept_ratio))
    / (1 - cells.on_ratio) as kept_low,
    kept + ln(if(waits, kept_device_ratio_high / kept_device_ratio, kept_ratio_high / kept_ratio))
    / (1 - cells.on_ratio) as kept_high,
    if(waits, 'device', 'wall') as kept_by, -- time that is compared: wall, or device if CPU-bound
    columns(off_way.* exclude (way, sweep_id, cell_id, errata, processes)) as 'off_\0', -- noqa
    columns(on_way.* exclude (way, sweep_id, cell_id, errata, processes)) as 'on_\0', -- noqa
    columns(frozen.* exclude (way, sweep_id, cell_id, errata, processes)) as 'frozen_\0', -- noqa
    frozen.processes, -- number of frozen processes
    frozen.errata,
    frozen.sweep_id,
    frozen.cell_id
from cells
inner join ratios on cells.cell = ratios.cell
inner join ways as frozen on cells.frozen_way = frozen.way
inner join ways as off_way on cells.off_way = off_way.way
inner join ways as on_way on cells.on_way = on_way.way
inner join cell_labels() as labels on frozen.cell_id = labels.cell_id
order by labels.cell_order, frozen.sweep_id, frozen.errata, frozen.cell_id
