-- What does a kept choice keep: errata with benchmark off, beside off and on alone?
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, off_ms, on_ms, frozen_ms, kept, off_first_warm_ms, on_first_warm_ms,
--     frozen_first_warm_ms, frozen_results
-- none: no cell was measured with benchmark off, on, and with errata: see `sweep freeze`
--
-- A row a sweep, cell and errata. Frozen is a process with benchmark off that reads these errata.
--
-- rules: how many rules the errata have
-- off_ms: time per step with off, median of the processes
-- on_ratio: time per step with on / off, geometric mean over the blocks
-- frozen_ratio: frozen / off
-- kept: share of the gain of on that frozen has too; null where on gains less than 2%
-- off_first_ms: first calls of all shapes with off and an empty compute cache, median
-- off_first_warm_ms: with off and a warm compute cache
-- off_peak_bytes: most that was reserved with off
-- off_results, off_choices: different bits, and lists of kernels, among processes with off
-- off_l2_error: relative L2 error against float64 with off; null where it was not asked for
-- processes: frozen processes
with told as (
    select
        *,
        case when errata is not null then 'frozen' when benchmark then 'on' else 'off' end as way,
        -- what is the same of all three
        concat_ws(
            '|', sweep_id, cell_id,
            replace(other_settings, 'benchmark=true', 'benchmark=false')
        ) as place,
        list_sum(list_transform(cold, lambda each: each.first_ms)) as first_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes
    from configured('errata', $sweep_id)
    where
        status = 'ok' and twin = 0 and software is null -- a block has each way once
        and (errata is null or not benchmark)
),

ways as (
    select
        place,
        way,
        errata,
        any_value(sweep_id) as sweep_id,
        any_value(cell_id) as cell_id,
        count(*) as processes,
        median(steady_wall_ms) as ms,
        median(first_ms) filter (where compute_cache = 'empty') as first_ms,
        median(first_ms) filter (where compute_cache = 'warm') as first_warm_ms,
        max(peak_bytes) as peak_bytes,
        count(distinct fingerprint) as results,
        count(distinct kernels_hash) as choices,
        max(relative_l2_error) as l2_error
    from told
    group by place, way, errata
),

blocks as (
    select
        frozen.place,
        frozen.errata,
        exp(avg(log_ratio(on_way.steady_wall_ms, off_way.steady_wall_ms))) as on_ratio,
        exp(avg(log_ratio(frozen.steady_wall_ms, off_way.steady_wall_ms))) as frozen_ratio
    from told as frozen
    inner join told as off_way
        on
            frozen.place = off_way.place
            and frozen.block = off_way.block
            and off_way.way = 'off'
    inner join told as on_way
        on
            frozen.place = on_way.place
            and frozen.block = on_way.block
            and on_way.way = 'on'
    where frozen.way = 'frozen'
    group by frozen.place, frozen.errata
)

select -- noqa: ST06
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    if(frozen.errata = '', 0, len(string_split(frozen.errata, ', '))) as rules,
    blocks.on_ratio,
    blocks.frozen_ratio,
    if(blocks.on_ratio > 0.98, null, (1 - blocks.frozen_ratio) / (1 - blocks.on_ratio)) as kept,
    columns(off_way.* exclude (place, way, errata, sweep_id, cell_id, processes)) as 'off_\0', -- noqa
    columns(on_way.* exclude (place, way, errata, sweep_id, cell_id, processes)) as 'on_\0', -- noqa
    columns(frozen.* exclude (place, way, errata, sweep_id, cell_id, processes)) as 'frozen_\0', -- noqa
    frozen.processes,
    frozen.errata,
    frozen.sweep_id,
    frozen.cell_id
from ways as frozen
inner join blocks on frozen.place = blocks.place and frozen.errata = blocks.errata
inner join ways as off_way on frozen.place = off_way.place and off_way.way = 'off'
inner join ways as on_way on frozen.place = on_way.place and on_way.way = 'on'
inner join cell_labels() as labels on frozen.cell_id = labels.cell_id
order by labels.cell_order, frozen.sweep_id, frozen.errata, frozen.cell_id
