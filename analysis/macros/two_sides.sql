-- Macros that compare two sides of the results, such as two sweeps, versions, GPUs or dates.

-- Return the kinds and names of sides that `sweep compare` accepts.
create or replace macro side_names() as table
with named as (
    select
        sweep_id as sweep,
        torch,
        cudnn::text as cudnn,
        driver,
        version as ours,
        software_hash as software,
        gpu,
        gpu_uuid as uuid,
        strftime(started_at, '%Y-%m-%d') as date
    from records
)

select distinct
    kind,
    name
from (
    unpivot named
    on sweep, torch, cudnn, driver, ours, software, gpu, uuid, date
    into name kind value name
);

-- Return the records of one side. Records of a throttled or shared GPU are left out.
create or replace macro of_side(of_kind, of_name) as table
select * -- noqa: AM04
from configured(null, null)
where
    not is_doubtful(warnings)
    and case of_kind
        when 'sweep' then sweep_id
        when 'torch' then torch
        when 'cudnn' then cudnn::text
        when 'driver' then driver
        when 'ours' then version
        when 'software' then software_hash
        when 'gpu' then gpu
        when 'uuid' then gpu_uuid
        when 'date' then strftime(started_at, '%Y-%m-%d')
    end = of_name;

-- Return the wall times of all steps of each open loop.
create or replace macro open_loops() as table
select
    [sweep_id, trial_id] as id,
    steady_wall_samples_ms as ms
from records
where loop_kind = 'open';

-- Return the log ratios of the times of two processes in the same block, `b` of b_side and `c` of
-- c_side. `processes` is the name of a table with the columns cell, side, block, wall and device.
create or replace macro same_blocks(processes, b_side, c_side) as table
with met as (
    select
        b, -- noqa: RF02
        c, -- noqa: RF02
        b.sweep_id,
        b.trial_id as baseline_trial_id,
        c.trial_id as candidate_trial_id,
        log_ratio(c.wall, b.wall) as wall,
        log_ratio(c.device, b.device) as device
    from query_table(processes) as b
    inner join query_table(processes) as c
        on
            b.cell = c.cell
            and b.sweep_id = c.sweep_id
            and b.block = c.block
            and b.slot = c.slot
            and b.launch_id = c.launch_id
    where b.side = b_side and c.side = c_side
)

select
    met.b,
    met.c,
    coalesce(in_turns.wall_log, met.wall) as wall,
    if(met.device is null, null, coalesce(in_turns.device_log, met.device)) as device
from met
left join logs_in_turns('met') as in_turns
    on
        met.sweep_id = in_turns.sweep_id
        and met.baseline_trial_id = in_turns.baseline_trial_id
        and met.candidate_trial_id = in_turns.candidate_trial_id;

-- Return the ok trials with their `group_id`. The trials of a group have the same side (`value`),
-- cell, config, hardware and software.
create or replace macro grouped(trials) as table
select
    * exclude (in_turns), -- noqa: AM04
    coalesce(in_turns, false) as in_turns,
    not is_doubtful(warnings) as counts,
    concat_ws(
        '|', value, cell_id, settings, loop_kind, env_hash, software_hash, workload_hash,
        coalesce(in_turns, false)
    ) as group_id
from query_table(trials)
where status = 'ok' and twin = 0;

-- Return the pairs of groups b and c that differ in the side, but have the same task and config.
create or replace macro group_pairs(trials) as table
with groups as materialized (
    select
        group_id,
        any_value(columns([
            'task', 'value', 'cell_id', 'settings', 'loop_kind', 'in_turns', 'env_hash',
            'software_hash', 'workload_hash', 'is_usual'
        ])),
        count(*) filter (where counts) as processes,
        count(*) filter (where not counts) as doubtful_processes,
        min(steady_iterations) filter (where counts) as fewest_steps,
        max(steady_iterations) filter (where counts) as most_steps,
        if(min(steady_device_source) = max(steady_device_source), min(steady_device_source), null)
            as device_source,
        max(greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes)) as peak_reserved_bytes,
        max(columns(['relative_l2_error', 'relative_max_error', 'layout_conversions'])),
        median(columns([
            'layout_conversion_ms', 'roofline_share', 'calibration_matmul_tflops',
            'calibration_copy_gbps'
        ])),
        min(kernels_source) as kernels_source,
        list(distinct kernels_hash) filter (where kernels_hash is not null) as kernels,
        list(distinct fingerprint) filter (where fingerprint is not null) as bits
    from query_table(trials)
    group by group_id
)

select
    b, -- noqa: RF02
    c, -- noqa: RF02
    b.group_id || ' ' || c.group_id as cell
from groups as b
inner join groups as c
    on
        b.task = c.task
        and b.settings = c.settings
        and b.loop_kind = c.loop_kind
        and b.in_turns = c.in_turns
        and b.value <> c.value;

-- Return the geometric mean times of both sides, and a verdict on side c compared with side b, for
-- each pair of groups. `pairs` and `trials` are names of tables from `group_pairs` and `grouped`.
-- The ratio is taken over common blocks if there are two or more, else over each side's processes.
create or replace macro sides_judged(pairs, trials, min_effect) as table
with sided as (
    select
        cell,
        -- noqa: disable=RF01
        least(b.fewest_steps, c.fewest_steps) as steps,
        b.loop_kind = 'open' and steps < greatest(b.most_steps, c.most_steps) as is_uneven,
        coalesce(b.device_source = c.device_source, false) as same_source,
        unnest(['b', 'c']) as side,
        unnest([b.group_id, c.group_id]) as group_id
        -- noqa: enable=RF01
    from query_table(pairs)
),

processes as materialized (
    select
        sided.cell,
        sided.side,
        columns(['cell_id', 'sweep_id', 'trial_id', 'launch_id', 'block', 'slot']),
        trial.settings as pool,
        trial.kernels_source || trial.kernels_hash as choice,
        if(sided.is_uneven, list_avg(loops.ms[:sided.steps]), trial.steady_wall_ms) as wall,
        if(sided.same_source, trial.steady_device_ms, null) as device
    from sided
    inner join query_table(trials) as trial on sided.group_id = trial.group_id
    left join open_loops() as loops on [trial.sweep_id, trial.trial_id] = loops.id
    where trial.counts
),

means as (
    select
        cell,
        count(log_of(wall)) filter (where side = 'b') as b_processes,
        count(log_of(wall)) filter (where side = 'c') as c_processes,
        exp(avg(log_of(wall)) filter (where side = 'b')) as b_ms,
        exp(avg(log_of(wall)) filter (where side = 'c')) as c_ms,
        exp(avg(log_of(device)) filter (where side = 'b')) as b_device_ms,
        exp(avg(log_of(device)) filter (where side = 'c')) as c_device_ms
    from processes
    group by cell
),

block_logs as (
    select
        b.cell,
        b.pool,
        b.choice || ' ' || c.choice as choice,
        wall,
        device
    from same_blocks('processes', 'b', 'c')
    where b.cell_id = c.cell_id
),

by_clock as (
    unpivot block_logs
    on wall, device
    into name clock value observed
),

in_blocks as materialized (
    select -- noqa: ST06
        columns(['cell', 'clock', 'mean', 'se', 'df', 'se_low', 'se_high']),
        in_choices(choices, blocks, most_alike, usual, others, ln(1 + min_effect)) as by_choice,
        true as is_paired
    from over_choices('by_clock')
    where blocks >= 2
),

estimates as materialized (
    from in_blocks
    union all by name
    select apart.* -- noqa: AM04
    from over_sides('processes', 'b', 'c', ln(1 + min_effect)) as apart
    anti join in_blocks using (cell, clock) -- noqa: ST07
),

verdicts as materialized (from judged('estimates', min_effect, 0))

select
    pairs.*, -- noqa: AM04
    means.* exclude (cell), -- noqa: RF02
    coalesce(estimates.is_paired, false) as is_paired,
    columns(['by_choice', 'b_choice', 'c_choice']),
    coalesce(wall.verdict, 'inconclusive') as verdict,
    wall.* exclude (cell, clock, verdict), -- noqa: RF02
    device.verdict as device_verdict,
    columns(device.* exclude (cell, clock, verdict)) as 'device_\0', -- noqa: RF05
    if(
        pairs.b.kernels_source = pairs.c.kernels_source,
        chose_otherwise(pairs.b.kernels, pairs.c.kernels),
        null
    ) as other_kernels,
    not chose_otherwise(pairs.b.bits, pairs.c.bits) as same_bits
from query_table(pairs) as pairs
inner join means on pairs.cell = means.cell
left join estimates on means.cell = estimates.cell and estimates.clock = 'wall'
left join verdicts as wall on means.cell = wall.cell and wall.clock = 'wall'
left join verdicts as device on means.cell = device.cell and device.clock = 'device';

-- Return one row for each cell and config that both sides have. If both sides ran on the same
-- hardware, only its trials are compared. The same is true of software. `method` is `pairs` if two
-- or more blocks have both sides, else `welch`. A calibration ratio above 1 means that B is faster.
create or replace macro sides_compared(a_kind, a_name, b_kind, b_name, min_effect) as table
with trials as ( -- noqa: disable=RF01,RF04,ST07,AL10,LT09
    select * -- noqa: AM04
    from (
        from (select 'b' as value, * from of_side(a_kind, a_name))
        union all by name
        from (select 'c' as value, * from of_side(b_kind, b_name))
    )
    inner join cell_tasks(null) using (cell_id)
),

counted as materialized (from grouped('trials')),

common as (
    select
        list_has_any(
            list(distinct env_hash) filter (where value = 'b'),
            list(distinct env_hash) filter (where value = 'c')
        ) as hardware,
        list_has_any(
            list(distinct software_hash) filter (where value = 'b'),
            list(distinct software_hash) filter (where value = 'c')
        ) as software
    from counted
),

matched as materialized (
    select pairs.*
    from group_pairs('counted') as pairs
    cross join common
    where
        b.value = 'b'
        and (not common.hardware or (b.env_hash = c.env_hash and b.cell_id = c.cell_id))
        and (not common.software or b.software_hash = c.software_hash)
    -- If both sides ran the same version of a user's code, different versions are not compared.
    qualify
        b.workload_hash is not distinct from c.workload_hash
        or not bool_or(b.workload_hash is not distinct from c.workload_hash) over (
            partition by
                b.task, b.settings, b.loop_kind, b.env_hash, c.env_hash, b.software_hash,
                c.software_hash
        )
)

select
    labels.* exclude (cell_id, cell_order), -- noqa: AM04
    sides.c.settings,
    columns(['verdict', 'ratio', 'ratio_low', 'ratio_high']),
    sides.b_ms as a_ms,
    sides.c_ms as b_ms,
    columns(['device_verdict', 'device_ratio', 'device_ratio_low', 'device_ratio_high']),
    sides.b_device_ms as a_device_ms,
    sides.c_device_ms as b_device_ms,
    sides.b_processes as a_processes,
    sides.c_processes as b_processes,
    if(sides.is_paired, 'pairs', 'welch') as method,
    if(
        sides.is_paired,
        sides.by_choice,
        nullif(concat_ws('; ', 'A ' || sides.b_choice, 'B ' || sides.c_choice), '')
    ) as by_choice,
    sides.other_kernels,
    sides.same_bits,
    sides.c.calibration_matmul_tflops / sides.b.calibration_matmul_tflops as matmul_ratio,
    sides.c.calibration_copy_gbps / sides.b.calibration_copy_gbps as copy_ratio,
    columns(a_software.*) as 'a_\0', -- noqa: RF05
    columns(b_software.*) as 'b_\0', -- noqa: RF05
    sides.c.loop_kind,
    sides.c.in_turns,
    sides.c.cell_id,
    sides.c.env_hash,
    sides.c.workload_hash
from sides_judged('matched', 'counted', min_effect) as sides
inner join software_labels() as a_software on sides.b.software_hash = a_software.software_hash
inner join software_labels() as b_software on sides.c.software_hash = b_software.software_hash
inner join cell_labels() as labels on sides.c.cell_id = labels.cell_id
order by abs(ln(sides.ratio)) desc nulls last, sides.cell;
