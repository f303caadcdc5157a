-- Which cells are decided, and how many more blocks would the others need?
-- $one_sided BOOLEAN = false: whether a cell is decided if the candidate is not slower (for gates)
-- $of_cells BIGINT = 0: number of rows that the whole plan will have; each counts as a test
-- terminal: cell, state, blocks, blocks_needed, ratio[ratio_low ratio_high], block_s
-- none: no cell has two configs that differ only in the setting; see `sweep query coverage`
--
-- A sweep with `replicates: {until: decided}` runs this query between blocks. docs/measuring.md
-- (How many blocks) explains it. The state of a decided cell is its verdict on wall time. An
-- undecided cell is hopeless if the remaining blocks would hardly decide it. Otherwise, it is open.
select -- noqa: disable=AM04,RF02,ST06
    labels.* exclude (cell_id, cell_order) rename (state as surroundings),
    columns([
        'contrast', 'other_settings', 'recorded_blocks', 'blocks', 'at_most', 'blocks_needed',
        'ratio', 'ratio_low', 'ratio_high'
    ]),
    paces.block_s,
    verdicts.cell_id,
    case
        when verdicts.wall_verdict = 'no_effect' and verdicts.recorded_blocks > 1 then 'no_effect'
        when verdicts.wall_verdict = 'no_effect' then 'open'
        when is_decided(verdicts.wall_verdict) then verdicts.wall_verdict
        when
            $one_sided and verdicts.recorded_blocks > 1 and not verdicts.between_looks
            and not_slower(verdicts.blocks, verdicts.ratio_high, $min_effect)
            then 'not_slower'
        when verdicts.between_looks then 'open'
        when verdicts.recorded_blocks >= verdicts.at_most or verdicts.blocks = 0 then 'hopeless'
        when
            not $one_sided and verdicts.blocks > 2
            and coalesce(verdicts.blocks_alone, 1001) > verdicts.at_most - verdicts.recorded_blocks
            then 'hopeless'
        else 'open'
    end as state -- helps, hurts, equivalent, not_slower, fails, no_effect, hopeless or open
from
    contrast_verdicts(
        $field, $baseline, $candidate, $min_effect, $sweep_id, $of_cells, is_over := false
    ) as verdicts
inner join cell_labels() as labels on verdicts.cell_id = labels.cell_id
inner join block_paces($sweep_id) as paces on verdicts.cell_id = paces.cell_id
order by
    labels.cell_order, verdicts.other_settings, -verdicts.blocks, verdicts.software_hash,
    verdicts.loop_kind, verdicts.in_turns, verdicts.cell_id, verdicts.env_hash,
    verdicts.workload_hash
