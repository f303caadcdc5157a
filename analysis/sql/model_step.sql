-- What does a setting change in a model's step, of which `sweep trace` listed the convolutions?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: suite, network, step, convolutions, missing, baseline_ms, candidate_ms,
--     ratio[ratio_low ratio_high], saved_ms
-- none: no suite of the results has the convolutions of a network, as `sweep trace` writes one
--
-- A row a suite, network and way to run it: the times of its convolutions, each times how often
-- a step runs it (occurrences), added up. Device times where they are known of both configs,
-- else wall times. What a step does besides convolutions is not in it, so that the share of a
-- whole step is smaller: `sweep try` measures that. Precisions, layouts and batches add up to
-- one step where each convolution has one of them, as `sweep trace` writes it, and are steps of
-- their own otherwise. The interval takes the convolutions' own intervals as independent of each
-- other.
--
-- network: what comes before the slash of a problem's name; the suite where there is none
-- step: precision, layout and batch, where a convolution was measured in several
-- convolutions: different ones, with a time of both configs
-- missing: different ones without
-- runs: how often a step runs a convolution of those that have a time
-- baseline_ms: time of those runs under the baseline
-- candidate_ms: under the candidate
-- ratio: candidate_ms / baseline_ms
-- ratio_low: lower end of its 95% interval
-- ratio_high: upper end of its 95% interval
-- saved_ms: baseline_ms less candidate_ms
-- timer: device or wall
with found as (
    select * from contrast_verdicts(
        $field, $baseline, $candidate, 0.03, 1000, 'warm', $sweep_id, 0
    )
),

cells as (
    select
        suite,
        cell_id,
        any_value(columns(['problem', 'occurrences', 'direction', 'regime', 'state'])),
        any_value(precision) || ' ' || any_value(layout) || ' batch ' || any_value(input_shape)[1]
            as way
    from records
    where
        problem is not null
        and ($sweep_id is null or sweep_id glob $sweep_id)
    group by suite, cell_id
),

measured as (
    select
        cells.*,
        found.contrast,
        found.other_settings,
        found.in_turns,
        found.env_hash,
        found.software_hash,
        found.workload_hash,
        if(strpos(cells.problem, '/') > 0, split_part(cells.problem, '/', 1), cells.suite)
            as network,
        found.device_ratio is not null as on_device,
        coalesce(found.baseline_device_ms, found.baseline_ms) as ms,
        coalesce(found.device_ratio, found.ratio) as ratio,
        if(found.device_ratio is null, found.ratio_low, found.device_ratio_low) as low,
        if(found.device_ratio is null, found.ratio_high, found.device_ratio_high) as high
    from cells
    inner join found on cells.cell_id = found.cell_id
),

-- Ways that one convolution was measured in are alternatives, and steps of their own.
ways as (
    select
        suite,
        network,
        problem,
        count(distinct way) as ways
    from measured
    group by suite, network, problem
),

stepped as (
    select -- noqa: ST06
        measured.*,
        if(max(ways.ways) over network > 1, measured.way, 'all') as step
    from measured
    inner join ways
        on
            measured.suite = ways.suite
            and measured.network = ways.network
            and measured.problem = ways.problem
    window network as (partition by measured.suite, measured.network)
    qualify
        strpos(measured.problem, '/') = 0
        or max(measured.occurrences) over network > 1
),

added as (
    select -- noqa: ST06
        suite,
        network,
        step,
        direction,
        regime,
        state,
        contrast,
        other_settings,
        in_turns,
        bool_and(on_device) as all_on_device,
        count(ratio) as convolutions,
        count(*) - count(ratio) as missing,
        sum(occurrences) filter (ratio is not null) as runs,
        sum(occurrences * ms) filter (ratio is not null) as baseline_ms,
        sum(occurrences * ms * ratio) as candidate_ms,
        sqrt(sum((occurrences * ms * (ratio - low)) ** 2)) as below_ms,
        sqrt(sum((occurrences * ms * (high - ratio)) ** 2)) as above_ms,
        env_hash,
        software_hash,
        workload_hash
    from stepped
    group by
        suite, network, step, direction, regime, state, contrast, other_settings, in_turns,
        env_hash, software_hash, workload_hash
)

select -- noqa: ST06
    suite,
    network,
    step,
    direction,
    regime,
    state,
    contrast,
    other_settings,
    in_turns,
    convolutions,
    missing,
    runs,
    baseline_ms,
    candidate_ms,
    candidate_ms / baseline_ms as ratio,
    (candidate_ms - below_ms) / baseline_ms as ratio_low,
    (candidate_ms + above_ms) / baseline_ms as ratio_high,
    baseline_ms - candidate_ms as saved_ms,
    if(all_on_device, 'device', 'wall') as timer,
    env_hash,
    software_hash,
    workload_hash
from added
order by
    suite, network, step, direction, regime, state, contrast, other_settings, in_turns, env_hash,
    software_hash, workload_hash
