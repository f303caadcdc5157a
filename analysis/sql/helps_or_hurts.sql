-- Where does a setting help, where does it hurt, and where does it make no difference?
-- $worst BIGINT = NULL: number of rows to show, only the worst that fail or hurt; null: all rows
-- $is_over BOOLEAN = NULL: whether the sweep is finished and gets no more blocks; null: as stored
-- terminal: cell, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_in_words,
--     device_ratio, device_verdict, errors, notes
-- none: no cell has two configs that differ only in the setting; see `sweep query coverage`
--
-- There is one row for each cell and set of other settings. Blocks in turns have a separate row. A
-- ratio is the candidate's value divided by the baseline's, as a geometric mean over blocks. A
-- verdict tests the ratio against min_effect, and 5% of `helps` and `hurts` may be wrong. The
-- verdict is `fails` if the candidate fails more often than the baseline (Fisher's test).
-- docs/measuring.md (What a verdict rests on) has more about verdicts. With field twin, baseline 0
-- and candidate 1, each `helps` or `hurts` is a false alarm. With $worst, rows that fail come
-- first.
--
-- by_choice: wall ratio of each choice of kernels if they differ by min_effect or more; otherwise,
--     how common an unseen choice may be
-- notes: why there is no device ratio, errors of compiling or capturing, and graph breaks
-- errors: L2 errors against float64 and number of blocks with the same bits, for field precision
-- baseline_relative_l2_error: largest relative L2 error of the baseline against float64
-- baseline_throttled: number of blocks in which the GPU was throttled under the baseline
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
