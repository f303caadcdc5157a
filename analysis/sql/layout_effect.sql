-- Is another memory layout faster, and does it save layout conversions?
-- $baseline TEXT = 'contiguous': the layout that is compared with
-- $candidate TEXT = 'channels_last': the other layout
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, config, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_verdict,
--     device_verdict
-- none: no cell was measured in both layouts
--
-- A row a cell of the candidate and config. Two layouts are two cells, whose processes ran in
-- different blocks: nothing pairs them. A ratio is that of the geometric means over processes; its
-- 95% interval and the test against the minimum effect are Welch's, on the logarithms of the
-- processes' medians, degrees of freedom rounded down; 5% of the verdicts that help or hurt may be
-- wrong (Benjamini-Hochberg over the rows). Drift between blocks is in the intervals only as far as
-- processes show it.
--
-- by_choice: of each side what its processes chose, as times over its usual one, where min_effect
--     or more lies between; or what may not have been seen
-- layout: that of the candidate
-- baseline_layout_conversions: most layout conversions that a step of the baseline launched
-- layout_conversions: most that a step of the candidate launched
-- baseline_layout_conversion_ms: device time that they take the baseline's step, median
-- layout_conversion_ms: device time that they take the candidate's step, median
-- other_kernels: whether the most common choice of kernels is another
with groups as materialized (
    select * from process_groups($sweep_id)
),

pairs as ( -- noqa: ST03
    select -- noqa: ST06
        'layout: ' || b.layout || ' → ' || c.layout as contrast,
        b, -- noqa: RF02
        c -- noqa: RF02
    from groups as b
    inner join groups as c
        on
            b.task = c.task
            and b.settings = c.settings
            and b.loop_kind = c.loop_kind
            and b.in_turns = c.in_turns
            and b.precision = c.precision
            and b.env_hash = c.env_hash
            and b.software_hash = c.software_hash
            and b.workload_hash is not distinct from c.workload_hash
    where b.layout = $baseline and c.layout = $candidate -- noqa: RF02
)

select -- noqa: ST06
    * exclude (b, c), -- noqa: AM04
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
    gpu, workload, problem, direction, input_shape,
    regime, state, precision, layout,
    settings, c.software_hash, loop_kind, c.env_hash,
    c.cell_id, b.precision, b.layout,
    c.workload_hash
