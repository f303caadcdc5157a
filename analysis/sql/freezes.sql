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
-- on_ms: with on
-- frozen_ms: frozen
-- on_ratio: time per step with on / off, geometric mean over the blocks
-- frozen_ratio: frozen / off
-- kept: share of the gain of on that frozen has too; null where on gains less than 2%
-- off_first_ms: first calls of all shapes with off and an empty compute cache, median
-- on_first_ms: with on
-- frozen_first_ms: frozen
-- off_first_warm_ms: with off and a warm compute cache
-- on_first_warm_ms: with on
-- frozen_first_warm_ms: frozen
-- off_peak_bytes: most that was reserved with off
-- on_peak_bytes: with on
-- frozen_peak_bytes: frozen
-- off_results: different bits of outputs and gradients among processes with off
-- on_results: with on
-- frozen_results: frozen
-- off_choices: different lists of kernels among processes with off
-- on_choices: with on
-- frozen_choices: frozen
-- off_l2_error: relative L2 error against float64 with off; null where it was not asked for
-- on_l2_error: with on
-- frozen_l2_error: frozen
-- processes: frozen processes
-- errata: the rules
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
        median(steady_wall_ms) as ms,
        median(first_ms) filter (where compute_cache = 'empty') as first_empty_ms,
        median(first_ms) filter (where compute_cache = 'warm') as first_warm_ms,
        max(peak_bytes) as peak_bytes,
        count(distinct fingerprint) as results,
        count(distinct kernels_hash) as choices,
        max(relative_l2_error) as l2_error,
        count(*) as processes
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
),

found as (
    select
        frozen.*, -- noqa: AM04
        blocks.on_ratio,
        blocks.frozen_ratio,
        off_way as off_side, -- noqa: RF02
        on_way as on_side -- noqa: RF02
    from ways as frozen
    inner join blocks on frozen.place = blocks.place and frozen.errata = blocks.errata
    inner join ways as off_way on frozen.place = off_way.place and off_way.way = 'off'
    inner join ways as on_way on frozen.place = on_way.place and on_way.way = 'on'
)

select -- noqa: ST06
    labels.* exclude (cell_id, cell_order), -- noqa: AM04, RF02
    if(found.errata = '', 0, len(string_split(found.errata, ', '))) as rules,
    found.off_side.ms as off_ms,
    found.on_side.ms as on_ms,
    found.ms as frozen_ms,
    found.on_ratio,
    found.frozen_ratio,
    if(found.on_ratio > 0.98, null, (1 - found.frozen_ratio) / (1 - found.on_ratio)) as kept,
    found.off_side.first_empty_ms as off_first_ms,
    found.on_side.first_empty_ms as on_first_ms,
    found.first_empty_ms as frozen_first_ms,
    found.off_side.first_warm_ms as off_first_warm_ms,
    found.on_side.first_warm_ms as on_first_warm_ms,
    found.first_warm_ms as frozen_first_warm_ms,
    found.off_side.peak_bytes as off_peak_bytes,
    found.on_side.peak_bytes as on_peak_bytes,
    found.peak_bytes as frozen_peak_bytes,
    found.off_side.results as off_results,
    found.on_side.results as on_results,
    found.results as frozen_results,
    found.off_side.choices as off_choices,
    found.on_side.choices as on_choices,
    found.choices as frozen_choices,
    found.off_side.l2_error as off_l2_error,
    found.on_side.l2_error as on_l2_error,
    found.l2_error as frozen_l2_error,
    found.processes,
    found.errata,
    found.sweep_id,
    found.cell_id
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
order by
    labels.cell_order, found.sweep_id, found.errata, found.cell_id
