-- Should a setting be on or off for a job of so many steps, what does it save, and how sure?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $steps BIGINT = 10000: steps that the job makes in one process
-- $hours DOUBLE = NULL: instead, as many steps as the baseline makes in so many hours
-- $state TEXT = 'container': container or warm: whether CUDA's compute cache is empty at each start
-- $runs BIGINT = 1: the interval holds the ratio of the mean times of so many runs of each setting
-- $memory_limit_gib DOUBLE = NULL: what needs more does not fit; null: the GPU's memory
-- $difference DOUBLE = 0.02: a smaller relative difference of the whole time is none
-- $width DOUBLE = 0.1: decided advice is settled if the interval is no wider than +- this
-- $is_over BOOLEAN = NULL: no further block comes, so that all error is spent; null: as stored
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, start, advice, why, saved_s,
--     ratio[mean_ratio_low mean_ratio_high], break_even_steps
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- Two rows a cell: the start that $state asks for, then the other one. A job's time is that of its
-- process after imports and building the model: start, first call of each shape, other steps. How
-- each part enters, and what the intervals hold, is in docs/your-model.md (What the answer rests
-- on). Advice, by the interval of the mean ratio at this look's share of the error:
--     on, off        the value to use: that interval excludes 1
--     no difference  its 90% interval is within $difference of 1, or the setting cannot matter
--     does not fit   the candidate runs out of memory, or beyond $memory_limit_gib
--     fails          a config ends otherwise, in more blocks than the other (Fisher's exact test)
--     undecided      why says what is lacking
--
-- start: container (the compute cache is empty) or warm
-- asked: whether that is $state's
-- advice: on, off, no difference, does not fit, fails or undecided
-- setting: the value to use; the baseline's if it makes no difference or is not decided
-- settled: whether the advice is decided and its interval narrow, so that measuring may stop
-- why: in a short phrase
-- power_capped: most of its blocks met the GPU's power limit
-- sure: probability that the faster setting is the faster one in the long run, by Student's t
-- job_steps: steps of the job
-- first_calls: how many of them are the first with their shape
-- shapes_met: distinct shapes that trials called cold
-- new_shape_ms: extra cost of a first call after the first one, under the candidate
-- baseline_s: time of the job under the baseline
-- saved_s: what the candidate saves; negative: what it costs
-- ratio: time of the job under the candidate / under the baseline
-- ratio_low: lower end of its 95% interval, for $runs runs of each
-- mean_ratio_low: lower end of the 95% interval of the ratio of expected times
-- step_ratio: time per step under the candidate / under the baseline
-- extra_start_s: how much longer the candidate takes to start
-- break_even_steps: steps after which both took as long; null where there are none
-- break_even_low, break_even_high: 95% interval of the break-even point; null where unknown
-- baseline_cache_saves_s: what the baseline's start saves with a warm cache (CUDA_CACHE_PATH)
-- start_blocks: paired blocks that met the compute cache in this state
-- blocks_needed: further blocks that would decide in four of five cases
-- minutes_needed: how long they take
-- baseline_first_bytes: most that was reserved in a trial of the baseline: at first calls, or later
-- baseline_out_of_memory: trials of the baseline that ran out of memory
-- candidate_varies_in: outputs and gradients in which processes of the candidate differ
select -- noqa: disable=AM04,RF02,ST06
    labels.* exclude (cell_id, cell_order),
    $field || ': ' || $baseline || ' → ' || $candidate as contrast,
    columns([
        'other_settings', 'loop_kind', 'in_turns', 'launch_bound', 'power_capped', 'start', 'asked'
    ]),
    jobs.advice,
    jobs.setting,
    jobs.settled,
    jobs.why,
    jobs.sure,
    columns(['job_steps', 'first_calls', 'shapes_met', 'new_shape_ms']),
    jobs.whole_baseline_ms / 1000 as baseline_s,
    jobs.whole_candidate_ms / 1000 as candidate_s,
    baseline_s - candidate_s as saved_s,
    baseline_s * (1 - jobs.ratio_high) as saved_s_low,
    baseline_s * (1 - jobs.ratio_low) as saved_s_high,
    exp(jobs.log) as ratio,
    columns([
        'ratio_low', 'ratio_high', 'mean_ratio_low', 'mean_ratio_high', 'baseline_ms',
        'candidate_ms'
    ]),
    exp(jobs.step_log) as step_ratio,
    jobs.step_ratio_low,
    jobs.step_ratio_high,
    jobs.extra_start_ms / 1000 as extra_start_s,
    (jobs.extra_start_ms - jobs.extra_margin_ms) / 1000 as extra_start_s_low,
    (jobs.extra_start_ms + jobs.extra_margin_ms) / 1000 as extra_start_s_high,
    jobs.break_even_steps,
    jobs.break_even_low,
    jobs.break_even_high,
    jobs.baseline_cache_ms / 1000 as baseline_cache_saves_s,
    jobs.candidate_cache_ms / 1000 as candidate_cache_saves_s,
    columns(['blocks', 'recorded_blocks', 'at_most', 'block_s', 'start_blocks']),
    if(jobs.advice = 'undecided', jobs.lacking, null) as blocks_needed,
    blocks_needed * jobs.block_s / 60 as minutes_needed,
    columns([
        'error_share', 'baseline_failed', 'candidate_failed', 'baseline_out_of_memory',
        'candidate_out_of_memory', 'baseline_first_bytes', 'candidate_first_bytes',
        'baseline_steady_reserved_bytes', 'candidate_steady_reserved_bytes', 'baseline_results',
        'candidate_results', 'blocks_with_same_bits', 'candidate_varies_in', 'no_effect_reason'
    ]),
    jobs.cell_id,
    jobs.env_hash,
    jobs.software_hash,
    jobs.workload_hash
from
    jobs_weighed(
        $field, $baseline, $candidate, $steps, $hours, $state, $runs, $memory_limit_gib,
        $difference, $width, $sweep_id, $is_over
    ) as jobs
inner join cell_labels() as labels on jobs.cell_id = labels.cell_id
order by
    labels.cell_order, jobs.other_settings, jobs.software_hash, jobs.loop_kind, jobs.in_turns,
    jobs.cell_id, jobs.env_hash, jobs.workload_hash, not jobs.asked
