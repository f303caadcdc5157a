-- Where does a setting help, where does it hurt, and where does it make no difference?
-- $worst BIGINT = NULL: only so many rows that fail or hurt, the worst first; all if null
-- $is_over BOOLEAN = NULL: whether the last block ran, so all error is spent; null: as stored
-- terminal: cell, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_in_words,
--     device_ratio, device_verdict, errors, notes
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- One row for each cell and set of other settings; blocks in turns have a row of their own. A ratio
-- is candidate / baseline, the geometric mean over blocks. Its verdict tests it against min_effect;
-- 5% of `helps` and `hurts` may be wrong. A verdict is fails if the candidate failed in more blocks
-- (Fisher's exact test), or if its failures leave no pair. docs/measuring.md says more (What a
-- verdict rests on). With field twin, baseline 0 and candidate 1, a row that helps or hurts is a
-- false alarm. $worst puts failures first, then the rows that hurt most in wall or device time. If
-- the kernels are the same, look for other causes: launch_bound, warnings, the cell's trials.
--
-- by_choice: wall ratio by choice of kernels, if the choices differ by min_effect or more; or how
--     common an unseen choice may be
-- notes: why there is no device ratio, errors of trials that compile or capture, and what splits a
--     compiled model
-- errors: relative L2 errors against float64, blocks with equal bits; only if field is precision
-- baseline_relative_l2_error, candidate_relative_l2_error: the largest over blocks; null: unknown
-- baseline_throttled: blocks in which the GPU slowed down under the baseline
with found as (
    select
        *,
        greatest(
            if(wall_verdict = 'hurts', ratio, null),
            if(device_verdict = 'hurts', device_ratio, null)
        ) as regression,
        if(
            $worst is null, 0,
            rank() over (
                order by
                    wall_verdict = 'fails' desc, candidate_failed desc, coalesce(regression, 0) desc
            )
        ) as worst_place
    from
        contrast_verdicts(
            $field, $baseline, $candidate, $min_effect, $sweep_id, 0, is_over := $is_over
        )
    where $worst is null or wall_verdict = 'fails' or 'hurts' in (wall_verdict, device_verdict)
)

select -- noqa: disable=AL05,AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order),
    found.* exclude (
        regression, worst_place, cell, cell_id, env_hash, software_hash, workload_hash,
        baseline_settings, candidate_settings, at_most, between_looks, recorded_blocks, place,
        launch_bound_trials, launch_bound_known_trials, blocks_alone, fails,
        memory_statistical_verdict
    ),
    not_slower(found.blocks, found.ratio_high, $min_effect) as not_slower, -- whether a gate passes
    paces.block_s,
    columns(['torch', 'cudnn', 'driver']),
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
from found
inner join cell_labels() as labels using (cell_id)
inner join block_paces($sweep_id) as paces using (cell_id)
inner join software_labels() as software using (software_hash)
order by
    found.worst_place, labels.cell_order, found.other_settings, found.software_hash,
    found.loop_kind, found.in_turns, found.cell_id, found.env_hash, found.workload_hash
limit $worst
