-- What changes if one axis of a cell, such as precision or layout, has another value?
-- $axis TEXT = 'precision': axis whose values are compared
-- $baseline TEXT = NULL: value to compare others with; null: the usual value of each pair
-- $candidate TEXT = NULL: value that is compared with the baseline; null: all other values
-- terminal: cell, contrast, config, baseline_ms, candidate_ms, ratio[ratio_low ratio_high],
--     wall_verdict, relative_l2_error
-- none: no two cells differ only in this axis
--
-- There is one row for each config and each cell with a candidate value. Cells with different
-- values never share a block, so their processes are not paired. Intervals and tests are Welch's,
-- on the logarithms of the processes' times. 5% of `helps` and `hurts` may be wrong
-- (Benjamini-Hochberg).
--
-- by_choice: times of a side's choices, divided by that of its usual choice, if they differ by
--     min_effect or more; otherwise, how common an unseen choice may be
-- baseline_relative_l2_error, relative_l2_error: largest error of the side in the L2 norm
-- baseline_relative_max_error, relative_max_error: largest error of the side in the max norm
-- baseline_roofline_share, roofline_share: share of the roofline in the side's precision, median
-- baseline_layout_conversions, layout_conversions: largest number of layout conversions in a step
-- baseline_layout_conversion_ms, layout_conversion_ms: device time of layout conversions, median
-- other_kernels: whether the sides chose different kernels; false if they have a choice in common
with trials as ( -- noqa: disable=RF01,RF02,RF03,RF04,ST03,ST06,ST07,AM04
    select
        *,
        axis_value as value
    from configured(null, $sweep_id)
    inner join cell_tasks($axis) using (cell_id)
),

counted as materialized (from grouped('trials')),

pairs as materialized (
    select *
    from group_pairs('counted')
    where
        b.env_hash = c.env_hash
        and b.software_hash = c.software_hash
        and b.workload_hash is not distinct from c.workload_hash
        and ($baseline is null or b.value = $baseline)
        and ($candidate is null or c.value = $candidate)
        and (
            coalesce($baseline, $candidate) is not null
            or (not b.is_usual, b.value) < (not c.is_usual, c.value)
        )
)

select
    labels.* exclude (cell_id, cell_order),
    $axis || ': ' || b.value || ' → ' || c.value as contrast,
    c.settings,
    c.loop_kind,
    b.processes as baseline_processes,
    c.processes as candidate_processes,
    b.doubtful_processes + c.doubtful_processes as doubtful_processes,
    sides.b_ms as baseline_ms,
    sides.c_ms as candidate_ms,
    sides.verdict as wall_verdict,
    sides.b_device_ms as baseline_device_ms,
    sides.c_device_ms as candidate_device_ms,
    columns([
        'ratio', 'ratio_low', 'ratio_high', 'device_verdict', 'device_ratio', 'device_ratio_low',
        'device_ratio_high'
    ]),
    nullif(
        concat_ws('; ', 'baseline ' || sides.b_choice, 'candidate ' || sides.c_choice), ''
    ) as by_choice,
    b.relative_l2_error as baseline_relative_l2_error,
    c.relative_l2_error,
    b.relative_max_error as baseline_relative_max_error,
    c.relative_max_error,
    b.peak_reserved_bytes as baseline_peak_reserved_bytes,
    c.peak_reserved_bytes as candidate_peak_reserved_bytes,
    b.roofline_share as baseline_roofline_share,
    c.roofline_share,
    b.layout_conversions as baseline_layout_conversions,
    c.layout_conversions,
    b.layout_conversion_ms as baseline_layout_conversion_ms,
    c.layout_conversion_ms,
    sides.other_kernels,
    b.cell_id as baseline_cell_id,
    c.cell_id,
    c.env_hash,
    c.software_hash,
    c.workload_hash
from sides_judged('pairs', 'counted', $min_effect) as sides
inner join cell_labels() as labels on c.cell_id = labels.cell_id
order by
    labels.cell_order, c.settings, c.software_hash, c.loop_kind, c.env_hash, c.cell_id, contrast,
    baseline_cell_id, c.workload_hash, c.in_turns
