-- Should a setting be on or off for a job of a given length, and how much time does it save?
-- $steps BIGINT = 10000: number of steps that the job makes in one process
-- $hours DOUBLE = NULL: hours that the job takes with the baseline; if given, $steps is ignored
-- $state TEXT = 'container': state of the compute cache at each start: container (empty) or warm
-- $runs BIGINT = 1: number of runs of each setting; the ratio compares their mean times
-- $memory_limit_gib DOUBLE = NULL: most memory that a config may need, GiB; null: the GPU's memory
-- $difference DOUBLE = 0.02: smallest relative difference of the job's time that counts
-- $width DOUBLE = 0.1: relative half-width at which an interval is narrow enough to stop measuring
-- $is_over BOOLEAN = NULL: whether the sweep is finished and gets no more blocks; null: as stored
-- terminal: cell, start, advice, why, saved_s,
--     ratio[mean_ratio_low mean_ratio_high], break_even_steps
-- none: no cell has two configs that differ only in the setting; see `sweep query coverage`
--
-- Each cell has two rows: one for the start in $state, and one for the other start. The time of a
-- job does not include importing and building the model. docs/your-model.md (What the answer rests
-- on) explains times and intervals. The words of `advice` mean:
--     on or off      the interval of the mean ratio excludes 1
--     no difference  its 90% interval is within $difference of 1, or the setting can have no effect
--     does not fit   the candidate runs out of memory, or needs more than $memory_limit_gib
--     fails          one config fails in more blocks than the other (Fisher's test)
select -- noqa: disable=AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order),
    $field || ': ' || $baseline || ' → ' || $candidate as contrast,
    columns(['other_settings', 'loop_kind', 'in_turns', 'launch_bound']),
    jobs.power_capped, -- whether most blocks reached the GPU's power limit
    jobs.start, -- container (the compute cache is empty) or warm
    jobs.asked, -- whether `start` is $state
    jobs.advice, -- on, off, no difference, does not fit, fails or undecided
    jobs.setting, -- recommended value; the baseline's if it makes no difference or is undecided
    jobs.settled, -- whether advice is decided and its interval is narrow enough to stop measuring
    jobs.why, -- reason for the advice
    jobs.sure, -- probability that the setting with the shorter time is truly faster
    jobs.job_steps, -- number of steps of the job
    jobs.first_calls, -- number of steps of the job that are the first with their shape
    jobs.shapes_met, -- largest number of distinct shapes that both trials of a block met
    jobs.new_shape_ms, -- extra time of each further shape's first call under the candidate
    jobs.whole_baseline_ms / 1000 as baseline_s, -- time of the job under the baseline
    jobs.whole_candidate_ms / 1000 as candidate_s,
    baseline_s - candidate_s as saved_s, -- time that the candidate saves; negative if it costs time
    baseline_s * (1 - jobs.ratio_high) as saved_s_low,
    baseline_s * (1 - jobs.ratio_low) as saved_s_high,
    exp(jobs.log) as ratio, -- job's time under the candidate, divided by that under the baseline
    jobs.ratio_low, -- lower end of the ratio's 95% interval, for $runs runs of each setting
    jobs.ratio_high,
    jobs.mean_ratio_low, -- lower end of the 95% interval of the ratio of expected times
    columns(['mean_ratio_high', 'baseline_ms', 'candidate_ms']),
    exp(jobs.step_log) as step_ratio, -- candidate's time per step, divided by the baseline's
    columns(['step_ratio_low', 'step_ratio_high']),
    jobs.extra_start_ms / 1000 as extra_start_s, -- extra time that the candidate takes to start
    (jobs.extra_start_ms - jobs.extra_margin_ms) / 1000 as extra_start_s_low,
    (jobs.extra_start_ms + jobs.extra_margin_ms) / 1000 as extra_start_s_high,
    jobs.break_even_steps, -- number of steps after which both took the same time; null if none
    columns(['break_even_low', 'break_even_high']),
    jobs.baseline_cache_ms / 1000 as baseline_cache_saves_s, -- time saved by a warm cache at start
    jobs.candidate_cache_ms / 1000 as candidate_cache_saves_s,
    columns(['blocks', 'recorded_blocks', 'at_most', 'block_s']),
    jobs.start_blocks, -- number of paired blocks with this state of the compute cache
    if(jobs.advice = 'undecided', jobs.lacking, null) as blocks_needed,
    blocks_needed * jobs.block_s / 60 as minutes_needed, -- time that blocks_needed take
    columns(['error_share', 'baseline_failed', 'candidate_failed']),
    jobs.baseline_out_of_memory, -- number of the baseline's trials that ran out of memory
    jobs.candidate_out_of_memory,
    jobs.baseline_first_bytes, -- peak memory that a trial of the baseline reserved
    columns([
        'candidate_first_bytes', 'baseline_steady_reserved_bytes',
        'candidate_steady_reserved_bytes', 'baseline_results', 'candidate_results',
        'blocks_with_same_bits'
    ]),
    jobs.candidate_varies_in, -- outputs and gradients that differ between the candidate's processes
    jobs.no_effect_reason,
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
from
    jobs_weighed(
        $field, $baseline, $candidate, [$steps], $hours, $state, $runs, $memory_limit_gib,
        $difference, $width, $sweep_id, $is_over
    ) as jobs
inner join cell_labels() as labels using (cell_id)
order by
    labels.cell_order, jobs.other_settings, jobs.software_hash, jobs.loop_kind, jobs.in_turns,
    jobs.cell_id, jobs.env_hash, jobs.workload_hash, not jobs.asked
