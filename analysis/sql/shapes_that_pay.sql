-- Up to how many distinct shapes does a setting pay for itself in so many iterations?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $iterations BIGINT = 10000: iterations that a process makes, over all its shapes together
-- $compute_cache TEXT = 'warm': empty or warm, the state whose cold cost counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, outcome, shapes_that_pay, shapes_low, shapes_high, gain_ms, first_shape_ms,
--     later_shape_ms, shapes_met
-- none: no cell has two configs that differ in the setting alone, and a block that measured both
--
-- A row a cell and set of other settings, as if a run met many shapes like the cell's own: each new
-- shape costs the candidate more at its first call, each iteration saves the cell's gain. The first
-- shape also bears what all share, such as loading kernels; further ones cost what later shapes of
-- the regime cost. Of a cell that met one shape alone nobody knows that: each is then taken to cost
-- as much as the first, so that the answer is the least, without an upper end.
-- Outcomes:
--     up to         it pays up to shapes_that_pay distinct shapes
--     not one       it gains by the iteration, too little for a single shape
--     any number    further shapes cost no more than without it, and it gains
--     never         it costs more at the start, and loses by the iteration
--     inconclusive  fewer than two blocks, the gain's interval holds zero, or it loses by the
--                   iteration and costs less to start; where there is a shapes_low, it pays up to
--                   that at least
--     open loop     every shape is new: helps_or_hurts says whether that pays
--     no_effect     the setting cannot have mattered: see no_effect_reason
-- Intervals are 95% t intervals over blocks. shapes_low and _high take the ends of all three, the
-- worst and the best together.
--
-- outcome: whether it pays, as above
-- shapes_that_pay: 1 + ($iterations × gain_ms - first_shape_ms) / later_shape_ms, rounded down
-- shapes_low: its lower end; null where nothing is told
-- shapes_high: its upper end; null where one shape was met, or where there is none
-- shapes_met: distinct shapes that the cell met before timing
-- gain_blocks: paired blocks
-- gain_ms: time per iteration that the candidate saves, mean over them
-- gain_ms_low: lower end of its 95% interval
-- gain_ms_high: upper end of its 95% interval
-- tuning_blocks: those that met the compute cache in the state asked for
-- first_shape_ms: extra cold cost of the first shape, mean over them
-- first_shape_ms_low: lower end of its 95% interval
-- first_shape_ms_high: upper end of its 95% interval
-- later_shape_ms: extra cold cost of each further shape; of the first where there is no other
-- later_shape_ms_low: lower end of its 95% interval
-- later_shape_ms_high: upper end of its 95% interval
with blocks as materialized (
    select
        * exclude (judged_cell),
        judged_cell as cell,
        if(loop_kind = 'closed', baseline_ms - candidate_ms, null) as gain_ms,
        if(
            loop_kind = 'closed' and compute_cache in ($compute_cache, 'none', 'disabled'),
            first_shape_extra_ms,
            null
        ) as first_ms,
        if(
            first_ms is null or shapes < 2,
            null,
            (candidate_cold_ms - baseline_cold_ms - first_ms) / (shapes - 1)
        ) as later_ms
    from block_pairs($field, $baseline, $candidate, $sweep_id)
    where pairing = 'paired'
),

means as (
    select
        cell,
        $field || ': ' || $baseline || ' → ' || $candidate as contrast,
        any_value(columns([
            'cell_id', 'env_hash', 'software_hash', 'workload_hash', 'other_settings', 'loop_kind',
            'in_turns', 'no_effect_reason'
        ])),
        max(shapes) as shapes_met,
        count(gain_ms) as gain_blocks,
        avg(gain_ms) as gain,
        t_95(count(gain_ms) - 1) * standard_error(gain_ms) as gain_margin,
        count(first_ms) as tuning_blocks,
        avg(first_ms) as first_shape,
        t_95(count(first_ms) - 1) * standard_error(first_ms) as first_margin,
        count(later_ms) > 1 as has_later,
        if(has_later, avg(later_ms), first_shape) as later_shape,
        if(has_later, t_95(count(later_ms) - 1) * standard_error(later_ms), first_margin)
            as later_margin
    from blocks
    group by cell
),

decided as (
    select
        *,
        gain - gain_margin as gain_low,
        gain + gain_margin as gain_high,
        first_shape - first_margin as first_low,
        first_shape + first_margin as first_high,
        later_shape - later_margin as later_low,
        later_shape + later_margin as later_high,
        shapes_within($iterations * gain, first_shape, later_shape) as shapes,
        shapes_within($iterations * gain_low, first_high, later_high) as fewest,
        if(has_later, shapes_within($iterations * gain_high, first_low, later_low), null) as most,
        case
            when no_effect_reason is not null then 'no_effect'
            when loop_kind = 'open' then 'open loop'
            when not isfinite(gain_low) or not isfinite(first_low) then 'inconclusive'
            when gain_low is null or first_low is null then 'inconclusive'
            when gain_high < 0 and first_low > 0 and later_low > 0 then 'never'
            when gain_low <= 0 then 'inconclusive'
            when $iterations * gain_high < first_low then 'not one'
            when later_high <= 0 and $iterations * gain_low > first_high then 'any number'
            when shapes is null then 'inconclusive'
            else 'up to'
        end as outcome
    from means
)

select -- noqa: ST06
    labels.* exclude (cell_id), -- noqa: AM04, RF02
    decided.contrast,
    decided.other_settings,
    decided.loop_kind,
    decided.in_turns,
    decided.outcome,
    if(decided.outcome = 'up to', decided.shapes, null) as shapes_that_pay,
    if(decided.outcome in ('up to', 'inconclusive') and decided.gain_low > 0, decided.fewest, null)
        as shapes_low,
    if(decided.outcome = 'up to', decided.most, null) as shapes_high,
    decided.shapes_met,
    decided.gain_blocks,
    decided.gain as gain_ms,
    decided.gain_low as gain_ms_low,
    decided.gain_high as gain_ms_high,
    decided.tuning_blocks,
    decided.first_shape as first_shape_ms,
    decided.first_low as first_shape_ms_low,
    decided.first_high as first_shape_ms_high,
    decided.later_shape as later_shape_ms,
    decided.later_low as later_shape_ms_low,
    decided.later_high as later_shape_ms_high,
    decided.no_effect_reason,
    decided.cell_id,
    decided.env_hash,
    decided.software_hash,
    decided.workload_hash
from decided
inner join cell_labels() as labels on decided.cell_id = labels.cell_id
order by
    labels.gpu, labels.workload, labels.problem, labels.direction, labels.input_shape,
    labels.regime, labels.state, labels.precision, labels.layout, decided.other_settings,
    decided.software_hash, decided.loop_kind, decided.in_turns, decided.cell_id, decided.env_hash,
    decided.workload_hash
