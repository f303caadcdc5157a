-- How long do jobs of 100 to 1,000,000 steps take with either config, and what is the advice?
--
-- One row for each cell and `start`. Lists are texts, in the order of `steps`.
with jobs as materialized (
    from jobs_weighed(
        $field, $baseline, $candidate,
        [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000],
        null, 'container', 1, null, 0.02, 0.1, $sweep_id, null
    )
)

select
    columns([
        'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'other_settings', 'loop_kind',
        'in_turns', 'start'
    ]),
    $field || ': ' || $baseline || ' → ' || $candidate as contrast,
    any_value(to_baseline) as baseline_word,
    string_agg(job_steps, ' ' order by steps) as steps,
    string_agg(advice, '|' order by steps) as advice,
    string_agg(format('{:.6g}', whole_baseline_ms / 1000), ' ' order by steps) as baseline_s,
    string_agg(format('{:.6g}', whole_candidate_ms / 1000), ' ' order by steps) as candidate_s,
    string_agg(format('{:.6g}', mean_ratio_low), ' ' order by steps) as ratio_low,
    string_agg(format('{:.6g}', mean_ratio_high), ' ' order by steps) as ratio_high,
    any_value(columns(['break_even_steps', 'break_even_low', 'break_even_high']))
from jobs
where whole_baseline_ms is not null and whole_candidate_ms is not null
group by all
order by all
