-- Should a setting be on or off for a job of so many steps, what does it save, and how sure?
-- $steps BIGINT = 10000: steps that the job makes in one process
-- $hours DOUBLE = NULL: instead, as many steps as the baseline makes in so many hours
-- $state TEXT = 'container': container or warm: whether CUDA's compute cache is empty at each start
-- $runs BIGINT = 1: runs of each setting; the interval is that of the ratio of their mean times
-- $memory_limit_gib DOUBLE = NULL: a config that needs more does not fit; null: the GPU's memory
-- $difference DOUBLE = 0.02: smaller relative differences of the whole time count as none
-- $width DOUBLE = 0.1: decided advice is settled if the interval is no wider than +- this
-- $is_over BOOLEAN = NULL: whether the last block ran, so all error is spent; null: as stored
-- terminal: cell, start, advice, why, saved_s,
--     ratio[mean_ratio_low mean_ratio_high], break_even_steps
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- Two rows for each cell: first the start in $state, then the other start. A job's time begins
-- after imports and building the model; docs/your-model.md (What the answer rests on) has its parts
-- and intervals. Advice follows the interval of the mean ratio at this look's share of the error:
-- on or off if it excludes 1; no difference if its 90% interval is within $difference of 1, or the
-- setting cannot matter; does not fit if the candidate runs out of memory or needs more than
-- $memory_limit_gib; fails if one config fails in other ways in more blocks (Fisher's exact test).
select -- noqa: disable=AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order),
    $field || ': ' || $baseline || ' → ' || $candidate as contrast,
    columns(['other_settings', 'loop_kind', 'in_turns', 'launch_bound']),
    jobs.power_capped, -- most of its blocks met the GPU's power limit
    jobs.start, -- container (the compute cache is empty) or warm
    jobs.asked, -- whether `start` is $state
    jobs.advice, -- on, off, no difference, does not fit, fails or undecided
    jobs.setting, -- the value to use; the baseline's if it makes no difference or is not decided
    jobs.settled, -- whether advice is decided and the interval narrow: measuring may stop
    jobs.why, -- reason, in a short phrase
    jobs.sure, -- probability, by Student's t, that the setting faster here is truly faster
    jobs.job_steps, -- steps of the job
    jobs.first_calls, -- steps of the job that are the first with their shape
    jobs.shapes_met, -- largest number of distinct shapes that both trials of a block met
    jobs.new_shape_ms, -- extra cost of each further shape's first call under the candidate
    jobs.whole_baseline_ms / 1000 as baseline_s, -- time of the job under the baseline
    jobs.whole_candidate_ms / 1000 as candidate_s,
    baseline_s - candidate_s as saved_s, -- what the candidate saves; negative: what it costs
    baseline_s * (1 - jobs.ratio_high) as saved_s_low,
    baseline_s * (1 - jobs.ratio_low) as saved_s_high,
    exp(jobs.log) as ratio, -- time of the job under the candidate / under the baseline
    jobs.ratio_low, -- lower end of its 95% interval, for $runs runs of each setting
    jobs.ratio_high,
    jobs.mean_ratio_low, -- lower end of the 95% interval of the ratio of expected times
    columns(['mean_ratio_high', 'baseline_ms', 'candidate_ms']),
    exp(jobs.step_log) as step_ratio, -- time per step under the candidate / under the baseline
    columns(['step_ratio_low', 'step_ratio_high']),
    jobs.extra_start_ms / 1000 as extra_start_s, -- how much longer the candidate takes to start
    (jobs.extra_start_ms - jobs.extra_margin_ms) / 1000 as extra_start_s_low,
    (jobs.extra_start_ms + jobs.extra_margin_ms) / 1000 as extra_start_s_high,
    jobs.break_even_steps, -- steps after which both have taken equally long; null if none
    columns(['break_even_low', 'break_even_high']),
    jobs.baseline_cache_ms / 1000 as baseline_cache_saves_s, -- start time that a warm cache saves
    jobs.candidate_cache_ms / 1000 as candidate_cache_saves_s,
    columns(['blocks', 'recorded_blocks', 'at_most', 'block_s']),
    jobs.start_blocks, -- paired blocks that met the compute cache in this state
    if(jobs.advice = 'undecided', jobs.lacking, null) as blocks_needed,
    blocks_needed * jobs.block_s / 60 as minutes_needed, -- how long blocks_needed take
    columns(['error_share', 'baseline_failed', 'candidate_failed']),
    jobs.baseline_out_of_memory, -- trials of the baseline that ran out of memory
    jobs.candidate_out_of_memory,
    jobs.baseline_first_bytes, -- most memory reserved in a trial of the baseline at any time
    columns([
        'candidate_first_bytes', 'baseline_steady_reserved_bytes',
        'candidate_steady_reserved_bytes', 'baseline_results', 'candidate_results',
        'blocks_with_same_bits'
    ]),
    jobs.candidate_varies_in, -- outputs and gradients in which candidate processes differ
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
