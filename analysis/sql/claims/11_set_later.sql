-- What does benchmark do that is set later, or around the forward pass alone?
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: verdict, cell, condition, baseline_value, candidate_value,
--     value[value_low value_high], outcome
--
-- Cells in which benchmark helps when it is set before the first step. It matters when it is set
-- where the whole interval of the ratio lies above the one of that: less was gained.
-- `benchmark_later` sets it after the first step, `benchmark_around_forward` around the forward
-- pass alone. The cells with benchmark set before stand beside, and so do cells in which it gains
-- nothing at any time.
with found as materialized ( -- noqa: disable=RF02,RF04,ST03,ST06,LT02,LT09,LT14,AM04
    select *
    from helps_or_hurts(min_effect := $min_effect, of_sweep_id := $sweep_id)
    where
        state in ('plain', 'benchmark_later', 'benchmark_around_forward')
        and other_settings = usual_besides('benchmark', '')
),

compared as materialized (
    select
        late.*,
        early.cell_id as early_cell_id,
        case late.state
            when 'benchmark_later' then 'after the first step'
            else 'around the forward pass'
        end as condition,
        null as wanted,
        case
            when not is_decided(early.wall_verdict) or late.ratio_low is null then 'undecided'
            when coalesce(early.wall_verdict, '') <> 'helps' then null
            when late.ratio_low > early.ratio_high then 'holds'
            else 'does not hold'
        end as found_outcome
    from found as late
    inner join found as early
        on
            late.workload = early.workload
            and late.problem is not distinct from early.problem
            and late.direction = early.direction
            and late.input_shape = early.input_shape
            and late.regime = early.regime
            and late.precision = early.precision
            and late.layout = early.layout
            and late.env_hash = early.env_hash
            and late.software_hash = early.software_hash
            and late.loop_kind = early.loop_kind
            and late.in_turns = early.in_turns
    where early.state = 'plain' and late.state <> 'plain'
),

set_before as materialized (
    select
        *,
        'set before the first step' as condition,
        null as wanted
    from found
    where
        state = 'plain'
        and cell_id in (select compared.early_cell_id from compared)
),

times as materialized (
    select * from process_times('benchmark', $sweep_id)
),

figures as (
    select timed.* replace (if(timed.outcome is null, null, compared.found_outcome) as outcome)
    from timed_figures('compared', 'times', 'false', 'true') as timed
    inner join compared on timed.cell_id = compared.cell_id
    union all
    select * replace (null as outcome)
    from timed_figures('set_before', 'times', 'false', 'true')
)

select *
from claimed(
    'figures',
    11,
    'It should be set before training starts.',
    'sweep launch --suite claims --only problem=tutorials/r3d18_stem'
)
