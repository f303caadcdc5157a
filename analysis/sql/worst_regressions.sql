-- Where does a setting hurt most?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $rows BIGINT = 20: how many are listed
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, regression, lost_ms, ratio[ratio_low ratio_high], wall_verdict, device_ratio,
--     device_verdict
-- none: no candidate fails or is slower by a verdict
--
-- A row a cell and set of other settings where the candidate fails or is slower by a verdict of
-- helps_or_hurts, in wall time or in device time, the worst first: those that fail, then by the
-- larger of the two ratios.
-- An open loop that is slower pays for a search at each new shape. Where the kernels are the same
-- ones, look for other causes: launch_bound, warnings, the cell's trials.
--
-- regression: the larger of the ratios whose verdict is hurts
-- lost_ms: wall time per iteration that the candidate loses, of the means
-- other_kernels_share: of the paired blocks whose kernels are known, those with other kernels
-- launch_bound: most of the paired trials waited for the CPU's launches
-- warnings: what was seen in the trials of its paired and doubtful blocks
-- extra_reserved_bytes: the candidate's peak of reserved memory less the baseline's
with found as (
    select * from contrast_verdicts(
        $field, $baseline, $candidate, $min_effect, 1000, 'warm', $sweep_id, 0
    )
),

worse as (
    select
        *,
        greatest(
            if(wall_verdict = 'hurts', ratio, null),
            if(device_verdict = 'hurts', device_ratio, null)
        ) as regression
    from found
)

select -- noqa: ST06
    labels.* exclude (cell_id), -- noqa: AM04, RF02
    worse.contrast,
    worse.other_settings,
    worse.loop_kind,
    worse.in_turns,
    worse.blocks,
    worse.baseline_failed,
    worse.candidate_failed,
    worse.regression,
    worse.candidate_ms - worse.baseline_ms as lost_ms,
    worse.baseline_ms,
    worse.candidate_ms,
    worse.ratio,
    worse.ratio_low,
    worse.ratio_high,
    worse.wall_verdict,
    worse.device_ratio,
    worse.device_ratio_low,
    worse.device_ratio_high,
    worse.device_verdict,
    worse.blocks_with_other_kernels / nullif(worse.blocks_with_kernels, 0) as other_kernels_share,
    worse.launch_bound,
    worse.warnings,
    worse.candidate_peak_reserved_bytes - worse.baseline_peak_reserved_bytes
        as extra_reserved_bytes,
    worse.cell_id,
    worse.env_hash,
    worse.software_hash,
    worse.workload_hash
from worse
inner join cell_labels() as labels on worse.cell_id = labels.cell_id
where worse.regression is not null or worse.wall_verdict = 'fails'
order by
    worse.wall_verdict = 'fails' desc, worse.candidate_failed desc, worse.regression desc,
    worse.cell_id asc, worse.other_settings asc, worse.env_hash asc, worse.software_hash asc,
    worse.workload_hash asc
limit $rows
