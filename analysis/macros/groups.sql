-- Comparisons between cells that differ on one axis. Their processes ran in different blocks, so
-- that nothing pairs them: Welch's t compares the means of their logarithms. What the processes
-- chose is told apart (`over_sides`).

-- One row a cell, software, config, kind of loop, and whether processes took turns: what its
-- processes measured. Left out are the second trials of A/A pairs, and processes whose GPU was
-- throttled or shared (those are counted). `task` is what a cell measures but for `axis` and the
-- GPU.
create or replace macro process_groups(axis, of_sweep) as table
with processes as (
    select
        *,
        not is_doubtful(warnings) as counts,
        coalesce(in_turns, false) as took_turns,
        concat_ws(
            '|', cell_id, env_hash, software_hash, workload_hash, settings, loop_kind, took_turns
        ) as group_id
    from configured(null, of_sweep)
    where status = 'ok' and twin = 0
),

grouped as (
    select
        group_id,
        any_value(columns([
            'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'settings', 'loop_kind'
        ])),
        any_value(took_turns) as in_turns,
        count(*) filter (where counts) as processes,
        count(*) filter (where not counts) as doubtful_processes,
        list(struct_pack(
            sweep_id := sweep_id,
            trial_id := trial_id,
            choice := kernels_source || kernels_hash,
            wall_ms := steady_wall_ms,
            device_ms := steady_device_ms
        )) filter (where counts) as trials,
        min(steady_iterations) filter (where counts) as fewest_steps,
        max(steady_iterations) filter (where counts) as most_steps,
        min(steady_device_source) as device_source,
        coalesce(min(steady_device_source) <> max(steady_device_source), false) as mixes_sources,
        max(greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes)) as peak_reserved_bytes,
        max(columns(['relative_l2_error', 'relative_max_error', 'layout_conversions'])),
        median(layout_conversion_ms) as layout_conversion_ms,
        median(roofline_share) as roofline_share,
        min(kernels_source) as kernels_source,
        mode(kernels_hash order by kernels_hash) as kernels_hash
    from processes
    group by group_id
)

select
    grouped.*,
    tasks.axis_value,
    tasks.task
from grouped
inner join cell_tasks(axis) as tasks on grouped.cell_id = tasks.cell_id;

-- The samples of each open loop: those of other trials, most of a store, are not read for it.
create or replace macro open_loops() as table
select
    [sweep_id, trial_id] as id,
    steady_wall_samples_ms as ms
from records
where loop_kind = 'open';

-- `pairs` names a table of `contrast` and two rows of process_groups, b (baseline) and c
-- (candidate). One row a pair: the candidate's labels, the verdicts on wall and device time, b and
-- c. Device times from two sources do not compare. Of open loops only as many steps count as every
-- process made: later ones have other shapes.
create or replace macro unpaired_answers(pairs, min_effect) as table
with named as (
    select
        *,
        concat_ws(' ', b.group_id, c.group_id) as cell,
        b.device_source = c.device_source and not (b.mixes_sources or c.mixes_sources)
            as same_source,
        least(b.fewest_steps, c.fewest_steps) as steps,
        b.loop_kind = 'open' and steps < greatest(b.most_steps, c.most_steps) as is_uneven
    from query_table(pairs)
),

trials as (
    select
        * exclude (side),
        side.name as side,
        side.pool,
        unnest(side.trials) as trial
    from (
        select
            cell,
            is_uneven,
            same_source,
            steps,
            unnest([
                struct_pack(name := 'b', pool := b.settings, trials := b.trials),
                struct_pack(name := 'c', pool := c.settings, trials := c.trials)
            ]) as side
        from named
    ) as sided
),

processes as materialized (
    select
        trials.cell,
        trials.side,
        trials.pool,
        trials.trial.choice,
        if(trials.is_uneven, list_avg(loops.ms[:trials.steps]), trials.trial.wall_ms) as wall,
        if(trials.same_source, trials.trial.device_ms, null) as device
    from trials
    left join open_loops() as loops on [trials.trial.sweep_id, trials.trial.trial_id] = loops.id
),

walls as materialized (
    select
        cell,
        exp(avg(log_of(wall)) filter (where side = 'b')) as baseline_ms,
        exp(avg(log_of(wall)) filter (where side = 'c')) as candidate_ms,
        exp(avg(log_of(device)) filter (where side = 'b')) as baseline_device_ms,
        exp(avg(log_of(device)) filter (where side = 'c')) as candidate_device_ms
    from processes
    group by cell
),

estimates as materialized (
    select
        *,
        true as family
    from over_sides('processes', 'b', 'c', ln(1 + min_effect))
),

verdicts as materialized (
    select * from judged('estimates', min_effect, 0)
)

select
    labels.* exclude (cell_id), -- noqa: AM04
    named.contrast,
    named.c.settings,
    named.c.loop_kind,
    named.b.processes as baseline_processes,
    named.c.processes as candidate_processes,
    named.b.doubtful_processes + named.c.doubtful_processes as doubtful_processes,
    walls.baseline_ms,
    walls.candidate_ms,
    wall.ratio,
    wall.ratio_low,
    wall.ratio_high,
    coalesce(wall.verdict, 'inconclusive') as wall_verdict,
    nullif(
        concat_ws('; ', 'baseline ' || chosen.b_choice, 'candidate ' || chosen.c_choice), ''
    ) as by_choice,
    walls.baseline_device_ms,
    walls.candidate_device_ms,
    device.ratio as device_ratio,
    device.ratio_low as device_ratio_low,
    device.ratio_high as device_ratio_high,
    device.verdict as device_verdict,
    named.b,
    named.c
from named
inner join cell_labels() as labels on named.c.cell_id = labels.cell_id
inner join walls on named.cell = walls.cell
left join estimates as chosen on named.cell = chosen.cell and chosen.clock = 'wall'
left join verdicts as wall on named.cell = wall.cell and wall.clock = 'wall'
left join verdicts as device on named.cell = device.cell and device.clock = 'device';
