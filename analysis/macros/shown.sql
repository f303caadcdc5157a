-- Macros for verdicts in words, and for the reason if a setting can have no effect.

-- Return why a setting cannot have had an effect. Return null if it could, or if this is unknown.
-- `convolved` is true if cuDNN ran convolutions, and `others` if it ran other operations.
-- `searched` is true if cuDNN's log shows a search, and `miopen` if MIOpen ran convolutions.
create or replace macro no_effect_reason(
    flag, device, benchmark, convolutions, convolved, others, searched, miopen
) as case
    when flag in ('twin', 'code', 'layout', 'precision', 'execution', 'race', 'usual') then null
    when device = 'cpu' then 'no_cuda'
    when not read_by_cudnn(flag) then null
    when miopen then 'miopen'
    when flag = 'benchmark_limit' and not benchmark then 'flag_not_consulted'
    -- A search ignores heuristic_mode_b.
    when flag = 'heuristic_mode_b' and benchmark then 'flag_not_consulted'
    when flag in ('benchmark', 'benchmark_limit') and searched then null
    when flag in ('benchmark', 'benchmark_limit') and convolved and not searched
        then 'flag_not_consulted'
    when coalesce(convolved, true) then null
    when others then if(flag in ('enabled', 'deterministic'), null, 'flag_not_consulted')
    when not others then 'not_cudnn'
    -- From here on, it is unknown whether cuDNN ran other operations.
    when flag = 'enabled' then null
    when convolutions > 0 then 'not_cudnn'
    when flag in ('benchmark', 'benchmark_limit') then 'flag_not_consulted'
end;

create or replace macro shown(reason, verdict) as
    if(reason is null or verdict is null, verdict, 'no_effect');

-- Return 'fails' if the candidate fails more often than the baseline, else the result of `shown`.
create or replace macro shown_unless_it_fails(reason, fails, verdict) as
    if(fails and reason is null and verdict is not null, 'fails', shown(reason, verdict));

create or replace macro is_decided(verdict) as
    verdict in ('helps', 'hurts', 'equivalent', 'fails', 'no_effect');

-- Return whether a gate passes, which means that any slowdown is below the minimum effect. Fewer
-- than 5% of gates with a larger slowdown pass.
create or replace macro not_slower(blocks, ratio_high, min_effect) as
    blocks > 1 and ratio_high < 1 + min_effect;

-- Return 'undecided' instead of 'inconclusive' before three blocks and between interim analyses.
create or replace macro so_far(verdict, looked) as
    if(verdict = 'inconclusive' and not looked, 'undecided', verdict);

-- Return a verdict as text. `cell` is a row of `contrast_verdicts`.
create or replace macro in_words(verdict, cell) as case
    when verdict in ('so_far_faster', 'so_far_slower', 'undecided')
        then format(
            '{} ({} block{})',
            replace(replace(verdict, 'undecided', 'not decided yet'), '_', ' '),
            cell.blocks, if(cell.blocks = 1, '', 's')
        )
    when verdict = 'not_measured'
        then 'not measured: ' || case
            when cell.doubtful_blocks = 0 and cell.baseline_failed + cell.candidate_failed > 0
                then 'failed'
            when cell.doubtful_blocks = 0 then 'no complete block'
            when cell.baseline_throttled + cell.candidate_throttled > 0 then 'throttled'
            else 'shared GPU'
        end
    when verdict = 'no_effect' then format('no_effect ({})', cell.no_effect_reason)
    when verdict = 'fails'
        then format('fails ({} of {})', cell.candidate_failed, cell.blocks + cell.unpaired_blocks)
    when cell.candidate_failed > 0
        then format(
            '{} (failed {} of {})', verdict, cell.candidate_failed,
            cell.blocks + cell.unpaired_blocks
        )
    when verdict in ('equivalent', 'inconclusive') and cell.surely is not null
        then format('{} ({:.2g}% {})', verdict, 100 * abs(cell.ratio - 1), cell.surely)
    else verdict
end;

-- Return the reason for the advice on a job. `job` is a row of `jobs_weighed` without `why`.
create or replace macro why_advised(job, difference) as case
    when job.no_effect_reason = 'no_cuda' then 'there is no GPU'
    when job.no_effect_reason = 'not_cudnn' then 'the job runs nothing in cuDNN'
    when job.no_effect_reason = 'miopen'
        then 'on ROCm it is a setting of MIOpen, which is not judged'
    when job.no_effect_reason is not null then 'no operation of the job reads this setting'
    when job.both_over_limit then 'both need more memory than the limit'
    when job.over_limit
        then format(
            '{} needs {:.2f} GiB at its first steps, {} {:.2f} GiB', job.to_candidate,
            job.candidate_first_bytes / 1073741824, job.to_baseline,
            job.baseline_first_bytes / 1073741824
        )
    when job.advice = 'does not fit' and job.baseline_out_of_memory > 0
        then 'both run out of memory'
    when job.advice = 'does not fit'
        then format(
            '{} runs out of memory in {} of {} blocks', job.to_candidate,
            job.candidate_out_of_memory, job.planned
        )
    when job.advice = 'fails'
        then format(
            '{} fails in {} of {} blocks, {} in {}', job.to_candidate, job.candidate_failed,
            job.planned, job.to_baseline, job.baseline_failed
        )
    when job.loop_kind = 'mixed' then 'one loop was open, the other closed'
    when job.blocks < 1 then 'no block has both settings'
    when job.start_blocks = 0 then format('no process started in this state: {}', job.start)
    when job.own_low is null then 'too few starts to estimate their scatter'
    when
        job.advice = 'no difference'
        and abs(job.candidate_first_bytes - job.baseline_first_bytes) >= 0.05 * job.gpu_memory_bytes
        then format(
            'no difference in time, {} takes {:.1f} GiB {} memory', job.to_candidate,
            abs(job.candidate_first_bytes - job.baseline_first_bytes) / 1073741824,
            if(job.candidate_first_bytes > job.baseline_first_bytes, 'more', 'less')
        )
    when job.advice = 'no difference'
        then format('the difference is below {:.3g}%', 100 * difference)
    when job.advice = 'undecided' and job.lacking is null
        then format('too few blocks, or a difference too close to {:.3g}%', 100 * difference)
    when job.advice = 'undecided'
        then format('about {} more block{} would decide', job.lacking, if(job.lacking = 1, '', 's'))
    when
        job.advice = job.to_baseline
        and (
            abs(job.step_log) < job.least
            or job.step_log > 0
            and job.extra_start_ms > job.others * job.baseline_ms * (exp(job.step_log) - 1)
        )
        then format('starting takes {:.2g} s longer', job.extra_start_ms / 1000)
    when (job.advice = job.to_candidate) = (job.step_log < 0) and exp(job.step_log) >= 2
        then format('steps take {:.3g} times as long', exp(job.step_log))
    when (job.advice = job.to_candidate) = (job.step_log < 0)
        then format(
            'steps take {:.1f}% {}', 100 * abs(exp(job.step_log) - 1),
            if(job.step_log < 0, 'less', 'more')
        )
    else format('{} steps do not pay for the longer start', job.job_steps)
end;
