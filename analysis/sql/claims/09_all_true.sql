-- Are enabled, benchmark and deterministic, all True, a sensible default?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, condition, measure, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- enabled is True in PyTorch anyway. So the default is sensible in a cell where benchmark still
-- helps when only deterministic engines are left, and where deterministic costs nothing when
-- benchmark is on: a wall time that is not longer by $min_effect or more.
with added as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select
        *,
        'benchmark still helps' as condition,
        'helps' as wanted
    from helps_or_hurts(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where state = 'plain' and other_settings = usual_besides('benchmark', 'deterministic=true')
),

taken as materialized (
    select
        *,
        'deterministic costs nothing' as condition,
        if(wall_verdict in ('hurts', 'fails'), 'equivalent', wall_verdict) as wanted
    from helps_or_hurts(
        field := 'deterministic', min_effect := $min_effect, of_sweep_id := $sweep_id
    )
    where state = 'plain' and other_settings = usual_besides('deterministic', 'benchmark=true')
),

times as materialized (
    select * from process_times('benchmark', $sweep_id)
),

other_times as materialized (
    select * from process_times('deterministic', $sweep_id)
),

figures as (
    select * from timed_figures('added', 'times', 'false', 'true')
    union all
    select * from timed_figures('taken', 'other_times', 'false', 'true')
)

select *
from claimed(
    'figures',
    9,
    'Setting enabled, benchmark and deterministic all True is a sensible default.',
    'sweep launch --suite claims'
)
