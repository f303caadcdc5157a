-- What two softwares measured side by side, in blocks that interleave them on one slot.

-- One row a block, cell and config that both measured: the launch's own software is the candidate,
-- the one called `of_software` the baseline. Left out are pairs of which one failed, was throttled
-- or shared its GPU, and those that ran on two slots or in two launches. Of open loops only as many
-- steps count as both made.
create or replace macro software_blocks(of_software, of_sweep) as table
with trials as (
    select
        *,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes
    from configured(null, of_sweep)
    where status = 'ok' and twin = 0 and not is_doubtful(warnings)
),

pairs as (
    select
        b, -- noqa: RF02
        c, -- noqa: RF02
        b.loop_kind = 'open' and b.steady_iterations <> c.steady_iterations as is_uneven,
        least(b.steady_iterations, c.steady_iterations) as steps,
        coalesce(b.compute_cache, 'none') as cache,
        if(
            c.in_turns,
            round_log(
                c.steady_wall_samples_ms, c.steady_wall_rounds,
                b.steady_wall_samples_ms, b.steady_wall_rounds
            ),
            null
        ) as wall_log,
        if(
            c.in_turns,
            round_log(
                c.steady_device_samples_ms, c.steady_device_rounds,
                b.steady_device_samples_ms, b.steady_device_rounds
            ),
            null
        ) as device_log
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
            and coalesce(b.in_turns, false) = coalesce(c.in_turns, false)
    where b.software = of_software and c.software is null
)

select
    c.sweep_id,
    c.block,
    c.cell_id,
    c.settings,
    c.env_hash,
    c.software_hash,
    b.software_hash as baseline_software_hash,
    struct_pack(
        baseline
        := if(
            is_uneven,
            list_avg(b.steady_wall_samples_ms[:steps]),
            in_rounds(b.steady_wall_ms, c.steady_wall_ms, -wall_log)
        ),
        candidate
        := if(
            is_uneven,
            list_avg(c.steady_wall_samples_ms[:steps]),
            in_rounds(c.steady_wall_ms, b.steady_wall_ms, wall_log)
        )
    ) as steady_wall,
    if(
        b.steady_device_source = c.steady_device_source,
        struct_pack(
            baseline := in_rounds(b.steady_device_ms, c.steady_device_ms, -device_log),
            candidate := in_rounds(c.steady_device_ms, b.steady_device_ms, device_log)
        ),
        null
    ) as steady_device,
    if(
        cache in ('empty', 'disabled') and b.compute_cache = c.compute_cache,
        struct_pack(baseline := b.cold_ms, candidate := c.cold_ms),
        null
    ) as cold_empty,
    if(
        cache not in ('empty', 'disabled') and b.compute_cache is not distinct from c.compute_cache,
        struct_pack(baseline := b.cold_ms, candidate := c.cold_ms),
        null
    ) as cold_warm,
    struct_pack(baseline := b.peak_bytes::double, candidate := c.peak_bytes::double) as peak_memory,
    struct_pack(
        baseline := b.relative_l2_error, candidate := c.relative_l2_error
    ) as error -- noqa: RF04
from pairs;
