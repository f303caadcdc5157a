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
-- baseline_roofline_share: the baseline's share of its own precision's roofline, median
-- roofline_share: the candidate's share of its own
-- baseline_layout_conversions: most layout conversions that a step of the baseline launched
-- layout_conversions: most that a step of the candidate launched
-- baseline_layout_conversion_ms: device time that they take the baseline's step, median
-- layout_conversion_ms: device time that they take the candidate's step, median
-- other_kernels: whether each side's processes all made one choice of kernels, and these differ;
--     null where a side's own processes differ and none agrees with one of the other side's
with trials as materialized ( -- noqa: disable=RF01,RF02,RF03,RF04,ST03,ST06,ST07,AM04
    select
        * exclude (in_turns),
        coalesce(in_turns, false) as in_turns,
        not is_doubtful(warnings) as counts,
        concat_ws(
            '|', cell_id, env_hash, software_hash, workload_hash, settings, loop_kind,
            coalesce(in_turns, false)
        ) as group_id
    from configured(null, $sweep_id)
    where status = 'ok' and twin = 0
),

groups as materialized (
    select
        group_id,
        any_value(columns([
            'task', 'axis_value', 'cell_id', 'env_hash', 'software_hash', 'workload_hash',
            'settings', 'loop_kind', 'in_turns'
        ])),
        count(*) filter (where counts) as processes,
        count(*) filter (where not counts) as doubtful_processes,
        min(steady_iterations) filter (where counts) as fewest_steps,
        max(steady_iterations) filter (where counts) as most_steps,
        if(min(steady_device_source) = max(steady_device_source), min(steady_device_source), null)
            as device_source,
        max(greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes)) as peak_reserved_bytes,
        max(columns(['relative_l2_error', 'relative_max_error', 'layout_conversions'])),
        median(layout_conversion_ms) as layout_conversion_ms,
        median(roofline_share) as roofline_share,
        min(kernels_source) as kernels_source,
        list(distinct kernels_hash) filter (where kernels_hash is not null) as kernels
    from trials
    inner join cell_tasks($axis) using (cell_id)
    group by group_id
),

pairs as materialized (
    select
        $axis || ': ' || b.axis_value || ' → ' || c.axis_value as contrast,
        b,
        c,
        concat_ws(' ', b.group_id, c.group_id) as cell,
        coalesce(b.device_source = c.device_source, false) as same_source,
        least(b.fewest_steps, c.fewest_steps) as steps,
        b.loop_kind = 'open' and steps < greatest(b.most_steps, c.most_steps) as is_uneven
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
        ($baseline is null or b.axis_value = $baseline)
        and ($candidate is null or c.axis_value = $candidate)
        and (coalesce($baseline, $candidate) is not null or b.axis_value < c.axis_value)
),

counted as materialized (
    select *
    from trials
    where counts
),

sides as (
    select * from sides_judged('pairs', 'counted', $min_effect)
)

select
    labels.* exclude (cell_id, cell_order),
    pairs.contrast,
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
    sides.* exclude (
        cell, b_processes, c_processes, b_ms, c_ms, b_device_ms, c_device_ms, is_paired, verdict,
        by_choice, b_choice, c_choice
    ),
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
    if(
        b.kernels_source = c.kernels_source,
        chose_otherwise(b.kernels, c.kernels),
        null
    ) as other_kernels,
    b.cell_id as baseline_cell_id,
    c.cell_id,
    c.env_hash,
    c.software_hash,
    c.workload_hash
from pairs
inner join cell_labels() as labels on c.cell_id = labels.cell_id
inner join sides on pairs.cell = sides.cell
order by
    labels.cell_order, c.settings, c.software_hash, c.loop_kind, c.env_hash, c.cell_id, contrast,
    c.workload_hash
