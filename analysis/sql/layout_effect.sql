-- Is another memory layout faster, and does it save layout conversions?
-- $baseline TEXT = 'contiguous': the layout that is compared with
-- $candidate TEXT = 'channels_last': the other layout
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep; all where null
--
-- A row a cell of the candidate and config. Two layouts are two cells, whose processes ran in
-- different blocks: nothing pairs them. A ratio is that of the geometric means over processes; its
-- 95% interval and the test against the minimum effect are Welch's, on the logarithms of the
-- processes' medians, degrees of freedom rounded down; 5% of the verdicts that help or hurt may be
-- wrong (Benjamini-Hochberg over the rows). Drift between blocks is in the intervals only as far as
-- processes show it.
--
-- layout: that of the candidate
-- baseline_layout_conversions: most layout conversions that a step of the baseline launched
-- layout_conversions: most that a step of the candidate launched
-- baseline_layout_conversion_ms: device time that they take the baseline's step, median
-- layout_conversion_ms: device time that they take the candidate's step, median
-- other_kernels: whether the most common choice of kernels is another
with groups as materialized (
    select * from process_groups($sweep_id)
),

baselines as (
    select * from groups
    where layout = $baseline
),

candidates as (
    select * from groups
    where layout = $candidate
),

pairs as ( -- noqa: ST03
    select -- noqa: ST06
        'layout: ' || b.layout || ' → ' || c.layout as contrast,
        b, -- noqa: RF02
        c -- noqa: RF02
    from baselines as b
    inner join candidates as c
        on
            b.task = c.task
            and b.settings = c.settings
            and b.loop_kind = c.loop_kind
            and b.precision = c.precision
            and b.env_hash = c.env_hash
            and b.software_hash = c.software_hash
),

found as (
    select * from unpaired_verdicts('pairs', $min_effect)
)

select -- noqa: ST06
    labels.workload,
    labels.problem,
    labels.direction,
    labels.input_shape,
    labels.regime,
    labels.state,
    labels.precision,
    labels.layout,
    labels.gpu,
    found.contrast,
    found.c.settings,
    found.c.loop_kind,
    found.baseline_processes,
    found.candidate_processes,
    found.doubtful_processes,
    found.baseline_ms,
    found.candidate_ms,
    found.ratio,
    found.ratio_low,
    found.ratio_high,
    found.wall_verdict,
    found.baseline_device_ms,
    found.candidate_device_ms,
    found.device_ratio,
    found.device_ratio_low,
    found.device_ratio_high,
    found.device_verdict,
    found.b.layout_conversions as baseline_layout_conversions,
    found.c.layout_conversions,
    found.b.layout_conversion_ms as baseline_layout_conversion_ms,
    found.c.layout_conversion_ms,
    if(
        found.b.kernels_source = found.c.kernels_source,
        found.b.kernels_hash <> found.c.kernels_hash,
        null
    ) as other_kernels,
    found.b.cell_id as baseline_cell_id,
    found.c.cell_id,
    found.c.env_hash,
    found.c.software_hash
from found
inner join cell_labels() as labels on found.c.cell_id = labels.cell_id
order by
    labels.gpu, labels.workload, labels.problem, labels.direction, labels.input_shape,
    labels.regime, labels.state, labels.precision, labels.layout,
    found.c.settings, found.c.software_hash, found.c.loop_kind, found.c.env_hash,
    found.c.cell_id, found.b.precision, found.b.layout
