-- Did a setting help or hurt, night by night?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $launch TEXT = NULL: name that ends the nights' sweep_ids; every sweep where null
-- $until TEXT = NULL: last night, as 2026-11-21; all where null
-- terminal: night, cell, contrast, other_settings, word, processes
-- none: no night has two configs that differ in the setting alone
--
-- A row a night, cell, software and set of other settings, of wall times. A night is judged by
-- its own blocks alone, at 5% a cell, uncorrected: what is unusual is confirmed by fresh blocks.
--
-- night: sweep_id of the night, or of its confirmation
-- word: helps, hurts, equivalent, inconclusive or no_effect
-- processes: paired blocks
with logs as (
    select
        sweep_id,
        env_hash,
        software_hash,
        cell_id,
        other_settings,
        no_effect_reason,
        log_ratio(candidate_ms, baseline_ms) as log_ratio
    from block_pairs($field, $baseline, $candidate, null)
    where
        pairing = 'paired'
        and ($launch is null or night_parts(sweep_id)['launch'] = $launch)
        and ($until is null or night_parts(sweep_id)['date'] <= $until)
),

estimates as (
    select
        sweep_id,
        env_hash,
        cell_id,
        other_settings,
        software_hash,
        any_value(no_effect_reason) as no_effect_reason,
        count(log_ratio) as blocks,
        count(log_ratio) - 1 as df,
        avg(log_ratio) as mean,
        standard_error(log_ratio) as se,
        ln(1 + $min_effect) as least_log
    from logs
    group by sweep_id, env_hash, software_hash, cell_id, other_settings
)

select -- noqa: ST06
    sweep_id as night,
    shown(
        no_effect_reason,
        coalesce(
            verdict(mean, se, df, p_of_effect(mean, se, df, least_log), least_log, 1),
            'inconclusive'
        )
    ) as word,
    blocks as processes,
    $field || ': ' || $baseline || ' → ' || $candidate as contrast,
    other_settings,
    cell_id,
    env_hash,
    software_hash
from estimates
order by cell_id, other_settings, contrast, env_hash, night, software_hash
