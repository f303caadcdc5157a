-- What changed with another version of torch, cuDNN or the driver?
-- $baseline TEXT = NULL: a version or software_hash; where null, the last one before the candidate
-- $candidate TEXT = NULL: a version or software_hash; the one that measured last where null
-- $min_effect DOUBLE = 0.03: the smallest relative difference that counts
-- $sweep_id TEXT = NULL: one sweep, or several by a pattern (night-*); all where null
-- terminal: cell, contrast, config, baseline_ms, candidate_ms, ratio[ratio_low ratio_high],
--     wall_verdict, device_verdict
-- none: no cell was measured with two softwares on the same hardware
--
-- A row a cell and config that two softwares measured on the same hardware. A version is that of
-- torch, cuDNN, the driver or this program. The two softwares' processes ran in different blocks,
-- often in different nights: nothing pairs them. A ratio is that of the geometric means over
-- processes; its 95% interval and the test against the minimum effect are Welch's, on the
-- logarithms of the processes' medians, degrees of freedom rounded down; 5% of the verdicts that
-- help or hurt may be wrong (Benjamini-Hochberg over the rows). Drift between blocks is in the
-- intervals only as far as processes show it.
--
-- by_choice: of each side what its processes chose, as times over its usual one, where min_effect
--     or more lies between; or what may not have been seen
-- contrast: what differs of torch, cuDNN, the driver and this program; else the hashes
-- other_kernels: whether the most common choice of kernels is another
-- same_bits: whether the most common result of a step has the same bits
-- matmul_ratio: the calibration's matrix product, candidate / baseline: above 1 is faster
-- copy_ratio: the calibration's copy, candidate / baseline: above 1 is faster
-- baseline_torch: PyTorch's version of the baseline
-- torch: that of the candidate
-- baseline_cudnn: cuDNN's version of the baseline
-- cudnn: that of the candidate
-- baseline_driver: NVIDIA driver's version of the baseline
-- driver: that of the candidate
-- baseline_software_hash: hash of the baseline's software
with groups as materialized (
    select * from process_groups($sweep_id)
),

softwares as (
    select
        env_hash,
        software_hash,
        max(last_started_at) as last_started_at,
        [
            software_hash, any_value(torch), any_value(cudnn)::text, any_value(driver),
            any_value(version)
        ] as versions,
        coalesce(list_contains(versions, $baseline), false) as named_baseline,
        coalesce(list_contains(versions, $candidate), false) as named_candidate,
        $baseline is null as may_be_baseline,
        -- where none is named: the last one, but for a named baseline
        $candidate is null and not named_baseline as may_be_last
    from groups
    group by env_hash, software_hash
),

candidates as (
    select
        env_hash,
        software_hash,
        last_started_at
    from softwares
    where named_candidate or may_be_last
    qualify
        named_candidate
        or row_number() over (
            partition by env_hash order by last_started_at desc, software_hash asc
        ) = 1
),

chosen as (
    select
        c.env_hash,
        b.software_hash as baseline_hash,
        c.software_hash as candidate_hash
    from candidates as c
    inner join softwares as b on c.env_hash = b.env_hash and c.software_hash <> b.software_hash
    where
        b.named_baseline
        or (b.may_be_baseline and b.last_started_at < c.last_started_at)
    qualify
        b.named_baseline
        or row_number() over (
            partition by c.env_hash, c.software_hash
            order by b.last_started_at desc, b.software_hash asc
        ) = 1
),

pairs as ( -- noqa: ST03
    select -- noqa: ST06
        concat_ws(
            ', ',
            if(b.torch <> c.torch, 'torch: ' || b.torch || ' → ' || c.torch, null),
            if(b.cudnn <> c.cudnn, 'cudnn: ' || b.cudnn || ' → ' || c.cudnn, null),
            if(b.driver <> c.driver, 'driver: ' || b.driver || ' → ' || c.driver, null),
            if(b.version <> c.version, 'version: ' || b.version || ' → ' || c.version, null)
        ) as differences,
        if(
            differences = '',
            'software: ' || b.software_hash || ' → ' || c.software_hash,
            differences
        ) as contrast,
        b, -- noqa: RF02
        c -- noqa: RF02
    from groups as b
    inner join groups as c
        on
            b.cell_id = c.cell_id
            and b.env_hash = c.env_hash
            and b.workload_hash is not distinct from c.workload_hash
            and b.settings = c.settings
            and b.loop_kind = c.loop_kind
            and b.in_turns = c.in_turns
    inner join chosen
        on
            b.env_hash = chosen.env_hash
            and b.software_hash = chosen.baseline_hash
            and c.software_hash = chosen.candidate_hash
)

select -- noqa: ST06
    * exclude (b, c), -- noqa: AM04
    if(
        b.kernels_source = c.kernels_source,
        b.kernels_hash <> c.kernels_hash,
        null
    ) as other_kernels,
    b.fingerprint = c.fingerprint as same_bits,
    c.matmul_tflops / b.matmul_tflops as matmul_ratio,
    c.copy_gbps / b.copy_gbps as copy_ratio,
    b.torch as baseline_torch,
    c.torch,
    b.cudnn as baseline_cudnn,
    c.cudnn,
    b.driver as baseline_driver,
    c.driver,
    c.cell_id,
    c.env_hash,
    b.software_hash as baseline_software_hash,
    c.software_hash,
    c.workload_hash
from unpaired_answers('pairs', $min_effect)
order by
    gpu, workload, problem, direction, input_shape,
    regime, state, precision, layout,
    settings, loop_kind, c.cell_id, c.env_hash,
    c.software_hash, b.software_hash,
    c.workload_hash
