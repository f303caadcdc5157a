-- Does benchmark pay where sizes stay, and hurt where they change?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, measure, baseline_value, candidate_value, value[value_low value_high],
--     outcome
--
-- Every cell under PyTorch's other settings. Where sizes stay, a cell holds if its wall time helps;
-- where they come back or are always new, if it hurts. The crossing stands beside: the iterations
-- at one shape after which its search has paid, of the shapes at which a step gets faster. Its
-- baseline and candidate are what the search costs and what an iteration then saves, in ms.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        case
            when loop_kind = 'open' then 'always new'
            when regime = 'fixed' then 'sizes stay'
            else 'sizes come back'
        end as condition,
        if(regime = 'fixed', 'helps', 'hurts') as wanted
    from helps_or_hurts(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where state = 'plain' and other_settings = usual_besides('benchmark', '')
),

times as materialized (
    select * from process_times('benchmark', $sweep_id)
),

figures as (
    select *
    from timed_figures('found', 'times', 'false', 'true')
    where outcome is not null
    union all by name
    select
        'crossing where it pays, compute cache ' || compute_cache as condition,
        'iterations per distinct shape' as measure,
        outcome as verdict_of_it,
        tuning_ms as baseline_value,
        gain_ms as candidate_value,
        break_even_iterations as value,
        break_even_low as value_low,
        break_even_high as value_high,
        contrast,
        2 * tuning_blocks as trials,
        shape as input_shape,
        cell_id,
        software_hash
    from break_even(per := 'shape', of_sweep_id := $sweep_id)
    where
        outcome in ('after', 'at once') and state = 'plain'
        and other_settings = usual_besides('benchmark', '')
)

select *
from claimed(
    'figures',
    4,
    'benchmark=True pays when the network is fixed and input sizes do not change; it hurts when '
    || 'sizes vary in each iteration.',
    'sweep launch --suite claims --only problem=tutorials/r3d18_stem'
)
