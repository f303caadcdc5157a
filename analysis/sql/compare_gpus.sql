-- How do two GPUs compare on the same cells and configs?
-- $baseline TEXT = NULL: a GPU's model or env_hash; where null, the first of each two by name
-- $candidate TEXT = NULL: the other's; every other one where null
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, contrast, config, baseline_ms, candidate_ms, ratio[ratio_low ratio_high],
--     wall_verdict, device_verdict
-- none: no cell was measured on two GPU models with the same torch, CUDA and cuDNN
--
-- A row a cell of the candidate, config and GPU to compare it with: of another model, or of another
-- memory size, clock policy or slice (another env_hash). Compared where torch, CUDA and cuDNN are
-- the same; the driver may differ. Two GPUs' processes ran in different blocks: nothing pairs them.
-- A ratio is that of the geometric means over processes; its 95% interval and the test against the
-- minimum effect are Welch's, on the logarithms of the processes' medians, degrees of freedom
-- rounded down; 5% of the verdicts that help or hurt may be wrong (Benjamini-Hochberg over the
-- rows). Drift between blocks is in the intervals only as far as processes show it.
--
-- by_choice: of each side what its processes chose, as times over its usual one, where min_effect
--     or more lies between; or what may not have been seen
-- gpu: model of the candidate
-- baseline_gpu: model of the baseline
-- matmul_ratio: the calibration's matrix product, candidate / baseline: above 1 is faster
-- copy_ratio: the calibration's copy, candidate / baseline: above 1 is faster
-- baseline_roofline_share: the baseline's share of its own GPU's roofline, median
-- roofline_share: the candidate's share of its own
-- baseline_driver: NVIDIA driver's version of the baseline
-- driver: that of the candidate
-- baseline_env_hash: hash of the baseline's hardware
-- baseline_software_hash: hash of the baseline's software
with groups as materialized (
    select * from process_groups($sweep_id)
),

pairs as ( -- noqa: ST03
    select -- noqa: ST06
        'gpu: ' || b.gpu || ' → ' || c.gpu as contrast,
        b, -- noqa: RF02
        c -- noqa: RF02
    from groups as b
    inner join groups as c
        on
            b.task = c.task
            and b.settings = c.settings
            and b.loop_kind = c.loop_kind
            and b.in_turns = c.in_turns
            and b.precision = c.precision
            and b.layout = c.layout
            and b.workload_hash is not distinct from c.workload_hash
            and b.torch = c.torch
            and b.cuda is not distinct from c.cuda
            and b.cudnn is not distinct from c.cudnn
            and b.env_hash <> c.env_hash
    where
        ($baseline is null or $baseline in (b.gpu, b.env_hash)) -- noqa: RF02
        and ($candidate is null or $candidate in (c.gpu, c.env_hash)) -- noqa: RF02
        and (
            coalesce($baseline, $candidate) is not null -- noqa: RF02
            or (b.gpu, b.env_hash) < (c.gpu, c.env_hash)
        )
)

select -- noqa: ST06
    * exclude (b, c), -- noqa: AM04
    b.gpu as baseline_gpu,
    c.matmul_tflops / b.matmul_tflops as matmul_ratio,
    c.copy_gbps / b.copy_gbps as copy_ratio,
    b.roofline_share as baseline_roofline_share,
    c.roofline_share,
    c.torch,
    c.cudnn,
    b.driver as baseline_driver,
    c.driver,
    b.cell_id as baseline_cell_id,
    c.cell_id,
    b.env_hash as baseline_env_hash,
    c.env_hash,
    b.software_hash as baseline_software_hash,
    c.software_hash,
    c.workload_hash
from unpaired_answers('pairs', $min_effect)
order by
    gpu, workload, problem, direction, input_shape,
    regime, state, precision, layout,
    settings, loop_kind, c.cell_id, c.env_hash,
    c.software_hash, b.gpu, b.env_hash, b.software_hash,
    c.workload_hash
