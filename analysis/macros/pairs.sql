-- Macros that pair the baseline's trial of each block with the candidate's trial.

-- Return the log ratio of two processes in each round that both of them made.
create or replace macro round_logs(times, rounds, baseline_times, baseline_rounds) as
    list_transform(
        list_filter(
            list_zip(times, rounds, baseline_times, baseline_rounds), lambda each: each[2] = each[4]
        ),
        lambda each: log_ratio(each[1], each[3])
    );

-- Return whether device times of the sources `a` and `b` can be compared.
create or replace macro of_one_clock(a, b) as
    a is not distinct from b or (contains(a, 'graph') and contains(b, 'graph'));

-- Return an estimate of a median's variance that resists outliers. It is null for a single value.
create or replace macro median_variance(logs) as
    if(len(logs) > 1, pi() / 2 * (1.4826 * list_mad(logs)) ** 2 / len(logs), null);

-- Return the variance of a block's log ratio in a closed loop whose processes take turns. The data
-- behind it are named in whole_jobs.sql.
create or replace macro block_variance(launch_bound) as if(launch_bound, 0.01, 0.003) ** 2;

-- Return the variance of a CPU-bound loop's log ratio between launches and hosts. The scatter was
-- below 0.8% in three quarters of 44 stored cells.
create or replace macro launch_variance() as 0.008 ** 2;

-- Return the share of the 5% error that the first `k` of `n` interim analyses may use. The rule is
-- explained in docs/measuring.md (How many blocks).
create or replace macro spent(k, n) as case
    when k >= n then 1
    when k < 2 then 0.4 * k
    else 0.6 + 0.4 * (k - 2) / (n - 2)
end;

-- Return whether each sweep has ended. A sweep with shards ends with the last of its shards.
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

-- Return the median log ratio over rounds, with its variance, for each pair of trials that took
-- turns. `pairs` is the name of a table with sweep_id, baseline_trial_id and candidate_trial_id.
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
-- Lists are compared, because a join with two keys is slow in DuckDB.
inner join records as b on [asked.sweep_id, asked.baseline_trial_id] = [b.sweep_id, b.trial_id]
inner join records as c on [asked.sweep_id, asked.candidate_trial_id] = [c.sweep_id, c.trial_id]
where b.in_turns and c.in_turns;

-- Step 1 of `block_pairs`. Return the trials of each cell that has trials of both sides. Twins are
-- left out unless the flag is `twin`.
create or replace macro contrast_trials(flag, from_value, to_value, of_sweep) as table
with chosen as (
    from configured(flag, of_sweep, raced_out := true)
    where setting in (from_value, to_value) and (flag = 'twin' or twin = 0)
)

select
    -- The two sides have different hashes if the flag is `code`, so the hashes are made equal.
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
    -- These modes of torch.compile record CUDA graphs in the second call.
    execution in ('reduce_overhead', 'max_autotune') as records_later,
    -- Lists of numbers keep the rows smaller than lists of structs.
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
    steady_iterations as steps,
    steady_device_source as source,
    1000 * one_time_s as one_time_ms,
    -- time of compiling and graph capture in the first calls of each shape; null if unknown
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
    -- A trial with cuDNN disabled does not show what would run in cuDNN.
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
        -- A search times plans. It is unknown whether a trial searched if it built several and
        -- timed none.
        when list_max(list_transform(logged_choices, lambda choice: choice.plans_built)) <= 1
            then false
    end as searched
from chosen -- noqa: AL04
where [cell_id, other_settings] in (
    select [cell_id, other_settings]
    from chosen
    group by cell_id, other_settings
    having bool_or(setting = from_value) and bool_or(setting = to_value)
);

create or replace macro of_each_side() as [
    'ok', 'trial_id', 'loop_kind', 'cache', 'steps', 'steady_wall_ms', 'steady_device_ms', 'source',
    'kernels_source', 'kernels_hash', 'settings', 'first_ms', 'second_ms', 'one_time_ms',
    'compile_ms', 'compiles', 'peak_reserved_bytes', 'peak_allocated_bytes', 'workspace_bytes',
    'fingerprint', 'bitwise_repeatable', 'relative_l2_error'
];

-- Step 2 of `block_pairs`. Return one row for each block and set of other settings, with columns
-- of both trials.
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
        -- These are the baseline's values. Two trials with different values are not paired.
        arg_max(columns(['env_hash', 'software_hash', 'workload_hash']), b),
        arg_max(concat_ws('|', host, launch_id), b) as ran_at,
        any_value(columns(of_each_side())) filter (where b) as 'baseline_\0', -- noqa: RF05
        any_value(columns(of_each_side())) filter (where c) as 'candidate_\0', -- noqa: RF05
        any_value(steady_peak_reserved_bytes) filter (where b) as baseline_steady_reserved_bytes,
        any_value(steady_peak_reserved_bytes) filter (where c) as candidate_steady_reserved_bytes,
        any_value(shape_names) filter (where b) as shape_names,
        if(flag = 'twin', null, min(looks)) as looks, -- a resumed sweep may have several lists
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
    -- In an open loop, one trial may make fewer steps. Only the steps of both are compared.
    own_kind = 'open' and baseline_steps <> candidate_steps as is_uneven,
    least(baseline_steps, candidate_steps) as fewer_steps
from joined
inner join reasons
    on place_of(cell_id, env_hash, software_hash, workload_hash, other_settings) = place;

-- Step 3 of `block_pairs`. Return the rows of step 2 with times that can be compared. If the trials
-- took turns, the ratio of their times is the median over rounds. All blocks of a verdict have the
-- same `judged_cell`. The column `pairing` has one of these words:
--     paired    both trials are ok, and their times can be compared
--     doubtful  a trial shared its GPU, or both trials were throttled
--     split     the trials ran on different slots or in different launches
--     unpaired  a trial failed or is missing
-- A pair with one throttled trial is kept, because its setting may be the cause.
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
    -- A pair without a kind of its own gets the kind of the cell's other pairs.
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

-- Step 4 of `block_pairs`. Return the rows of step 3 with more columns for the verdict.
-- `is_counted` is true for the blocks that the verdict uses. In an unfinished sweep, these are the
-- blocks up to the last interim analysis. `too_early` is true before the first one. `is_over`
-- states whether the sweep is finished; null: as stored. `share` is the share of the 5% error that
-- the last analysis may use. `origin` is the host and launch of a CPU-bound loop.
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

-- Return the sweeps whose successive blocks are correlated, by a test at the 5% level. The test
-- uses the moments of Moran (1948) for products of successive values.
create or replace macro resembling_sweeps(of_sweep) as table
with blocks as (
    select
        columns(['sweep_id', 'cell_id', 'block']),
        log_ratio(arg_max(steady_wall_ms, settings), arg_min(steady_wall_ms, settings)) as log -- noqa
    from configured(null, of_sweep)
    where
        status = 'ok' and twin = 0 and loop_kind = 'closed' and not is_doubtful(warnings)
        -- In a race, the first and the last config may differ between blocks.
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
