-- What does another value on one axis of a cell change: another precision, layout, state, ...?
-- $axis TEXT = 'precision': the axis of a cell that is compared
-- $baseline TEXT = NULL: the value that others are compared with; every pair of values where null
-- $candidate TEXT = NULL: the other value; each one where null
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, contrast, config, baseline_ms, candidate_ms, ratio[ratio_low ratio_high],
--     wall_verdict, relative_l2_error
-- none: no two cells differ in this axis alone
--
-- A row a cell of the candidate and config. Two values are two cells, whose processes ran in
-- different blocks: nothing pairs them. A ratio is that of the geometric means over processes; its
-- 95% interval and the test against the minimum effect are Welch's, on the logarithms of the
-- processes' medians, degrees of freedom rounded down; 5% of the verdicts that help or hurt may be
-- wrong (Benjamini-Hochberg over the rows). Drift between blocks is in the intervals only as far as
-- processes show it.
--
-- by_choice: of each side what its processes chose, as times over its usual one, where min_effect
--     or more lies between; or what may not have been seen
-- baseline_relative_l2_error: largest error of a baseline's process against float64
-- relative_l2_error: largest error of a candidate's process against float64
-- baseline_relative_max_error: the same by the largest deviation
-- relative_max_error: the same of the candidate
-- baseline_peak_reserved_bytes: most that PyTorch's allocator reserved in a process of the baseline
-- candidate_peak_reserved_bytes: most that it reserved in one of the candidate
-- baseline_roofline_share: the baseline's share of its own precision's roofline, median
-- roofline_share: the candidate's share of its own
-- baseline_layout_conversions: most layout conversions that a step of the baseline launched
-- layout_conversions: most that a step of the candidate launched
-- baseline_layout_conversion_ms: device time that they take the baseline's step, median
-- layout_conversion_ms: device time that they take the candidate's step, median
-- other_kernels: whether the most common choice of kernels is another
with groups as materialized (
    select * from process_groups($axis, $sweep_id)
),

pairs as ( -- noqa: ST03
    select -- noqa: ST06
        $axis || ': ' || b.axis_value || ' → ' || c.axis_value as contrast, -- noqa: RF02
        b, -- noqa: RF02
        c -- noqa: RF02
    from groups as b
    inner join groups as c
        on
            b.task = c.task
            and b.settings = c.settings
            and b.loop_kind = c.loop_kind
            and b.in_turns = c.in_turns
            and b.env_hash = c.env_hash
            and b.software_hash = c.software_hash
            and b.workload_hash is not distinct from c.workload_hash
            and b.axis_value <> c.axis_value
    where
        ($baseline is null or b.axis_value = $baseline) -- noqa: RF02
        and ($candidate is null or c.axis_value = $candidate) -- noqa: RF02
        and (
            coalesce($baseline, $candidate) is not null -- noqa: RF02
            or b.axis_value < c.axis_value
        )
)

select -- noqa: ST06
    * exclude (b, c, cell_order), -- noqa: AM04
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
    if(
        b.kernels_source = c.kernels_source,
        b.kernels_hash <> c.kernels_hash,
        null
    ) as other_kernels,
    b.cell_id as baseline_cell_id,
    c.cell_id,
    c.env_hash,
    c.software_hash,
    c.workload_hash
from unpaired_answers('pairs', $min_effect)
order by
    cell_order, settings, c.software_hash, loop_kind, c.env_hash, c.cell_id, contrast,
    c.workload_hash
