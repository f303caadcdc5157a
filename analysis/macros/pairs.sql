-- The pairs of a contrast: of each block, the baseline's trial and the candidate's.

-- Log ratios of the rounds that both of two processes in turns have.
create or replace macro round_logs(times, rounds, baseline_times, baseline_rounds) as
    list_transform(
        list_filter(
            list_zip(times, rounds, baseline_times, baseline_rounds),
            lambda each: each[2] = each[4]
        ),
        lambda each: log_ratio(each[1], each[3])
    );

-- The variance of a median, from the median deviation, which odd values do not move; null for one.
create or replace macro median_variance(logs) as
    if(len(logs) > 1, pi() / 2 * (1.4826 * list_mad(logs)) ** 2 / len(logs), null);

-- The variance of block ratios of closed loops in turns: a scatter of 0.3%, or 1% if the loop is
-- CPU-bound (whole_jobs.sql has the rows).
create or replace macro block_variance(launch_bound) as if(launch_bound, 0.01, 0.003) ** 2;

-- The variance of such a loop's ratio between launches and hosts: 0.8%. Three in four of 44 stored
-- cells stay below it (their median is 0.06%).
create or replace macro launch_variance() as 0.008 ** 2;

-- How much of the error the first `k` of `n` looks spend: docs/measuring.md (How many blocks).
create or replace macro spent(k, n) as case
    when k >= n then 1
    when k < 2 then 0.4 * k
    else 0.6 + 0.4 * (k - 2) / (n - 2)
end;

-- One row a sweep: whether its launch, or that of each shard, has ended, so that no further block
-- comes. Rows from before the column are of ended sweeps.
create or replace macro ended_sweeps() as table
select
    sweep_id,
    bool_and(ended) as has_ended
from (
    select
        sweep_id,
        coalesce(arg_max(ends_launch, ended_at), true) as ended
    from records
    group by sweep_id, shard
) as shards
group by sweep_id;

-- `pairs` names a table with sweep_id, b_trial_id and c_trial_id. One row a pair in turns: the
-- median log ratios of c's times over b's, and their variances.
create or replace macro logs_in_turns(pairs) as table
select
    b.sweep_id,
    b.trial_id as b_trial_id,
    c.trial_id as c_trial_id,
    round_logs(
        c.steady_wall_samples_ms, c.steady_wall_rounds,
        b.steady_wall_samples_ms, b.steady_wall_rounds
    ) as wall_logs,
    round_logs(
        c.steady_device_samples_ms, c.steady_device_rounds,
        b.steady_device_samples_ms, b.steady_device_rounds
    ) as device_logs,
    list_median(wall_logs) as wall_log,
    list_median(device_logs) as device_log,
    median_variance(wall_logs) as wall_error,
    median_variance(device_logs) as device_error
from query_table(pairs) as asked
-- One key a join: with two keys DuckDB first joins all of a sweep's trials with all others.
inner join records as b on [asked.sweep_id, asked.b_trial_id] = [b.sweep_id, b.trial_id]
inner join records as c on [asked.sweep_id, asked.c_trial_id] = [c.sweep_id, c.trial_id]
where b.in_turns and c.in_turns;

-- One row a block and set of other settings; the blocks of one verdict have one `judged_cell`.
-- Times in turns are moved towards each other so that their ratio is the median over rounds.
-- `pairing` is paired, doubtful, split (on two slots or in two launches) or unpaired (one failed or
-- is missing). A pair is doubtful if a trial shared its GPU, or both were throttled: if one is, its
-- setting may be the cause, and leaving it out would choose blocks by their outcome. These are
-- null: device times from two sources, `compute_cache` if the two met different states, and
-- `choice`, the kernels of both, if unknown. Cold costs are over the shapes that both met. The flag
-- twin pairs a config's A/A trials; other flags leave out the second.
--
-- `share`: the share of the error that this look spends; over several sweeps, the mean over blocks.
-- If more blocks may come (not `is_over`; null: as the sweep says), those after the last look wait
-- (`waits`); before the first look it is `too_early`. `wall_elsewhere` and `device_elsewhere`:
-- `block_variance`; unknown device times count as CPU-bound. `origin`: host and launch.
create or replace macro block_pairs(
    flag, from_value, to_value, of_sweep, is_over := null
) as table
with trials as (
    select
        -- sides of code have hashes of their own
        * replace (
            if(flag = 'code', min(software_hash) over (partition by cell_id), software_hash)
                as software_hash,
            if(flag = 'code', null, workload_hash) as workload_hash
        ),
        setting = from_value as b,
        setting = to_value as c,
        status = 'ok' as ok,
        coalesce(in_turns, false) as took_turns,
        coalesce(compute_cache, 'none') as cache,
        -- trials stay small until they are paired: no lists of structs
        list_transform(cold, lambda met: met.first_ms) as first_ms,
        list_transform(cold, lambda met: met.second_ms) as second_ms,
        list_transform(cold, lambda met: array_to_string(met.shape, 'x')) as shape_names,
        coalesce(list_contains(warnings, 'throttled'), false) as throttled,
        coalesce(list_contains(warnings, 'shared_gpu'), false) as shared,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_reserved_bytes,
        greatest(cold_peak_allocated_bytes, steady_peak_allocated_bytes) as peak_allocated_bytes,
        logged_workspace_bytes as workspace_bytes,
        compute_cache_entries_added as cache_entries,
        steady_iterations as steps,
        steady_device_source as source,
        1000 * one_time_s as one_time_ms,
        -- a trial without cuDNN does not show what would run in cuDNN
        flag <> 'enabled' or enabled as tells,
        case
            when contains(lower(array_to_string(routes, ' ')), 'cudnn') then true
            when contains(array_to_string(cudnn_operations, ' '), 'cudnn_convolution') then true
            when convolutions = 0 or len(routes) > 0 then false
        end as convolved,
        len(cudnn_operations) > 0 as others,
        case
            when not benchmark or coalesce(len(logged_choices), 0) = 0 then null
            when logged_searches > 0 then true
            -- a search builds many plans; if several were built and none was timed, it is unknown
            when list_max(list_transform(logged_choices, lambda choice: choice.plans_built)) <= 1
                then false
        end as searched
    from configured(flag, of_sweep)
    where setting in (from_value, to_value) and (flag = 'twin' or twin = 0)
),

reasons as (
    select
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash, other_settings) as place,
        no_effect_reason(
            flag,
            any_value(device),
            any_value(benchmark),
            max(convolutions) filter (where tells),
            bool_or(convolved) filter (where tells),
            bool_or(others) filter (where tells),
            bool_or(searched) filter (where tells),
            bool_or(contains(lower(array_to_string(routes, ' ')), 'miopen'))
        ) as no_effect_reason
    from trials
    group by place
),

joined as (
    select
        columns(['sweep_id', 'block', 'cell_id', 'other_settings']),
        -- the baseline's values; if the two sides differ, they do not pair
        arg_max(columns(['env_hash', 'software_hash', 'workload_hash']), b),
        any_value(columns([
            'ok', 'trial_id', 'loop_kind', 'cache', 'steps', 'steady_wall_ms', 'steady_device_ms',
            'source', 'kernels_source'
        ])) filter (where b) as 'b_\0', -- noqa: RF05
        any_value(columns([
            'ok', 'trial_id', 'loop_kind', 'cache', 'steps', 'steady_wall_ms', 'steady_device_ms',
            'source', 'kernels_source'
        ])) filter (where c) as 'c_\0', -- noqa: RF05
        any_value(columns([
            'settings', 'first_ms', 'second_ms', 'one_time_ms', 'cache_entries',
            'peak_reserved_bytes', 'peak_allocated_bytes', 'workspace_bytes', 'kernels_hash',
            'fingerprint', 'bitwise_repeatable', 'relative_l2_error'
        ])) filter (where b) as 'baseline_\0', -- noqa: RF05
        arg_max(concat_ws('|', host, launch_id), b) as ran_at,
        any_value(columns([
            'settings', 'first_ms', 'second_ms', 'one_time_ms', 'cache_entries',
            'peak_reserved_bytes', 'peak_allocated_bytes', 'workspace_bytes', 'kernels_hash',
            'fingerprint', 'bitwise_repeatable', 'relative_l2_error'
        ])) filter (where c) as 'candidate_\0', -- noqa: RF05
        any_value(steady_peak_reserved_bytes) filter (where b) as baseline_steady_reserved_bytes,
        any_value(steady_peak_reserved_bytes) filter (where c) as candidate_steady_reserved_bytes,
        any_value(shape_names) filter (where b) as shape_names,
        if(flag = 'twin', null, min(looks)) as looks, -- a sweep may go on with more of them
        min(launch_id) = max(launch_id)
        and min(slot) = max(slot)
        and min(env_hash) = max(env_hash)
        and min(software_hash) = max(software_hash)
        and coalesce(min(workload_hash) = max(workload_hash), true)
        and bool_and(took_turns) = bool_or(took_turns) as same_place,
        if(bool_and(ok) and same_place, bool_or(took_turns), null) as own_turns,
        bool_or(shared) as shared,
        coalesce(bool_or(throttled) filter (where b), false) as baseline_throttled,
        coalesce(bool_or(throttled) filter (where c), false) as candidate_throttled,
        count(launch_bound) as launch_bound_known,
        count(*) filter (where launch_bound) as launch_bound,
        max(distinct_shapes) as distinct_shapes,
        flatten(list(warnings)) as warnings
    from trials
    group by sweep_id, block, cell_id, other_settings, software
    having flag <> 'twin' or bool_or(twin = 1) -- few blocks have a twin
),

kinds as (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash, other_settings) as place,
        if(b_loop_kind <> c_loop_kind, 'mixed', coalesce(b_loop_kind, c_loop_kind)) as own_kind,
        least(len(baseline_first_ms), len(candidate_first_ms)) as shapes,
        (b_source is not distinct from c_source) as same_source,
        -- an open loop's budget may cut one of the two short: only steps that both made compare
        own_kind = 'open' and b_steps <> c_steps as is_uneven,
        least(b_steps, c_steps) as fewer_steps,
        baseline_fingerprint = candidate_fingerprint as same_bits,
        b_kernels_source = c_kernels_source as same_kernels_source
    from joined
),

turns as (
    select * from logs_in_turns('kinds')
),

paired as (
    select
        kinds.* exclude (
            b_ok, b_trial_id, b_loop_kind, b_cache, b_steps, b_steady_wall_ms, b_steady_device_ms,
            b_source, b_kernels_source,
            c_ok, c_trial_id, c_loop_kind, c_cache,
            c_steps, c_steady_wall_ms, c_steady_device_ms, c_source,
            c_kernels_source, own_kind, own_turns, same_place, same_source, is_uneven,
            fewer_steps, same_kernels_source, shared
        ),
        case
            when kinds.b_ok is null then 'candidate'
            when kinds.c_ok is null then 'baseline'
            else 'both'
        end as present,
        case
            when not (coalesce(kinds.b_ok, false) and coalesce(kinds.c_ok, false)) then 'unpaired'
            when not kinds.same_place then 'split'
            when kinds.shared or (kinds.baseline_throttled and kinds.candidate_throttled)
                then 'doubtful'
            else 'paired'
        end as pairing,
        coalesce(not kinds.b_ok, false) as baseline_failed,
        coalesce(not kinds.c_ok, false) as candidate_failed,
        reasons.no_effect_reason,
        coalesce(is_over, swept.has_ended) as is_last,
        coalesce(kinds.own_kind, max(kinds.own_kind) over cell) as loop_kind,
        case
            when kinds.b_cache = kinds.c_cache then kinds.b_cache
            when flag = 'compute_cache_disabled' and kinds.c_cache = 'disabled' then kinds.b_cache
            when flag = 'compute_cache_disabled' and kinds.b_cache = 'disabled' then kinds.c_cache
        end as compute_cache,
        if(
            kinds.own_kind <> 'mixed',
            coalesce(
                if(is_uneven, list_avg(b_loop.ms[:kinds.fewer_steps]), null),
                in_rounds(kinds.b_steady_wall_ms, kinds.c_steady_wall_ms, -turns.wall_log)
            ),
            null
        ) as baseline_ms,
        if(
            kinds.own_kind <> 'mixed',
            coalesce(
                if(is_uneven, list_avg(c_loop.ms[:kinds.fewer_steps]), null),
                in_rounds(kinds.c_steady_wall_ms, kinds.b_steady_wall_ms, turns.wall_log)
            ),
            null
        ) as candidate_ms,
        turns.wall_error,
        turns.device_error,
        if(
            kinds.same_source,
            in_rounds(kinds.b_steady_device_ms, kinds.c_steady_device_ms, -turns.device_log),
            null
        ) as baseline_device_ms,
        if(
            kinds.same_source,
            in_rounds(kinds.c_steady_device_ms, kinds.b_steady_device_ms, turns.device_log),
            null
        ) as candidate_device_ms,
        -- the kind of the cell's other pairs, if this pair has none
        coalesce(kinds.own_turns, bool_or(kinds.own_turns) over cell, false) as in_turns,
        list_sum(kinds.baseline_first_ms[:kinds.shapes]) as baseline_cold_ms,
        list_sum(kinds.candidate_first_ms[:kinds.shapes]) as candidate_cold_ms,
        kinds.candidate_first_ms[1] - kinds.baseline_first_ms[1] as first_shape_extra_ms,
        if(
            kinds.same_kernels_source,
            kinds.baseline_kernels_hash <> kinds.candidate_kernels_hash,
            null
        ) as other_kernels,
        if(
            kinds.same_kernels_source,
            kinds.baseline_kernels_hash || ' ' || kinds.candidate_kernels_hash,
            null
        ) as choice,
        concat_ws('|', kinds.place, loop_kind, in_turns) as judged_cell
    from kinds
    inner join reasons on kinds.place = reasons.place
    inner join ended_sweeps() as swept on kinds.sweep_id = swept.sweep_id
    left join turns on kinds.sweep_id = turns.sweep_id and kinds.c_trial_id = turns.c_trial_id
    left join open_loops() as b_loop on [kinds.sweep_id, kinds.b_trial_id] = b_loop.id
    left join open_loops() as c_loop on [kinds.sweep_id, kinds.c_trial_id] = c_loop.id
    window cell as (partition by kinds.place)
),

counted as (
    select
        *,
        count(*) filter (where pairing = 'paired') over (partition by judged_cell)
        > count(*) filter (where pairing = 'paired') over (partition by judged_cell, sweep_id)
            as beside_others,
        count(*) filter (where present = 'both') over (
            partition by sweep_id, cell_id, other_settings
        ) as recorded,
        count(*) filter (where present = 'both') over (
            partition by sweep_id, cell_id, other_settings order by block
        ) as number -- noqa: RF04
    from paired
),

looked as (
    select
        * replace (if(recorded = 0 and beside_others, null, looks) as looks),
        coalesce(list_max(list_filter(looks, lambda look: look <= recorded)), 0) as last_look,
        len(list_filter(looks, lambda look: look < recorded)) as looks_before,
        greatest(len(list_filter(looks, lambda look: look <= recorded)), 1) as reached,
        not is_last and looks is not null and last_look = 0 as is_before_looks,
        not is_last and pairing = 'paired' and number > last_look and last_look > 0 as waits,
        not coalesce(list_contains(looks, recorded), true) as is_between,
        case
            when looks is null then 1
            when is_last and recorded > 1 then 1 - spent(looks_before, len(looks))
            else spent(reached, len(looks)) - spent(reached - 1, len(looks))
        end as own_share
    from counted
)

select
    * exclude (
        looks, is_last, beside_others, recorded, number, last_look, looks_before,
        reached, is_before_looks, is_between, own_share, ran_at
    ),
    list_max(looks) as at_most,
    round(coalesce(
        avg(own_share) filter (where pairing = 'paired' and not waits) over cell,
        min(own_share) over cell
    ), 4) as share,
    sum(launch_bound) filter (where pairing = 'paired') over cell
    > 0.5 * nullif(sum(launch_bound_known) filter (where pairing = 'paired') over cell, 0)
        as waits_for_cpu,
    if(waits_for_cpu, ran_at, null) as origin,
    if(in_turns and loop_kind = 'closed', block_variance(coalesce(waits_for_cpu, true)), null)
        as wall_elsewhere,
    if(wall_elsewhere is null, null, block_variance(false)) as device_elsewhere,
    bool_and(is_before_looks) over cell as too_early,
    bool_and(is_between) over cell as between_looks
from looked
window cell as (partition by judged_cell);

-- The sweeps whose blocks resemble the one before: the lag-1 products of log ratios of each cell's
-- first and last config, in units of its scatter, exceed chance's in 95%. Of n independent blocks
-- their sum has the mean -(n - 1) / n and the variance (n - 1) (n - 2)^2 / n^2 (Moran, 1948).
create or replace macro resembling_sweeps(of_sweep) as table
with blocks as (
    select
        columns(['sweep_id', 'cell_id', 'block']),
        log_ratio(arg_max(steady_wall_ms, settings), arg_min(steady_wall_ms, settings)) as log -- noqa
    from configured(null, of_sweep)
    where status = 'ok' and twin = 0 and loop_kind = 'closed' and not is_doubtful(warnings)
    group by sweep_id, cell_id, block
    having min(launch_id) = max(launch_id) and min(slot) = max(slot)
),

products as (
    select
        sweep_id,
        count(log) over cell as n,
        (log - avg(log) over cell)
        * (lag(log) over (partition by sweep_id, cell_id order by block) - avg(log) over cell)
        / var_samp(log) over cell as product
    from blocks
    window cell as (partition by sweep_id, cell_id)
    qualify n > 2 and var_samp(log) over cell > 0
)

select sweep_id
from products
group by sweep_id
having
    sum(coalesce(product, 0) + (n - 1) / n ** 2)
    > 1.645 * sqrt(sum((n - 1) * (n - 2) ** 2 / n ** 3));
