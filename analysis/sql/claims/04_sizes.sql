-- Does benchmark help if input sizes stay the same, and hurt if the sizes change?
-- terminal: verdict, cell, measure, baseline_value, candidate_value, value[value_low value_high],
--     outcome
--
-- All other settings are PyTorch's defaults. If sizes stay the same, the claim holds for a cell in
-- which benchmark helps wall time. If sizes change, it holds for a cell in which benchmark hurts
-- wall time. Rows without outcome are for shapes at which a step gets faster. They have the number
-- of iterations that pay for the search, its cost (baseline_value), and the gain of an iteration
-- (candidate_value), in ms.
with figures as ( -- noqa: disable=RF02,RF03,RF04,ST03,ST06,ST07,LT02,LT09,LT14,AL03,AM04
    select
        *,
        case
            when loop_kind = 'open' then 'always new'
            when regime = 'fixed' then 'sizes stay'
            else 'sizes come back'
        end as condition,
        claim_outcome(
            measure, verdict_of_it, verdict_of_it = if(regime = 'fixed', 'helps', 'hurts')
        ) as outcome
    from contrast_figures('benchmark', 'false', 'true', $min_effect, $sweep_id)
    where beside = '' and state = 'plain' and measure = 'wall time, ms'
    union all by name
    select
        payback.* replace (shape as input_shape, null as outcome),
        software.* exclude (software_hash),
        'crossing where it pays, compute cache ' || compute_cache as condition,
        unnest(figure_of(
            'iterations per distinct shape', outcome, tuning_ms, gain_ms, break_even_iterations,
            break_even_low, break_even_high, 2 * tuning_blocks
        ))
    from break_even(per := 'shape', of_sweep_id := $sweep_id) as payback
    inner join software_labels() as software using (software_hash)
    where
        outcome in ('after', 'at once') and state = 'plain'
        and unusual_among(other_settings) = ''
)

from claimed(
    'figures',
    4,
    'benchmark=True pays when the network is fixed and input sizes do not change; it hurts when '
    || 'sizes vary in each iteration.',
    'sweep launch --suite claims --only problem=tutorials/r3d18_stem'
)
