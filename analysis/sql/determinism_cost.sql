-- What does determinism cost in speed, and what was reproducible without it?
-- $field TEXT = 'deterministic': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, baseline_ms, candidate_ms, ratio[ratio_low ratio_high], wall_in_words,
--     device_ratio, reproducibility
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell and set of other settings. Results are the bits of one step's outputs and gradients
-- from equal inputs; distinct ones are counted over processes, and a process repeats its own where
-- a second run gave the same bits. Reproducibility, of the processes seen:
--     already       the baseline gave the same bits always
--     gained        it did not, the candidate does
--     not gained    neither does
--     lost          the baseline did, the candidate does not
-- and null where one of them has less than two processes whose bits are known. Times are as in
-- helps_or_hurts, with the same verdicts.
--
-- reproducibility: what the candidate changes of it, as above
-- baseline_processes: processes of the baseline whose bits are known
-- baseline_distinct_results: different results among them
-- baseline_repeatable: whether each of them gave its bits again
-- candidate_processes: processes of the candidate whose bits are known
-- candidate_distinct_results: different results among them
-- candidate_repeatable: whether each of them gave its bits again
-- blocks_with_bits: paired blocks where the bits of both are known
-- blocks_with_same_bits: those where both gave the same
with found as (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash, other_settings) as place
    from contrast_verdicts(
        $field, $baseline, $candidate, $min_effect, 1000, 'warm', $sweep_id, 0
    )
),

results as (
    select
        setting,
        concat_ws('|', cell_id, env_hash, software_hash, workload_hash, other_settings) as place,
        count(fingerprint) as processes,
        count(distinct fingerprint) as distinct_results,
        bool_and(bitwise_repeatable) as repeats,
        distinct_results = 1 and coalesce(repeats, true) as reproducible
    from configured($field, $sweep_id)
    where status = 'ok' and fingerprint is not null
    group by place, setting
)

select -- noqa: ST06
    labels.* exclude (cell_id), -- noqa: AM04, RF02
    found.contrast,
    found.other_settings,
    found.loop_kind,
    found.in_turns,
    found.blocks,
    found.baseline_ms,
    found.candidate_ms,
    found.ratio,
    found.ratio_low,
    found.ratio_high,
    found.wall_verdict,
    found.wall_in_words,
    found.baseline_device_ms,
    found.candidate_device_ms,
    found.device_ratio,
    found.device_ratio_low,
    found.device_ratio_high,
    found.device_verdict,
    found.no_effect_reason,
    case
        when least(coalesce(b.processes, 0), coalesce(c.processes, 0)) < 2 then null
        when b.reproducible then if(c.reproducible, 'already', 'lost')
        else if(c.reproducible, 'gained', 'not gained')
    end as reproducibility,
    b.processes as baseline_processes,
    b.distinct_results as baseline_distinct_results,
    b.repeats as baseline_repeatable,
    c.processes as candidate_processes,
    c.distinct_results as candidate_distinct_results,
    c.repeats as candidate_repeatable,
    found.blocks_with_bits,
    found.blocks_with_same_bits,
    found.cell_id,
    found.env_hash,
    found.software_hash,
    found.workload_hash
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
left join results as b on found.place = b.place and found.baseline_value = b.setting
left join results as c on found.place = c.place and found.candidate_value = c.setting
order by
    labels.gpu, labels.workload, labels.problem, labels.direction, labels.input_shape,
    labels.regime, labels.state, labels.precision, labels.layout,
    found.other_settings, found.software_hash, found.loop_kind, found.in_turns, found.cell_id,
    found.env_hash,
    found.workload_hash
