-- Where does a slot's wall time go?
-- terminal: sweep_id, part, measuring, trials, median_s, total_s, share
-- none: no trial is recorded
--
-- There is one row for each sweep and part of a trial, the largest part first. Times in which a
-- trial waits for others are left out. One-time costs that several trials pay at the same time are
-- counted once.
--
-- part: phase of a trial, or log (the untimed process that logs), gap (the time before the trial),
--     or other (the rest)
-- overlapped_s: one-time costs left out because other trials paid them at the same time
-- share: share of the sweep's time
with parts as (
    select
        sweep_id,
        overlapped_s,
        process_s - coalesce(waited_s, 0) - coalesce(
            list_sum([
                start_s, one_time_s, build_s, cold_s, calibration_s, steady_s, checks_s, exit_s
            ]),
            0
        ) as other_s,
        unnest([
            'start', 'one_time', 'build', 'cold', 'calibration', 'steady', 'checks', 'exit',
            'other', 'log', 'gap'
        ]) as part,
        unnest([
            start_s, one_time_s - coalesce(overlapped_s, 0), build_s, cold_s, calibration_s,
            steady_s, checks_s, exit_s, other_s, log_s, gap_s
        ]) as part_s
    from records
    where status <> 'raced_out' and ($sweep_id is null or sweep_id glob $sweep_id)
)

select
    sweep_id,
    part,
    part in ('cold', 'calibration', 'steady') as measuring, -- whether the part measures the cell
    count(part_s) as trials, -- number of trials that had the part
    median(part_s) as median_s, -- median over the trials that had the part
    coalesce(sum(part_s), 0) as total_s, -- sum over the trials that had the part
    if(part = 'one_time', coalesce(sum(overlapped_s), 0), 0) as overlapped_s,
    total_s / sum(coalesce(sum(part_s), 0)) over (partition by sweep_id) as share -- noqa: RF04
from parts
group by sweep_id, part
order by sweep_id asc, total_s desc, part asc
