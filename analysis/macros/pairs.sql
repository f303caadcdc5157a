-- The pairs of a contrast: of each block, the baseline's trial and the candidate's.

-- Log ratios of two processes that take turns: one ratio for each round that both processes made.
create or replace macro round_logs(times, rounds, baseline_times, baseline_rounds) as
    list_transform(
        list_filter(
            list_zip(times, rounds, baseline_times, baseline_rounds), lambda each: each[2] = each[4]
        ),
        lambda each: log_ratio(each[1], each[3])
    );

-- Whether device times can be compared: their sources `a` and `b` are equal, or both are graphs.
create or replace macro of_one_clock(a, b) as
    a is not distinct from b or (contains(a, 'graph') and contains(b, 'graph'));

-- An outlier-resistant variance of a median, from the median deviation; null for a single value.
create or replace macro median_variance(logs) as
    if(len(logs) > 1, pi() / 2 * (1.4826 * list_mad(logs)) ** 2 / len(logs), null);

-- The variance of a block's ratio for closed loops whose processes take turns: the square of a
-- scatter of 0.3%, or of 1% for a CPU-bound loop (whole_jobs.sql names the data).
create or replace macro block_variance(launch_bound) as if(launch_bound, 0.01, 0.003) ** 2;

-- The variance of a CPU-bound loop's ratio from one launch or host to another: the square of 0.8%.
-- Of 44 stored cells, three in four scatter by less than 0.8%; the median scatter is 0.06%.
create or replace macro launch_variance() as 0.008 ** 2;

-- The share of the error that the first `k` of `n` looks use: docs/measuring.md (How many blocks).
create or replace macro spent(k, n) as case
    when k >= n then 1
    when k < 2 then 0.4 * k
    else 0.6 + 0.4 * (k - 2) / (n - 2)
end;

-- One row for each sweep: whether its launch has ended, or the launches of all its shards. Rows
-- that are older than the column `ends_launch` count as ended.
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

-- Median log ratios (candidate / baseline), with variances, of each pair whose trials took turns.
-- `pairs` names a table with sweep_id, baseline_trial_id and candidate_trial_id.
create or replace macro logs_in_turns(pairs) as table
select
    b.sweep_id,
    b.trial_id as baseline_trial_id,
    c.trial_id as candidate_trial_id,
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
-- One key for each join. With two, DuckDB first joins each trial of a sweep with every other.
inner join records as b on [asked.sweep_id, asked.baseline_trial_id] = [b.sweep_id, b.trial_id]
inner join records as c on [asked.sweep_id, asked.candidate_trial_id] = [c.sweep_id, c.trial_id]
where b.in_turns and c.in_turns;

-- The steps of `block_pairs`; a question can query each. 1. One row for each trial of a side, in
-- cells that have both sides. Twins are left out unless the flag is `twin`.
create or replace macro contrast_trials(flag, from_value, to_value, of_sweep) as table
with chosen as (
    from configured(flag, of_sweep, raced_out := true)
    where setting in (from_value, to_value) and (flag = 'twin' or twin = 0)
)

select
    -- with the flag `code` the two sides' hashes differ, so here they are made equal
    * replace ( -- noqa: AM04
        if(flag = 'code', min(software_hash) over (partition by cell_id), software_hash)
            as software_hash,
        if(flag = 'code', null, workload_hash) as workload_hash
    ),
    setting = from_value as b,
    setting = to_value as c,
    status = 'ok' as ok,
    coalesce(in_turns, false) as took_turns,
    coalesce(compute_cache, 'none') as cache,
    -- a compiler that makes CUDA graphs records them in the second call
    execution in ('reduce_overhead', 'max_autotune') as records_later,
    -- no lists of structs, so that rows stay small until the trials are paired
    list_transform(cold, lambda met:
        met.first_ms + if(records_later, greatest(met.second_ms - steady_wall_ms, 0), 0)
    ) as first_ms,
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
    -- the part of each shape's first calls that is neither step nor search; null: unknown
    case
        when execution is null then list_transform(first_ms, lambda _: 0.0::double)
        when cold_compile_ms is null or not records_later then cold_compile_ms
        else list_transform(
            list_zip(cold_compile_ms, cold),
            lambda part: part[1] + greatest(part[2].second_ms - steady_wall_ms, 0)
        )
    end as compile_ms,
    compiled_graphs is not null as compiles,
    list_concat(
        if(
            status not in ('ok', 'raced_out') and execution is not null,
            [split_part(message, chr(10), 1)], []
        ),
        list_transform(graph_breaks, lambda reason: 'graph break: ' || reason)
    ) as execution_notes,
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
        -- a search builds many plans; null (unknown) if several were built and none was timed
        when list_max(list_transform(logged_choices, lambda choice: choice.plans_built)) <= 1
            then false
    end as searched
from chosen -- noqa: AL04
-- for a rarely set value, this leaves out most of a store: cells without that value
where [cell_id, other_settings] in (
    select [cell_id, other_settings]
    from chosen
    group by cell_id, other_settings
    having bool_or(setting = from_value) and bool_or(setting = to_value)
);

create or replace macro of_each_side() as [
    'ok', 'trial_id', 'loop_kind', 'cache', 'steps', 'steady_wall_ms', 'steady_device_ms', 'source',
    'kernels_source', 'kernels_hash', 'settings', 'first_ms', 'second_ms', 'one_time_ms',
    'compile_ms', 'compiles', 'cache_entries', 'peak_reserved_bytes', 'peak_allocated_bytes',
    'workspace_bytes', 'fingerprint', 'bitwise_repeatable', 'relative_l2_error'
];

-- 2. One row for each combination of a block and other settings: the columns `of_each_side` of both
-- trials (null if one is missing), and any reason why the setting cannot matter at this `place`.
create or replace macro contrast_blocks(flag, from_value, to_value, of_sweep) as table
with trials as (from contrast_trials(flag, from_value, to_value, of_sweep)),

reasons as (
    select
        place_of(cell_id, env_hash, software_hash, workload_hash, other_settings) as place,
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
        -- the baseline's values; if the candidate's values differ, the two trials are no pair
        arg_max(columns(['env_hash', 'software_hash', 'workload_hash']), b),
        arg_max(concat_ws('|', host, launch_id), b) as ran_at,
        any_value(columns(of_each_side())) filter (where b) as 'baseline_\0', -- noqa: RF05
        any_value(columns(of_each_side())) filter (where c) as 'candidate_\0', -- noqa: RF05
        any_value(steady_peak_reserved_bytes) filter (where b) as baseline_steady_reserved_bytes,
        any_value(steady_peak_reserved_bytes) filter (where c) as candidate_steady_reserved_bytes,
        any_value(shape_names) filter (where b) as shape_names,
        if(flag = 'twin', null, min(looks)) as looks, -- a resumed sweep may have more of them
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
        flatten(list(warnings)) as warnings,
        flatten(list(execution_notes)) as execution_notes
    from trials
    group by sweep_id, block, cell_id, other_settings, software
    -- blocks without a twin, or with a config that was raced out, do not count as incomplete pairs
    having (flag <> 'twin' or bool_or(twin = 1)) and not bool_or(status = 'raced_out')
)

select
    joined.*, -- noqa: AM04
    reasons.*,
    if(
        baseline_loop_kind <> candidate_loop_kind, 'mixed',
        coalesce(baseline_loop_kind, candidate_loop_kind)
    ) as own_kind,
    least(len(baseline_first_ms), len(candidate_first_ms)) as shapes,
    -- an open loop's budget may end one trial earlier; then only steps that both made are compared
    own_kind = 'open' and baseline_steps <> candidate_steps as is_uneven,
    least(baseline_steps, candidate_steps) as fewer_steps
from joined
inner join reasons
    on place_of(cell_id, env_hash, software_hash, workload_hash, other_settings) = place;

-- 3. The same rows with comparable times. If the trials took turns, the times are adjusted so that
-- their ratio is the median over rounds. `pairing` is paired, doubtful, split (on two slots or in
-- two launches) or unpaired (one trial failed or is missing). A pair is doubtful if a trial shared
-- its GPU, or both were throttled. If only one was throttled, its setting may be the cause, and
-- without such pairs blocks would be chosen by outcome. The blocks of one verdict have one
-- `judged_cell`. Device times of two sources are null. So are `compute_cache` if the trials met two
-- states, and `choice` if the kernels are unknown. Cold costs are over shapes that both trials met.
create or replace macro timed_blocks(flag, from_value, to_value, of_sweep) as table
with kinds as (from contrast_blocks(flag, from_value, to_value, of_sweep)),

turns as (from logs_in_turns('kinds'))

select
    kinds.*, -- noqa: AM04
    case
        when kinds.baseline_ok is null then 'candidate'
        when kinds.candidate_ok is null then 'baseline'
        else 'both'
    end as present,
    case
        when not (coalesce(kinds.baseline_ok, false) and coalesce(kinds.candidate_ok, false))
            then 'unpaired'
        when not kinds.same_place then 'split'
        when kinds.shared or (kinds.baseline_throttled and kinds.candidate_throttled)
            then 'doubtful'
        else 'paired'
    end as pairing,
    coalesce(not kinds.baseline_ok, false) as baseline_failed,
    coalesce(not kinds.candidate_ok, false) as candidate_failed,
    -- a pair that has no kind of its own has that of the cell's other pairs
    coalesce(kinds.own_kind, max(kinds.own_kind) over here) as loop_kind,
    coalesce(kinds.own_turns, bool_or(kinds.own_turns) over here, false) as in_turns,
    concat_ws('|', kinds.place, loop_kind, in_turns) as judged_cell,
    case
        when kinds.baseline_cache = kinds.candidate_cache then kinds.baseline_cache
        when flag = 'compute_cache_disabled' and kinds.candidate_cache = 'disabled'
            then kinds.baseline_cache
        when flag = 'compute_cache_disabled' and kinds.baseline_cache = 'disabled'
            then kinds.candidate_cache
    end as compute_cache,
    comparable_ms(
        kinds.own_kind <> 'mixed',
        if(kinds.is_uneven, list_avg(b_loop.ms[:kinds.fewer_steps]), null),
        kinds.baseline_steady_wall_ms, kinds.candidate_steady_wall_ms, -turns.wall_log
    ) as baseline_ms,
    comparable_ms(
        kinds.own_kind <> 'mixed',
        if(kinds.is_uneven, list_avg(c_loop.ms[:kinds.fewer_steps]), null),
        kinds.candidate_steady_wall_ms, kinds.baseline_steady_wall_ms, turns.wall_log
    ) as candidate_ms,
    turns.wall_error,
    turns.device_error,
    of_one_clock(kinds.baseline_source, kinds.candidate_source) as one_clock,
    comparable_ms(
        one_clock, null,
        kinds.baseline_steady_device_ms, kinds.candidate_steady_device_ms, -turns.device_log
    ) as baseline_device_ms,
    comparable_ms(
        one_clock, null,
        kinds.candidate_steady_device_ms, kinds.baseline_steady_device_ms, turns.device_log
    ) as candidate_device_ms,
    list_sum(kinds.baseline_first_ms[:kinds.shapes]) as baseline_cold_ms,
    list_sum(kinds.candidate_first_ms[:kinds.shapes]) as candidate_cold_ms,
    kinds.candidate_first_ms[1] - kinds.baseline_first_ms[1] as first_shape_extra_ms,
    kinds.baseline_fingerprint = kinds.candidate_fingerprint as same_bits,
    case
        when kinds.baseline_kernels_source = kinds.candidate_kernels_source
            then kinds.baseline_kernels_hash || ' ' || kinds.candidate_kernels_hash
    end as choice,
    if(choice is null, null, kinds.baseline_kernels_hash <> kinds.candidate_kernels_hash)
        as other_kernels
from kinds
left join turns
    on
        [kinds.sweep_id, kinds.baseline_trial_id, kinds.candidate_trial_id]
        = [turns.sweep_id, turns.baseline_trial_id, turns.candidate_trial_id]
left join open_loops() as b_loop on [kinds.sweep_id, kinds.baseline_trial_id] = b_loop.id
left join open_loops() as c_loop on [kinds.sweep_id, kinds.candidate_trial_id] = c_loop.id
window here as (partition by kinds.place);

-- 4. The same rows with what else a verdict rests on. `share` is the share of the error that this
-- look spends (over several sweeps, the mean over blocks). If more blocks may come (`is_over` is
-- false, or null in an unfinished sweep), blocks after the last look have `waits` and are not
-- `is_counted`; before the first look, `too_early` is true. `wall_elsewhere` is `block_variance`; a
-- loop counts as CPU-bound if that is unknown. `device_elsewhere` is the `block_variance` of a loop
-- that is not CPU-bound. `origin` is the host and the launch.
create or replace macro block_pairs(flag, from_value, to_value, of_sweep, is_over := null) as table
with blocks as (from timed_blocks(flag, from_value, to_value, of_sweep)),

counted as (
    select
        blocks.*,
        coalesce(is_over, swept.has_ended) as is_last,
        count(*) filter (where present = 'both') over of_cell as recorded,
        count(*) filter (where present = 'both') over (of_cell order by block) as number,
        coalesce(bool_or(pairing = 'paired') over (
            partition by judged_cell order by blocks.sweep_id groups between
            unbounded preceding and unbounded following exclude group
        ), false) as beside_others
    from blocks
    inner join ended_sweeps() as swept on blocks.sweep_id = swept.sweep_id
    window of_cell as (partition by blocks.sweep_id, cell_id, other_settings)
),

looked as (
    select
        * replace (if(recorded = 0 and beside_others, null, looks) as looks),
        coalesce(list_max(list_filter(looks, lambda look: look <= recorded)), 0) as last_look,
        len(list_filter(looks, lambda look: look < recorded)) as looks_before,
        greatest(len(list_filter(looks, lambda look: look <= recorded)), 1) as reached,
        not is_last and looks is not null and last_look = 0 as is_before_looks,
        not is_last and pairing = 'paired' and number > last_look and last_look > 0 as waits,
        pairing = 'paired' and not waits as is_counted,
        not coalesce(list_contains(looks, recorded), true) as is_between,
        case
            when looks is null then 1
            when is_last and recorded > 1 then 1 - spent(looks_before, len(looks))
            else spent(reached, len(looks)) - spent(reached - 1, len(looks))
        end as own_share
    from counted
)

select
    *, -- noqa: AM04
    round(
        coalesce(avg(own_share) filter (where is_counted) over cell, min(own_share) over cell), 4
    ) as share,
    sum(launch_bound) filter (where pairing = 'paired') over cell
    > 0.5 * nullif(sum(launch_bound_known) filter (where pairing = 'paired') over cell, 0)
        as waits_for_cpu,
    bool_and(is_before_looks) over cell as too_early,
    bool_and(is_between) over cell as between_looks,
    list_max(looks) as at_most,
    if(waits_for_cpu, ran_at, null) as origin,
    if(in_turns and loop_kind = 'closed', block_variance(coalesce(waits_for_cpu, true)), null)
        as wall_elsewhere,
    if(wall_elsewhere is null, null, block_variance(false)) as device_elsewhere
from looked
window cell as (partition by judged_cell);

-- Sweeps whose blocks resemble the preceding blocks beyond chance, at 5%. The test sums lag-1
-- products of a cell's log ratios (last config / first, in units of its scatter). For n independent
-- blocks the sum has mean -(n - 1) / n and variance (n - 1) (n - 2)^2 / n^2 (Moran, 1948).
create or replace macro resembling_sweeps(of_sweep) as table
with blocks as (
    select
        columns(['sweep_id', 'cell_id', 'block']),
        log_ratio(arg_max(steady_wall_ms, settings), arg_min(steady_wall_ms, settings)) as log -- noqa
    from configured(null, of_sweep)
    where
        status = 'ok' and twin = 0 and loop_kind = 'closed' and not is_doubtful(warnings)
        -- in a race, the first and the last config may differ from block to block
        and sweep_id not in (
            select sweep_id from records
            where status = 'raced_out'
        )
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
