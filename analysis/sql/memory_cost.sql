-- How much more memory does a setting take, and what does it buy?
-- $field TEXT = 'benchmark': the setting that differs; every other one is the same in a pair
-- $baseline TEXT = 'false': its value in the baseline ('null' where it was not set)
-- $candidate TEXT = 'true': its value in the candidate
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, baseline_peak_reserved_bytes, candidate_peak_reserved_bytes,
--     memory_ratio[memory_ratio_low memory_ratio_high], memory_verdict, ratio, wall_in_words
-- none: no cell has two configs that differ in the setting alone: see `sweep query coverage`
--
-- A row a cell and set of other settings. Bytes are those of PyTorch's allocator, the largest over
-- the processes; the peak is that of the whole trial, the searches of its cold start included. The
-- memory verdict is on the peak of reserved bytes: helps means less. Times are as in
-- helps_or_hurts, with the same verdicts.
--
-- baseline_peak_reserved_bytes: most that was reserved in a trial of the baseline
-- candidate_peak_reserved_bytes: most that was reserved in one of the candidate
-- extra_reserved_bytes: the candidate's peak less the baseline's
-- extra_share_of_gpu: of the GPU's memory
-- memory_ratio: candidate's peak / baseline's, geometric mean over blocks
-- memory_ratio_low: lower end of its 95% interval
-- memory_ratio_high: upper end of its 95% interval
-- memory_verdict: verdict on it
-- baseline_steady_reserved_bytes: most that was reserved while the baseline's loop was timed
-- candidate_steady_reserved_bytes: most that was reserved while the candidate's was
-- baseline_peak_allocated_bytes: most that tensors and workspaces took in a trial of the baseline
-- candidate_peak_allocated_bytes: most that they took in one of the candidate
-- baseline_workspace_bytes: largest workspace of the plans that the baseline's logs show
-- candidate_workspace_bytes: largest workspace that the candidate's show
with found as (
    select * from contrast_verdicts(
        $field, $baseline, $candidate, $min_effect, 1000, 'warm', $sweep_id, 0
    )
),

sizes as (
    select
        env_hash,
        max(gpu_memory_bytes) as gpu_memory_bytes
    from records
    group by env_hash
)

select -- noqa: ST06
    labels.* exclude (cell_id), -- noqa: AM04, RF02
    found.contrast,
    found.other_settings,
    found.loop_kind,
    found.in_turns,
    found.blocks,
    found.baseline_peak_reserved_bytes,
    found.candidate_peak_reserved_bytes,
    found.candidate_peak_reserved_bytes - found.baseline_peak_reserved_bytes
        as extra_reserved_bytes,
    extra_reserved_bytes / sizes.gpu_memory_bytes as extra_share_of_gpu,
    found.memory_ratio,
    found.memory_ratio_low,
    found.memory_ratio_high,
    found.memory_verdict,
    found.baseline_steady_reserved_bytes,
    found.candidate_steady_reserved_bytes,
    found.baseline_peak_allocated_bytes,
    found.candidate_peak_allocated_bytes,
    found.baseline_workspace_bytes,
    found.candidate_workspace_bytes,
    found.baseline_ms,
    found.candidate_ms,
    found.ratio,
    found.ratio_low,
    found.ratio_high,
    found.wall_verdict,
    found.wall_in_words,
    found.device_ratio,
    found.device_verdict,
    found.no_effect_reason,
    found.cell_id,
    found.env_hash,
    found.software_hash,
    found.workload_hash
from found
inner join cell_labels() as labels on found.cell_id = labels.cell_id
inner join sizes on found.env_hash = sizes.env_hash
where found.baseline_peak_reserved_bytes > 0 or found.candidate_peak_reserved_bytes > 0
order by
    labels.gpu, labels.workload, labels.problem, labels.direction, labels.input_shape,
    labels.regime, labels.state, labels.precision, labels.layout,
    found.other_settings, found.software_hash, found.loop_kind, found.in_turns, found.cell_id,
    found.env_hash,
    found.workload_hash
