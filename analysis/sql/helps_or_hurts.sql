-- Where does a setting help, where does it hurt, and where does it make no difference?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $worst BIGINT = NULL: only so many rows that fail or hurt, the worst first; all where null
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- $is_over BOOLEAN = true: no further block comes: a cell spends the rest of its sweep's error
-- terminal: cell, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_in_words,
--     device_ratio, device_verdict
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell and set of other settings; of blocks in turns and of blocks whose processes ran one
-- after another a row each. A ratio is candidate time / baseline time, the geometric mean over
-- blocks, with its 95% interval. Each verdict tests against the minimum effect; 5% of those that
-- help or hurt may be wrong: Benjamini-Hochberg over the rows of one sweep whose setting can have
-- mattered, so what else is stored takes no verdict back. Cells that the same several sweeps
-- measured are corrected for together. A candidate that failed in more blocks than its baseline, by
-- Fisher's exact test or where no block is left to compare, reads fails, whatever the times of the
-- others. Field twin, '0' against '1', compares each config with itself in A/A pairs: what helps or
-- hurts there is a false alarm. `sweep query advice` weighs what a setting costs at the start, too.
--
-- $worst takes the rows whose candidate fails, or is slower by a verdict in wall or device time:
-- first those that fail, then by the larger of the two ratios. An open loop that is slower pays for
-- a search at each new shape. Where the kernels are the same ones, look for other causes:
-- launch_bound, warnings, the cell's trials.
--
-- The memory verdict is on the peak of reserved bytes of the whole trial, the searches of its cold
-- start included: helps means less. Bytes are those of PyTorch's allocator.
--
-- Reproducibility (for $field deterministic, above all), of the processes seen:
--     already       the baseline gave the same bits always
--     gained        it did not, the candidate does
--     not gained    neither does
--     lost          the baseline did, the candidate does not
-- and null where one of them has less than two processes whose bits are known. Results are the bits
-- of one step's outputs and gradients from equal inputs; a process repeats its own where a second
-- run gave the same bits.
--
-- Inconclusive is what had the blocks of a look, three at least. A cell with fewer, or between two
-- looks (docs/measuring.md, How many blocks), is so_far_faster or so_far_slower where its interval
-- lies beyond the minimum effect, else undecided. Without a block that counts it is not_measured.
-- At a look the verdict is tested, and the interval drawn, at that look's share of 5%.
--
-- Few blocks tell their scatter badly: where processes took turns one degree of freedom is added of
-- what blocks scatter by elsewhere, 0.3%, and 1% in the wall time of loops that wait for the CPU;
-- more where a block's own rounds scatter more. Not in open loops, nor where the cell's choices lie
-- 3% apart.
--
-- Blocks of GPUs of one model count as if they were of one GPU. Where the loop waits for the CPU,
-- launches and hosts are not alike: what differs between them is part of the interval of wall time,
-- and 0.8% of it is taken for granted. Two launches tell little of that, so the interval is wide.
-- Blocks of one launch on one host have an interval that holds for these. $sweep_id asks one sweep;
-- `sweep compare` sets two models side by side.
--
-- blocks_needed takes the mean and scatter of the blocks so far for the true ones, and the level
-- that Benjamini-Hochberg leaves one more row; on made-up sweeps of 5 blocks so many more decide in
-- two thirds of cells that scatter by 10%, in nine tenths of those by 3%.
--
-- Processes of one config may choose different kernels. Where a cell's blocks show several choices,
-- its intervals are those of a mixture: times by choice, whose shares are not known (Clopper and
-- Pearson). Where they show one, but single processes of other cells with these settings chose
-- otherwise, an interval reaches as far as a choice that was not seen may take it.
--
-- other_kernels_share: share of the blocks in which the two launched other convolution kernels, of
--     those whose kernels are known of both; `sweep query choice_stability` names kernels
-- other_kernels_device_ratio: device ratio over the blocks with other kernels
-- same_kernels_device_ratio: device ratio over those with the same ones
-- headline: both ratios from the same blocks, where the loop waits for the CPU and the device's
--     verdict is another than the wall's; null otherwise
-- by_choice: wall ratio by what the processes chose, where min_effect or more lies between; or what
--     may not have been seen
-- error_share: share of the error that the verdict may spend; 1 where blocks are a fixed number
-- blocks_needed: blocks lacking to decide, or up to three that tell how many; null above 1,000
-- block_s: how long one of its blocks takes, seconds
-- launch_bound: most of the paired trials waited for the CPU's launches
-- warnings: what was seen in the trials of its paired and doubtful blocks
-- baseline_throttled: blocks in which the GPU slowed down under the baseline
-- wall_statistical_verdict: what the statistics say of wall time, where a no_effect is shown too
-- device_statistical_verdict: what they say of device time
-- baseline_peak_reserved_bytes: most that PyTorch's allocator reserved in a trial of the baseline
-- memory_ratio: candidate's peak / baseline's, geometric mean over blocks
-- memory_verdict: verdict on it
-- baseline_steady_reserved_bytes: most that was reserved while the baseline's loop was timed
-- baseline_peak_allocated_bytes: most that tensors and workspaces took in a trial of the baseline
-- baseline_workspace_bytes: largest workspace of the plans that the baseline's logs show
-- reproducibility: what the candidate changes of it: already, gained, not gained or lost
-- baseline_results: different results of the baseline's processes
-- blocks_with_bits: paired blocks where the bits of both are known
-- blocks_with_same_bits: those where both gave the same
-- distinct_shapes: most distinct shapes met before timing
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
