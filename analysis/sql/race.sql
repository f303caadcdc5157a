-- Which config is the fastest in each cell, and can another one still win?
-- $gain DOUBLE = 0.01: smallest relative gain in time that is worth another config
-- $is_over BOOLEAN = NULL: whether the sweep is finished and gets no more blocks; null: as stored
-- terminal: cell, best, best_ms, other, other_ms, ratio[ratio_low ratio_high], blocks, state
-- none: no cell has two configs with a time
--
-- A sweep with `replicates: {until: best}` runs this query between blocks. docs/measuring.md (How
-- many blocks) explains it. There is one row for each cell and each config except the best one. The
-- best config is the fastest one that failed at most once and was not raced out. The ratio is the
-- other config's time divided by the best config's time, in blocks of both. A config is raced out
-- if it is surely slower than the best one, or if it failed in each of two or more blocks.
with out as (
    select [cell_id, settings]
    from records
    where status = 'raced_out' and ($sweep_id is null or sweep_id glob $sweep_id)
)

select -- noqa: disable=AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order) rename (state as surroundings),
    verdicts.baseline_settings as best, -- settings of the fastest config
    verdicts.baseline_ms as best_ms, -- wall time per iteration of the best config
    verdicts.candidate_settings as other, -- settings of the config that is compared with the best
    verdicts.candidate_ms as other_ms, -- wall time per iteration of the other config
    columns([
        'contrast', 'ratio', 'ratio_low', 'ratio_high', 'device_ratio', 'recorded_blocks',
        'blocks', 'at_most', 'blocks_needed', 'in_turns'
    ]),
    paces.block_s,
    verdicts.cell_id,
    case
        when
            verdicts.wall_verdict = 'fails'
            or [verdicts.cell_id, verdicts.candidate_settings] in (from out)
            then 'raced_out'
        when verdicts.recorded_blocks > 1 and verdicts.candidate_failed = verdicts.recorded_blocks
            then 'raced_out'
        when verdicts.between_looks or verdicts.blocks < 2
            then if(verdicts.recorded_blocks >= verdicts.at_most, 'hopeless', 'open')
        when verdicts.ratio_low > 1 then 'raced_out'
        when verdicts.ratio_low > 1 / (1 + $gain) then 'not_faster'
        when verdicts.recorded_blocks >= verdicts.at_most then 'hopeless'
        else 'open'
    end as state -- raced_out, not_faster, hopeless (no blocks are left) or open
from
    contrast_verdicts('race', 'best', 'other', $gain, $sweep_id, 0, is_over := $is_over) as verdicts
inner join cell_labels() as labels on verdicts.cell_id = labels.cell_id
inner join block_paces($sweep_id) as paces on verdicts.cell_id = paces.cell_id
qualify -- Keep the blocks in turns or the other blocks, whichever are more.
    row_number() over (
        partition by verdicts.place
        order by verdicts.blocks desc, verdicts.recorded_blocks desc, verdicts.in_turns desc
    ) = 1
order by
    labels.cell_order, verdicts.cell_id, verdicts.software_hash, verdicts.env_hash,
    verdicts.workload_hash, verdicts.candidate_ms, verdicts.candidate_settings
