-- Two sides of the results, whatever tells them apart: sweeps, versions, GPUs or dates.

-- What a record is called by, for `sweep compare`: a list of kind and name.
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

-- The records of one side, with their settings.
create or replace macro of_side(of_kind, of_name) as table
select *
from configured(null, null)
where
    case of_kind
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

-- One row a cell and config that both sides measured. Where the two have a hardware in common only
-- trials on the same one compare, and likewise with software. `method` is pairs where they ran in
-- blocks together, two or more; else it is welch, of the processes' logarithms. The device columns
-- are null where a side has no device time.
create or replace macro sides_compared(a_kind, a_name, b_kind, b_name, min_effect) as table
with tasks as materialized (
    select distinct
        cell_id,
        task
    from process_groups(null)
),

trials as materialized (
    select
        'a' as side, -- noqa: RF04
        *
    from of_side(a_kind, a_name)
    union all by name
    select
        'b' as side, -- noqa: RF04
        *
    from of_side(b_kind, b_name)
),

counted as materialized (
    select
        trials.*,
        tasks.task
    from trials
    inner join tasks on trials.cell_id = tasks.cell_id
    where trials.status = 'ok' and trials.twin = 0 and not is_doubtful(trials.warnings)
),

common as (
    select
        (select count(*) from (
            select env_hash from counted where side = 'a'
            intersect select env_hash from counted where side = 'b'
        )) > 0 as hardware,
        (select count(*) from (
            select software_hash from counted where side = 'a'
            intersect select software_hash from counted where side = 'b'
        )) > 0 as software
),

groups as materialized (
    select
        side,
        task,
        cell_id,
        settings,
        loop_kind,
        precision,
        layout,
        env_hash,
        software_hash,
        concat_ws('|', side, cell_id, settings, loop_kind, env_hash, software_hash) as group_id,
        count(ln(steady_wall_ms)) as n,
        avg(ln(steady_wall_ms)) as mean,
        var_samp(ln(steady_wall_ms)) as var,
        median(steady_wall_ms) as ms,
        count(ln(steady_device_ms)) as device_n,
        avg(ln(steady_device_ms)) as device_mean,
        var_samp(ln(steady_device_ms)) as device_var,
        median(steady_device_ms) as device_ms
    from counted
    group by all
),

matched as materialized (
    select
        a, -- noqa: RF02
        b, -- noqa: RF02
        a.group_id || ' ' || b.group_id as cell
    from groups as a
    inner join groups as b
        on
            a.task = b.task
            and a.settings = b.settings
            and a.loop_kind = b.loop_kind
            and a.precision = b.precision
            and a.layout = b.layout
    cross join common
    where
        a.side = 'a' and b.side = 'b'
        and (not common.hardware or (a.env_hash = b.env_hash and a.cell_id = b.cell_id))
        and (not common.software or a.software_hash = b.software_hash)
),

in_blocks as (
    select
        matched.cell,
        count(*) as pairs,
        avg(log_ratio(y.steady_wall_ms, x.steady_wall_ms)) as mean,
        standard_error(log_ratio(y.steady_wall_ms, x.steady_wall_ms)) as se,
        count(log_ratio(y.steady_device_ms, x.steady_device_ms)) as device_pairs,
        avg(log_ratio(y.steady_device_ms, x.steady_device_ms)) as device_mean,
        standard_error(log_ratio(y.steady_device_ms, x.steady_device_ms)) as device_se
    from matched
    inner join counted as x
        on
            x.side = 'a'
            and x.cell_id = matched.a.cell_id
            and x.settings = matched.a.settings
            and x.loop_kind = matched.a.loop_kind
            and x.env_hash = matched.a.env_hash
            and x.software_hash = matched.a.software_hash
    inner join counted as y
        on
            y.side = 'b'
            and y.cell_id = x.cell_id
            and y.settings = x.settings
            and y.loop_kind = x.loop_kind
            and y.sweep_id = x.sweep_id
            and y.block = x.block
            and y.slot = x.slot
            and y.launch_id = x.launch_id
            and y.env_hash = matched.b.env_hash
            and y.software_hash = matched.b.software_hash
    group by matched.cell
    having count(*) >= 2
),

estimates as (
    select
        matched.cell,
        'wall' as clock,
        coalesce(in_blocks.mean, matched.b.mean - matched.a.mean) as mean,
        coalesce(
            in_blocks.se,
            welch_se(matched.a.var, matched.a.n, matched.b.var, matched.b.n)
        ) as se,
        coalesce(
            in_blocks.pairs - 1,
            welch_df(matched.a.var, matched.a.n, matched.b.var, matched.b.n)
        ) as df
    from matched
    left join in_blocks on matched.cell = in_blocks.cell
    union all
    select
        matched.cell,
        'device' as clock,
        coalesce(paired.device_mean, matched.b.device_mean - matched.a.device_mean) as mean,
        coalesce(
            paired.device_se,
            welch_se(
                matched.a.device_var, matched.a.device_n, matched.b.device_var, matched.b.device_n
            )
        ) as se,
        coalesce(
            paired.device_pairs - 1,
            welch_df(
                matched.a.device_var, matched.a.device_n, matched.b.device_var, matched.b.device_n
            )
        ) as df
    from matched
    left join in_blocks as paired on matched.cell = paired.cell and paired.device_pairs >= 2
),

verdicts as materialized (
    select * from judged('estimates', min_effect)
)

select
    labels.workload,
    labels.problem,
    labels.direction,
    labels.input_shape,
    labels.regime,
    labels.precision,
    labels.layout,
    matched.b.settings as settings,
    coalesce(wall.verdict, 'inconclusive') as verdict,
    wall.ratio,
    wall.ratio_low,
    wall.ratio_high,
    matched.a.ms as a_ms,
    matched.b.ms as b_ms,
    device.verdict as device_verdict,
    device.ratio as device_ratio,
    device.ratio_low as device_ratio_low,
    device.ratio_high as device_ratio_high,
    matched.a.device_ms as a_device_ms,
    matched.b.device_ms as b_device_ms,
    matched.a.n as a_processes,
    matched.b.n as b_processes,
    if(in_blocks.pairs is null, 'welch', 'pairs') as method,
    labels.gpu,
    matched.b.cell_id as cell_id,
    matched.a.software_hash as a_software_hash,
    matched.b.software_hash as b_software_hash
from matched
left join in_blocks on matched.cell = in_blocks.cell
left join verdicts as wall on matched.cell = wall.cell and wall.clock = 'wall'
left join verdicts as device on matched.cell = device.cell and device.clock = 'device'
inner join cell_labels() as labels on labels.cell_id = matched.b.cell_id
order by abs(ln(wall.ratio)) desc nulls last, matched.cell;
