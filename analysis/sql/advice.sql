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
-- $is_over BOOLEAN = true: no further block comes: the last look spends the rest of the error
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, start, advice, why, saved_s,
--     ratio[mean_ratio_low mean_ratio_high], break_even_steps
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- Two rows a cell: the start that $state asks for, then the other one. A job's time is what its
-- process takes after imports and building the model:
--
--     start, with the first call of each shape + steps at other times × time per step
--
-- The start is the one-time cost (CUDA's context, libraries) and the first calls. The candidate
-- pays for a search in its one-time cost too, of an unrelated convolution, and compiles kernels
-- for it. A job may need them anyway or not: half of that difference is taken, and the interval
-- reaches to either end (uniform).
--
-- How many first calls there are: of a closed loop one a shape. Of shapes from a file as many as
-- so many draws in proportion to the counts meet on average; shapes that were not met are taken to
-- cost the mean of those that were met after the first. Of other open loops every step has a new
-- shape, and the time per step includes its search.
--
-- The interval is a prediction: 95% of jobs that run $runs times each way have their ratio in it.
-- It holds what the mean is not known by (mean_ratio_low to mean_ratio_high: paired by block,
-- processes of one config may choose different kernels, as in helps_or_hurts) and how much one
-- process differs from another, unpaired. Relative scatter of starts is taken to be the same with
-- an empty and a warm cache. Where the loop waits for the CPU the ratio may lie anywhere between
-- the measured one and 1, as a job's CPUs may be slower than one with no other work; the interval
-- has that as a uniform part.
-- At the GPU's power limit both configs share a clock in turns, and alone each has its own: the
-- effect on a step may be half as large, or half as large again, which is uniform too. Scatter of
-- starts is moderated by what starts scatter by elsewhere: 11%, as if by three more degrees of
-- freedom. That of steps is too, as if by one: the ratio of a block by 0.3%, by 1% where the loop
-- waits for the CPU, by 11% where each step has a new size; a process's time by 0.3%, 5% and 8%. So
-- one block is enough where the settings differ much.
--
-- Advice, by the interval of the mean ratio; a sweep with several looks spends a share of the error
-- at each, and what is left at the last one, of two blocks or more ($is_over):
--     on, off        the value to use: that interval excludes 1
--     no difference  its 90% interval is within $difference of 1, or the setting cannot matter
--     does not fit   the candidate runs out of memory, or beyond $memory_limit_gib
--     fails          a config ends otherwise, in more blocks than the other (Fisher's exact test)
--     undecided      why says what is lacking
--
-- Of a job that takes so many steps of each of a workload's input shapes, add the rows up, as if
-- the cells were independent of each other:
--     select workload, problem, direction, regime, precision, layout, gpu, other_settings,
--         count(*) as shapes, sum(baseline_s) as baseline_s, sum(saved_s) as all_saved_s,
--         sqrt(sum(((saved_s_high - saved_s_low) / 2) ** 2)) as margin_s
--     from advice() where asked group by all
--
-- start: container (the compute cache is empty) or warm
-- asked: whether that is $state's
-- advice: what to do: on, off, no difference, does not fit, fails or undecided
-- setting: the value to use; the baseline's where it makes no difference or is not decided
-- settled: whether the advice is decided and its interval narrow, so that measuring may stop
-- why: in a short phrase
-- error_share: share of the error that this look may spend; 1 where blocks are a fixed number
-- power_capped: most of its blocks met the GPU's power limit
-- launch_bound: most of its loops waited for the CPU
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
-- break_even_low: lower end of its 95% interval; null where unknown
-- break_even_high: upper end of its 95% interval; null where unknown
-- baseline_cache_saves_s: what the baseline's start saves with a warm cache (CUDA_CACHE_PATH)
-- recorded_blocks: blocks of which both trials are recorded, whether they count or not
-- at_most: blocks that the sweep may ask for; null where their number was fixed
-- block_s: how long one of its blocks takes, seconds
-- start_blocks: paired blocks that met the compute cache in this state
-- blocks_needed: further blocks that would decide in four of five cases
-- minutes_needed: how long they take
-- baseline_first_bytes: most that was reserved in a trial of the baseline: at first calls, or later
-- baseline_steady_reserved_bytes: most that was reserved while the baseline's loop was timed
-- baseline_out_of_memory: trials of the baseline that ran out of memory
-- blocks_with_same_bits: blocks in which both configs computed the same bits
-- baseline_results: different results of the baseline's processes, from equal inputs and weights
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
