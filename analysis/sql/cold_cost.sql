-- What does a setting cost at the start, with the compute cache empty and warm?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, compute_cache, baseline_cold_ms, candidate_cold_ms,
--     cold_ratio[cold_ratio_low cold_ratio_high], cold_verdict, extra_ms
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell, set of other settings and state of the compute cache (empty, warm, disabled; none
-- without CUDA). A cold cost is the sum of the first calls of each distinct shape that both trials
-- of a block met, wall time. States are never averaged, nor paired with each other. The first shape
-- also bears what all share, such as loading libraries and their kernels.
--
-- shapes: most distinct shapes that both trials of a block met
-- blocks: paired blocks that met this state
-- baseline_cold_ms: cold cost of the baseline, median over blocks
-- cold_ratio: candidate / baseline, geometric mean over blocks
-- cold_verdict: verdict on it; multiple tests are corrected for in each state and sweep
-- extra_ms: candidate's cold cost less the baseline's, mean over blocks
-- extra_first_shape_ms: of it, what the first shape costs
-- extra_later_shape_ms: what each further shape costs, on average
-- extra_iterations: iterations of the baseline that take as long as extra_ms
-- baseline_cache_entries: files that a baseline added to the compute cache, median
with blocks as materialized (
    select
        *,
        concat_ws(
            '|', cell_id, env_hash, software_hash, workload_hash, other_settings, loop_kind,
            compute_cache
        ) as cell,
        candidate_cold_ms - baseline_cold_ms as extra_ms,
        (extra_ms - first_shape_extra_ms) / nullif(shapes - 1, 0) as later_shape_extra_ms,
        log_ratio(candidate_cold_ms, baseline_cold_ms) as log_ratio
    from block_pairs($field, $baseline, $candidate, $sweep_id)
    where pairing = 'paired' and compute_cache is not null and candidate_cold_ms is not null
),

estimates as ( -- noqa: ST03
    select
        cell,
        any_value(compute_cache) as clock,
        [(any_value(no_effect_reason) is null)::text] || list_sort(list(distinct sweep_id))
            as family, -- noqa: RF04
        avg(log_ratio) as mean,
        standard_error(log_ratio) as se,
        count(log_ratio) - 1 as df
    from blocks
    group by cell
),

verdicts as (
    select * from judged('estimates', $min_effect, 0)
),

cells as (
    select
        cell,
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(columns(['other_settings', 'loop_kind', 'compute_cache'])),
        max(shapes) as shapes,
        count(*) as blocks,
        median(baseline_cold_ms) as baseline_cold_ms,
        median(candidate_cold_ms) as candidate_cold_ms,
        avg(extra_ms) as extra_ms,
        t_95(count(extra_ms) - 1) * standard_error(extra_ms) as margin_ms,
        avg(first_shape_extra_ms) as extra_first_shape_ms,
        avg(later_shape_extra_ms) as extra_later_shape_ms,
        avg(extra_ms) / median(baseline_ms) as extra_iterations,
        median(baseline_cache_entries) as baseline_cache_entries,
        median(candidate_cache_entries) as candidate_cache_entries,
        any_value(columns([
            'no_effect_reason', 'cell_id', 'env_hash', 'software_hash', 'workload_hash'
        ]))
    from blocks
    group by cell
)

select -- noqa: disable=AM04,RF02,ST06
    labels.* exclude (cell_id, cell_order),
    cells.* exclude (
        cell, margin_ms, cell_id, env_hash, software_hash, workload_hash
    ),
    verdicts.ratio as cold_ratio,
    verdicts.ratio_low as cold_ratio_low,
    verdicts.ratio_high as cold_ratio_high,
    shown(cells.no_effect_reason, verdicts.verdict) as cold_verdict,
    cells.extra_ms - cells.margin_ms as extra_ms_low,
    cells.extra_ms + cells.margin_ms as extra_ms_high,
    cells.cell_id,
    cells.env_hash,
    cells.software_hash,
    cells.workload_hash
from cells
inner join cell_labels() as labels on cells.cell_id = labels.cell_id
inner join verdicts on cells.cell = verdicts.cell
order by
    labels.cell_order, cells.other_settings, cells.software_hash, cells.loop_kind, cells.cell_id,
    cells.env_hash, cells.compute_cache, cells.workload_hash
