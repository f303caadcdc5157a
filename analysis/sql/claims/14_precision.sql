-- In which precision do float32 convolutions really run?
-- terminal: verdict, cell, condition, measure, value, trials, outcome
--
-- The cells are single convolutions with PyTorch's defaults. A process runs in TF32 if the name of
-- one of its kernels contains tf32, tfloat32, s1688 or tensor16x8x8. The claim holds for a cell if
-- all its processes run in the precision that `cudnn.conv.fp32_precision` sets. Rows without
-- outcome have the largest relative error against float64.
with ran as ( -- noqa: disable=RF01,RF02,RF03,RF04,ST03,ST06,ST07,AL03,AM04
    select
        cell_id,
        software_hash,
        'benchmark: ' || setting as contrast,
        if(precision = 'tf32', 'TF32 allowed', 'IEEE asked')
        || ', benchmark ' || if(benchmark, 'on', 'off') as condition,
        avg(in_tf32::int) as tf32_share,
        tf32_share = (precision = 'tf32')::int as is_as_asked,
        unnest([
            figure_of(
                'share of processes in TF32', null, null, null, tf32_share, null, null, count(*)
            ),
            figure_of(
                'relative error against float64', null, null, null, max(relative_l2_error), null,
                null, count(relative_l2_error)
            )
        ]) as figure
    from ( -- noqa: AL10
        select
            *,
            len(list_filter(
                convolution_kernels(kernels),
                lambda each: regexp_matches(each, 'tf32|tfloat32|s1688|tensor16x8x8')
            )) > 0 as in_tf32
        from configured('benchmark', $sweep_id)
        where
            workload = 'conv' and state = 'plain' and precision in ('tf32', 'fp32')
            and device = 'cuda' and status = 'ok' and twin = 0 and kernels is not null
            and unusual_among(other_settings) = ''
    )
    group by cell_id, software_hash, precision, benchmark, setting
),

figures as (
    select
        labels.*,
        software.* exclude (software_hash),
        ran.*,
        unnest(figure),
        case
            when figure.measure like 'relative%' then null
            when is_as_asked then 'holds'
            else 'does not hold'
        end as outcome
    from ran
    inner join cell_labels() as labels using (cell_id)
    inner join software_labels() as software using (software_hash)
    where figure.value is not null
)

from claimed(
    'figures',
    14,
    'allow_tf32, or fp32_precision, says in which precision a float32 convolution runs.',
    'sweep launch --suite precision --only workload=conv --only precision=tf32'
)
