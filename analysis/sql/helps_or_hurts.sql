-- Where does a setting help, where does it hurt, and where does it make no difference?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $worst BIGINT = NULL: only so many rows that fail or hurt, the worst first; all where null
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- $is_over BOOLEAN = NULL: no further block comes, so that all error is spent; null: as stored
-- terminal: cell, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_in_words,
--     device_ratio, device_verdict
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell and set of other settings; of blocks in turns and of blocks whose processes ran one
-- after another a row each. A ratio is candidate / baseline, the geometric mean over blocks. Its
-- verdict tests against the minimum effect: 5% of those that help or hurt may be wrong. It reads
-- fails if the candidate failed in more blocks, by Fisher's exact test or so that none is left to
-- compare. docs/measuring.md says more (How many blocks, What a verdict rests on).
-- With field twin, '0' against '1', what helps or hurts is a false alarm: the configs are the same.
-- $worst takes what fails first, then what is slower by a verdict in wall or device time. If the
-- kernels are the same, look for other causes: launch_bound, warnings, the cell's trials.
--
-- other_kernels_share: of blocks whose kernels are known, the share in which the two differ
-- other_kernels_device_ratio: device ratio over these blocks
-- same_kernels_device_ratio: device ratio over those with the same kernels
-- headline: both ratios from the same blocks, if the loop waits for the CPU and the device's
--     verdict is another than the wall's; null otherwise
-- by_choice: wall ratio by what the processes chose, if min_effect or more lies between; or what
--     may not have been seen
-- baseline_throttled: blocks in which the GPU slowed down under the baseline
-- wall_statistical_verdict, device_statistical_verdict: verdict of the statistics alone
-- memory_ratio: candidate's peak of reserved bytes / baseline's, geometric mean over blocks
-- memory_verdict: verdict on it, the searches of the cold start included; helps: less memory
-- baseline_peak_allocated_bytes: most that tensors and workspaces took in a trial of the baseline
-- baseline_workspace_bytes: largest workspace of the plans that the baseline's logs show
-- blocks_with_bits: paired blocks where the bits of both are known
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

select -- noqa: disable=AM04,RF02,ST06
    labels.* exclude (cell_id, cell_order),
    found.* exclude (
        regression, worst_place, cell, cell_id, env_hash, software_hash, workload_hash,
        baseline_settings, candidate_settings, at_most, between_looks, recorded_blocks, place,
        launch_bound_trials, launch_bound_known_trials, blocks_alone, fails,
        memory_statistical_verdict
    ),
    paces.block_s,
    software.torch,
    software.cudnn,
    software.driver,
    found.cell_id,
    found.env_hash,
    found.software_hash,
    found.workload_hash
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
inner join block_paces($sweep_id) as paces -- noqa: RF02
    on found.cell_id = paces.cell_id
inner join software_labels() as software on found.software_hash = software.software_hash
order by
    found.worst_place, labels.cell_order, found.other_settings, found.software_hash,
    found.loop_kind, found.in_turns, found.cell_id, found.env_hash, found.workload_hash
limit $worst
