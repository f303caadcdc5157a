-- Return half the width of an interval, from its measured half-width and a known variance.
create or replace macro half_width(measured_half, quantile, known_variance) as
    sqrt(measured_half ** 2 + quantile ** 2 * known_variance);

-- Return the squared standard error of a mean of blocks. `measured` is the standard error of these
-- blocks. `elsewhere` is a variance from other cells and counts as one degree of freedom.
create or replace macro moderated(measured, blocks, elsewhere) as
    (elsewhere / blocks + (blocks - 1) * coalesce(measured, 0) ** 2) / nullif(blocks, 0);

-- Return standard errors of each job's log ratio, for expected times and means over `of_runs` runs.
-- `jobs`, `starts` and `blocks` are names of tables that `jobs_weighed` creates.
create or replace macro job_spreads(jobs, starts, blocks, of_runs) as table
-- the standard error from each source; columns that end with `_of_run` are for a single run
with parts as (
    select
        wholes.whole,
        wholes.blocks as step_df,
        scattered.df::bigint as start_df,
        wholes.c_share * wholes.b_share * wholes.pair_prior
        + (wholes.c_share - wholes.b_share) ** 2 * wholes.process_prior as step_prior,
        sqrt(moderated(seen.se_low, wholes.blocks, step_prior)) as steps_low,
        sqrt(moderated(seen.se_high, wholes.blocks, step_prior)) as steps_high,
        sqrt(
            wholes.c_start_share ** 2 * scattered.c_scatter
            + wholes.b_start_share ** 2 * scattered.b_scatter
        ) as start_of_run,
        start_of_run / sqrt(wholes.start_blocks) as start_of_mean,
        sqrt(
            wholes.c_share ** 2 * wholes.candidate_scatter
            + wholes.b_share ** 2 * wholes.baseline_scatter
        ) as steps_of_run,
        abs(wholes.extra_one_ms) / wholes.whole_candidate_ms / sqrt(12) as searched,
        wholes.c_share * abs(ln(wholes.candidate_ms / wholes.baseline_ms)) as gained,
        if(wholes.launch_bound, gained / sqrt(12), 0) as waited,
        if(wholes.power_capped, gained / 2 / sqrt(3), 0) as slowed
    from query_table(jobs) as wholes
    inner join query_table(starts) as scattered on wholes.cell = scattered.cell
    inner join query_table(blocks) as seen on wholes.whole = seen.cell and seen.clock = 'whole'
),

-- The degrees of freedom (Welch's) are rounded down. They are those of the measured parts alone.
summed as (
    select
        *,
        searched ** 2 + waited ** 2 + slowed ** 2 as uniform,
        greatest(steps_low, steps_high) ** 2 as steps_2,
        sqrt(steps_low ** 2 + start_of_mean ** 2) as measured_low,
        sqrt(steps_high ** 2 + start_of_mean ** 2) as measured_high,
        coalesce(
            (steps_2 + start_of_mean ** 2) ** 2
            / nullif(steps_2 ** 2 / nullif(step_df, 0) + start_of_mean ** 4 / start_df, 0),
            least(step_df, start_df)
        ) as mean_df,
        (steps_of_run ** 2 + start_of_run ** 2) / of_runs as run_variance,
        coalesce(
            (steps_2 + start_of_mean ** 2 + run_variance) ** 2
            / nullif(
                steps_2 ** 2 / nullif(step_df, 0)
                + (steps_of_run ** 2 / of_runs) ** 2 / nullif(step_df, 0)
                + start_of_run ** 4 * (1 / of_runs + start_of_mean ** 2 / start_of_run ** 2) ** 2
                / start_df,
                0
            ),
            least(step_df, start_df)
        ) as run_df
    from parts
)

select
    columns(['whole', 'uniform', 'measured_low', 'measured_high']),
    sqrt(measured_low ** 2 + uniform) as se_low,
    sqrt(measured_high ** 2 + uniform) as se_high,
    sqrt(measured_low ** 2 + run_variance) as run_low,
    sqrt(measured_high ** 2 + run_variance) as run_high,
    -- Rounding errors may leave a value just below a whole number, so 1e-9 is added.
    least(greatest(floor(1e-9 + mean_df), 1), 1000)::bigint as df,
    least(greatest(floor(1e-9 + run_df), 1), 1000)::bigint as run_df
from summed
where step_df > 0;
