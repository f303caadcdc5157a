-- What two softwares measured side by side, in blocks that interleave them on one slot.

-- One row a block, cell and config that both measured: the launch's own software is the candidate,
-- the one called `of_software` the baseline. Left out are pairs of which one failed, was throttled
-- or shared its GPU, and those that ran on two slots or in two launches. Of open loops only as many
-- steps count as both made.
create or replace macro software_blocks(of_software, of_sweep) as table
with sweeps as (
    select distinct sweep_id
    from records
    where software = of_software
),

trials as (
    select
        sweep_id,
        block,
        trial_id,
        cell_id,
        settings,
        launch_id,
        slot,
        env_hash,
        software_hash,
        software,
        loop_kind,
        steady_iterations,
        steady_wall_ms,
        steady_device_ms,
        steady_device_source,
        relative_l2_error,
        coalesce(in_turns, false) as took_turns,
        compute_cache,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes
    from configured(null, of_sweep)
    where
        status = 'ok' and twin = 0 and not is_doubtful(warnings)
        and sweep_id in (select sweeps.sweep_id from sweeps)
),

pairs as (
    select
        b, -- noqa: RF02
        c, -- noqa: RF02
        b.sweep_id,
        b.trial_id as b_trial_id,
        c.trial_id as c_trial_id,
        -- null where both made as many
        if(
            b.steady_iterations <> c.steady_iterations,
            least(b.steady_iterations, c.steady_iterations),
            null
        ) as steps,
        coalesce(b.compute_cache, 'none') as cache
    from trials as b
    inner join trials as c
        on
            b.sweep_id = c.sweep_id
            and b.block = c.block
            and b.cell_id = c.cell_id
            and b.settings = c.settings
            and b.launch_id = c.launch_id
            and b.slot = c.slot
            and b.env_hash = c.env_hash
            and b.loop_kind = c.loop_kind
            and b.took_turns = c.took_turns
    where b.software = of_software and c.software is null
),

in_turns as (
    select * from logs_in_turns('pairs')
)

select
    pairs.c.sweep_id,
    pairs.c.block,
    pairs.c.cell_id,
    pairs.c.settings,
    pairs.c.env_hash,
    pairs.c.software_hash,
    pairs.b.software_hash as baseline_software_hash,
    struct_pack(
        baseline
        := coalesce(
            if(pairs.steps is null, null, list_avg(b_loops.ms[:pairs.steps])),
            in_rounds(pairs.b.steady_wall_ms, pairs.c.steady_wall_ms, -in_turns.wall_log)
        ),
        candidate
        := coalesce(
            if(pairs.steps is null, null, list_avg(c_loops.ms[:pairs.steps])),
            in_rounds(pairs.c.steady_wall_ms, pairs.b.steady_wall_ms, in_turns.wall_log)
        )
    ) as steady_wall,
    if(
        pairs.b.steady_device_source = pairs.c.steady_device_source,
        struct_pack(
            baseline
            := in_rounds(
                pairs.b.steady_device_ms, pairs.c.steady_device_ms, -in_turns.device_log
            ),
            candidate
            := in_rounds(
                pairs.c.steady_device_ms, pairs.b.steady_device_ms, in_turns.device_log
            )
        ),
        null
    ) as steady_device,
    if(
        pairs.cache in ('empty', 'disabled') and pairs.b.compute_cache = pairs.c.compute_cache,
        struct_pack(baseline := pairs.b.cold_ms, candidate := pairs.c.cold_ms),
        null
    ) as cold_empty,
    if(
        pairs.cache not in ('empty', 'disabled')
        and pairs.b.compute_cache is not distinct from pairs.c.compute_cache,
        struct_pack(baseline := pairs.b.cold_ms, candidate := pairs.c.cold_ms),
        null
    ) as cold_warm,
    struct_pack(
        baseline := pairs.b.peak_bytes::double, candidate := pairs.c.peak_bytes::double
    ) as peak_memory,
    struct_pack(
        baseline := pairs.b.relative_l2_error, candidate := pairs.c.relative_l2_error
    ) as error -- noqa: RF04
from pairs
left join in_turns
    on pairs.sweep_id = in_turns.sweep_id and pairs.c_trial_id = in_turns.c_trial_id
left join open_loops() as b_loops on [pairs.sweep_id, pairs.b_trial_id] = b_loops.id
left join open_loops() as c_loops on [pairs.sweep_id, pairs.c_trial_id] = c_loops.id;
