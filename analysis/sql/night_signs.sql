-- Did a setting help or hurt, night by night?
-- terminal: night, cell, contrast, other_settings, word, processes
-- none: no night has two configs that differ only in the setting
--
-- There is one row for each night, cell, software and set of other settings. A verdict compares
-- wall times of the night's own blocks. Each cell is tested at the 5% level, without a correction
-- for the number of cells.
--
-- word: verdict: helps, hurts, equivalent, inconclusive or no_effect
with logs as (
    select -- noqa: ST06
        columns([
            'sweep_id', 'env_hash', 'software_hash', 'cell_id', 'other_settings',
            'no_effect_reason', 'choice'
        ]),
        concat_ws('|', sweep_id, other_settings, no_effect_reason is null) as pool,
        concat_ws('|', sweep_id, env_hash, software_hash, cell_id, other_settings) as cell,
        'wall' as clock,
        log_ratio(candidate_ms, baseline_ms) as observed
    from block_pairs($field, $baseline, $candidate, null)
    where pairing = 'paired' and is_night_of(sweep_id, $launch, $until)
),

nights as (
    select
        cell,
        any_value(columns([
            'sweep_id', 'env_hash', 'cell_id', 'other_settings', 'software_hash', 'no_effect_reason'
        ])),
        count(observed) as blocks
    from logs
    group by cell
),

estimates as (select *, cell as family from over_choices('logs')) -- noqa

select -- noqa: disable=RF02,ST06
    nights.sweep_id as night, -- sweep_id of the night, or of its confirmation
    shown(nights.no_effect_reason, coalesce(verdicts.verdict, 'inconclusive')) as word,
    nights.blocks as processes, -- number of paired blocks
    $field || ': ' || $baseline || ' → ' || $candidate as contrast,
    nights.other_settings,
    nights.cell_id,
    nights.env_hash,
    nights.software_hash
from nights
left join judged('estimates', $min_effect, 0) as verdicts on nights.cell = verdicts.cell
order by
    nights.cell_id, nights.other_settings, contrast, nights.env_hash, night, nights.software_hash
