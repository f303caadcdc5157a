-- Where does a setting help, where does it hurt, and where does it make no difference?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $iterations BIGINT = 1000: iterations over which the net verdict weighs gain against cold cost
-- $compute_cache TEXT = 'warm': empty or warm, the state whose cold cost the net verdict takes
-- $sweep_id TEXT = NULL: one sweep; all where null
--
-- A ratio is candidate time / baseline time, the geometric mean over blocks, with its 95% interval.
-- Each verdict tests against the minimum effect; 5% of those that help or hurt may be wrong
-- (Benjamini-Hochberg over the rows). Without CUDA, or with its cache disabled in both configs, the
-- net verdict takes every block. launch_bound: most trials waited for the CPU's launches. Field
-- twin, '0' against '1', compares each config with itself in the A/A pairs: whatever helps or hurts
-- there is a false alarm.
with blocks as materialized (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, other_settings, loop_kind) as cell,
        loop_kind = 'closed'
        and compute_cache in ($compute_cache, 'none', 'disabled') as weighs_cold
    from block_pairs($field, $baseline, $candidate, $sweep_id)
),

times as (
    select
        cell,
        'wall' as clock,
        candidate_ms,
        baseline_ms
    from blocks
    where pairing = 'paired'
    union all
    select
        cell,
        'device' as clock,
        candidate_device_ms as candidate_ms,
        baseline_device_ms as baseline_ms
    from blocks
    where pairing = 'paired'
    union all
    select
        cell,
        'net' as clock,
        candidate_cold_ms + $iterations * candidate_ms as candidate_ms,
        baseline_cold_ms + $iterations * baseline_ms as baseline_ms
    from blocks
    where pairing = 'paired' and weighs_cold
),

ratios as (
    select
        cell,
        clock,
        log_ratio(candidate_ms, baseline_ms) as log_ratio
    from times
),

estimated as (
    select
        cell,
        clock,
        ln(1 + $min_effect) as min_log_ratio,
        count(log_ratio) as blocks,
        count(log_ratio) - 1 as df,
        avg(log_ratio) as mean,
        standard_error(log_ratio) as se,
        t_95(df) * se as margin,
        p_of_effect(mean, se, df, min_log_ratio) as p
    from ratios
    group by cell, clock
),

scaled as (
    select
        *,
        p * count(p) over (partition by clock)
        / row_number() over (partition by clock order by p nulls last) as scaled_p
    from estimated
),

adjusted as (
    select
        *,
        if(p is null, null, min(scaled_p) over (partition by clock order by p desc nulls last))
            as adjusted_p
    from scaled
),

judged as materialized (
    select
        cell,
        clock,
        blocks,
        exp(mean) as ratio,
        exp(mean - margin) as ratio_low,
        exp(mean + margin) as ratio_high,
        verdict(mean, se, df, adjusted_p, min_log_ratio) as verdict
    from adjusted
    where blocks > 0
),

cells as (
    select
        cell,
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(workload) as workload,
        any_value(problem) as problem,
        any_value(direction) as direction,
        any_value(input_shape) as input_shape,
        any_value(regime) as regime,
        any_value(state) as state,
        any_value(precision) as precision, -- noqa: RF04
        any_value(layout) as layout,
        any_value(gpu) as gpu,
        any_value(other_settings) as other_settings,
        any_value(loop_kind) as loop_kind,
        count(*) filter (where pairing = 'paired') as blocks,
        count(*) filter (where pairing = 'split') as split_blocks,
        count(*) filter (where pairing = 'unpaired') as unpaired_blocks,
        median(baseline_ms) filter (where pairing = 'paired') as baseline_ms,
        median(candidate_ms) filter (where pairing = 'paired') as candidate_ms,
        max(baseline_peak_reserved_bytes) as baseline_peak_reserved_bytes,
        max(candidate_peak_reserved_bytes) as candidate_peak_reserved_bytes,
        median(baseline_device_ms) filter (where pairing = 'paired') as baseline_device_ms,
        median(candidate_device_ms) filter (where pairing = 'paired') as candidate_device_ms,
        list_avg(flatten(list(launch_bound::int[]) filter (where pairing = 'paired'))) > 0.5
            as launch_bound,
        coalesce(flatten(list(warnings) filter (where pairing = 'paired')), []) as every_warning,
        list_sort(list_distinct(every_warning)) as warnings,
        any_value(no_effect_reason) as no_effect_reason,
        any_value(torch) as torch,
        any_value(cudnn) as cudnn,
        any_value(driver) as driver,
        any_value(cell_id) as cell_id,
        any_value(env_hash) as env_hash,
        any_value(software_hash) as software_hash
    from blocks
    group by cell
    having bool_or(present <> 'candidate') and bool_or(present <> 'baseline')
),

answered as (
    select
        cells.*,
        wall.ratio,
        wall.ratio_low,
        wall.ratio_high,
        device.ratio as device_ratio,
        device.ratio_low as device_ratio_low,
        device.ratio_high as device_ratio_high,
        device.verdict as device_statistical_verdict,
        net.blocks as net_blocks,
        net.ratio as net_ratio,
        net.ratio_low as net_ratio_low,
        net.ratio_high as net_ratio_high,
        coalesce(wall.verdict, 'inconclusive') as wall_statistical_verdict,
        if(cells.loop_kind = 'open', null, coalesce(net.verdict, 'inconclusive')) as net_verdict
    from cells
    left join judged as wall on cells.cell = wall.cell and wall.clock = 'wall'
    left join judged as device on cells.cell = device.cell and device.clock = 'device'
    left join judged as net on cells.cell = net.cell and net.clock = 'net'
),

shown as (
    select
        * replace (shown(no_effect_reason, net_verdict) as net_verdict),
        shown(no_effect_reason, wall_statistical_verdict) as wall_verdict,
        shown(no_effect_reason, device_statistical_verdict) as device_verdict
    from answered
)

select
    workload,
    problem,
    direction,
    input_shape,
    regime,
    state,
    precision,
    layout,
    gpu,
    contrast,
    other_settings,
    loop_kind,
    blocks,
    split_blocks,
    unpaired_blocks,
    baseline_ms,
    candidate_ms,
    ratio,
    ratio_low,
    ratio_high,
    wall_verdict,
    baseline_device_ms,
    candidate_device_ms,
    device_ratio,
    device_ratio_low,
    device_ratio_high,
    device_verdict,
    net_blocks,
    net_ratio,
    net_ratio_low,
    net_ratio_high,
    net_verdict,
    no_effect_reason,
    launch_bound,
    warnings,
    wall_statistical_verdict,
    device_statistical_verdict,
    baseline_peak_reserved_bytes,
    candidate_peak_reserved_bytes,
    torch,
    cudnn,
    driver,
    cell_id,
    env_hash,
    software_hash
from shown
order by
    gpu, workload, problem, direction, input_shape, regime, state, precision, layout,
    other_settings, software_hash, loop_kind
