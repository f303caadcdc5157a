-- How does a setting's effect change with the way shapes arrive?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $workload TEXT = NULL: one workload; all where null
-- $problem TEXT = NULL: one convolution problem; all where null
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $iterations BIGINT = 1000: iterations over which the net verdict weighs gain against cold cost
-- $compute_cache TEXT = 'warm': empty or warm, the state whose cold cost the net verdict takes
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_in_words,
--     device_ratio, net_verdict
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell and set of other settings, as helps_or_hurts has them and with the same verdicts;
-- the regimes of one workload or problem follow each other, the fixed shape first, then by their
-- number of shapes.
--
-- distinct_shapes: most distinct shapes met before timing
-- gain_ms: time per iteration that the candidate saves, of the means
-- ratio_when_fixed: the ratio of the same workload under the regime fixed
-- net_ratio: (cold cost + $iterations × time) of the candidate / that of the baseline
-- net_verdict: verdict on the net ratio; null for an open loop
with found as (
    select * from contrast_verdicts(
        $field, $baseline, $candidate, $min_effect, $iterations, $compute_cache, $sweep_id, 0
    )
),

numbers as (
    select
        cell_id,
        any_value(regime_parameters) as regime_parameters
    from records
    group by cell_id
),

labelled as (
    select -- noqa: ST06
        labels.* exclude (cell_id), -- noqa: AM04, RF02
        found.*,
        numbers.regime_parameters,
        found.baseline_ms - found.candidate_ms as gain_ms
    from found
    inner join cell_labels() as labels on found.cell_id = labels.cell_id
    inner join numbers on found.cell_id = numbers.cell_id
),

compared as (
    select
        *,
        max(ratio) filter (where regime = 'fixed') over (
            partition by
                workload, problem, direction, input_shape, state, precision, layout, other_settings,
                env_hash, software_hash, workload_hash
        ) as ratio_when_fixed
    from labelled
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
    regime_parameters,
    contrast,
    other_settings,
    loop_kind,
    in_turns,
    distinct_shapes,
    blocks,
    baseline_ms,
    candidate_ms,
    gain_ms,
    ratio,
    ratio_low,
    ratio_high,
    wall_verdict,
    wall_in_words,
    ratio_when_fixed,
    device_ratio,
    device_verdict,
    net_ratio,
    net_verdict,
    no_effect_reason,
    cell_id,
    env_hash,
    software_hash,
    workload_hash
from compared
where
    ($workload is null or workload = $workload)
    and ($problem is null or problem = $problem)
order by
    gpu asc, workload asc, problem asc, direction asc, input_shape asc, state asc, precision asc,
    layout asc, other_settings asc, software_hash asc, regime = 'fixed' desc, distinct_shapes asc,
    regime asc, loop_kind asc, in_turns asc, cell_id asc, env_hash asc,
    workload_hash asc
