-- Which verdicts, choices of kernels and bits are the same on two GPU models or versions?
-- $between TEXT = NULL: gpu, torch, cudnn or driver; null: the first that has two values
-- terminal: what, cells, share[share_low share_high], cell, of_a, a, of_b, b, why
-- none: no cell was measured on two GPU models or software versions
--
-- The first rows compare two models or versions. They have the share of cells that agree, with its
-- 95% interval (Clopper and Pearson's). The other rows are single cells whose verdicts (helps,
-- hurts, equivalent or fails) differ. A choice is the most common list of kernels among a config's
-- processes. Bits are compared only between versions, because inputs differ between GPU models.
--
-- of_a, of_b: one of the two GPU models or versions
-- what: value that is compared: verdict (of wall time), device verdict, direction (faster or
--     slower), or choice or bits of either config
-- a, b: verdict and ratio of the cell for of_a, or for of_b
-- why: reason for the difference: kernels (other choices), cpu (one side's loop is CPU-bound), or
--     speed (neither of these)
with kinds as ( -- noqa: disable=RF02,RF04,ST03,AM07
    select
        coalesce(
            $between,
            case
                when count(distinct gpu) > 1 then 'gpu'
                when count(distinct torch) > 1 then 'torch'
                when count(distinct cudnn) > 1 then 'cudnn'
                else 'driver'
            end
        ) as kind
    from records
    where $sweep_id is null or sweep_id glob $sweep_id
),

places as (
    select
        columns(['cell_id', 'env_hash', 'software_hash', 'settings']),
        any_value(
            case kinds.kind
                when 'gpu' then gpu
                when 'torch' then torch
                when 'cudnn' then cudnn::text
                when 'driver' then driver
                else error('between: found ' || $between || ', allowed: gpu, torch, cudnn, driver')
            end
        ) as place,
        mode(kernels_hash order by kernels_hash) as choice,
        mode(fingerprint order by fingerprint) as bits
    from configured(null, $sweep_id)
    cross join kinds
    where status = 'ok' and twin = 0
    group by cell_id, env_hash, software_hash, settings
),

sides as (
    select
        verdicts.* exclude (place),
        tasks.task,
        b.place,
        b.choice as baseline_choice,
        b.bits as baseline_bits,
        c.choice as candidate_choice,
        c.bits as candidate_bits
    from
        contrast_verdicts($field, $baseline, $candidate, $min_effect, $sweep_id, 0) as verdicts
    inner join cell_tasks(null) as tasks on verdicts.cell_id = tasks.cell_id
    inner join places as b
        on
            verdicts.cell_id = b.cell_id
            and verdicts.env_hash = b.env_hash
            and verdicts.software_hash = b.software_hash
            and verdicts.baseline_settings = b.settings
    inner join places as c
        on
            verdicts.cell_id = c.cell_id
            and verdicts.env_hash = c.env_hash
            and verdicts.software_hash = c.software_hash
            and verdicts.candidate_settings = c.settings
    qualify row_number() over (
        partition by tasks.task, verdicts.other_settings, b.place
        order by
            verdicts.blocks desc, verdicts.cell_id asc, verdicts.env_hash asc,
            verdicts.software_hash asc
    ) = 1
),

compared as (
    select
        one.place as of_a,
        other.place as of_b,
        one.cell_id,
        case
            when
                one.baseline_choice <> other.baseline_choice
                or one.candidate_choice <> other.candidate_choice
                then 'kernels'
            when one.launch_bound <> other.launch_bound then 'cpu'
            else 'speed'
        end as why,
        format('{} ({:.3f})', one.wall_verdict, one.ratio) as in_a,
        format('{} ({:.3f})', other.wall_verdict, other.ratio) as in_b,
        unnest([ -- noqa: AL03
            { 'what': 'verdict', 'a': one.wall_verdict, 'b': other.wall_verdict },
            { 'what': 'device verdict', 'a': one.device_verdict, 'b': other.device_verdict },
            { 'what': 'direction', 'a': one.surely, 'b': other.surely },
            { 'what': 'baseline choice', 'a': one.baseline_choice, 'b': other.baseline_choice },
            { 'what': 'candidate choice', 'a': one.candidate_choice, 'b': other.candidate_choice },
            -- The inputs' seed is the cell_id, which depends on the GPU model.
            {
                'what': 'baseline bits',
                'a': if(one.cell_id = other.cell_id, one.baseline_bits, null),
                'b': other.baseline_bits
            },
            {
                'what': 'candidate bits',
                'a': if(one.cell_id = other.cell_id, one.candidate_bits, null),
                'b': other.candidate_bits
            }
        ], recursive := true)
    from sides as one
    inner join sides as other
        on
            one.task = other.task
            and one.other_settings = other.other_settings
            and one.in_turns = other.in_turns
            and one.place < other.place
),

decided as (
    select
        *,
        a = b as carries
    from compared
    where
        a is not null and b is not null
        and (
            not suffix(what, 'verdict')
            or list_has_all(['helps', 'hurts', 'equivalent', 'fails'], [a, b])
        )
),

counts as (
    select
        columns(['of_a', 'of_b', 'what']),
        count(*) as n,
        count(*) filter (where carries) as k
    from decided
    group by of_a, of_b, what
)

select
    counts.* exclude (n, k),
    counts.n as cells, -- number of cells that have a value on both sides
    counts.k as carried, -- number of cells that have the same value on both sides
    counts.k / counts.n as share, -- share of cells that have the same value on both sides
    intervals.low as share_low,
    intervals.high as share_high
from counts
inner join share_intervals('counts') as intervals
    on counts.k = intervals.k and counts.n = intervals.n
union all by name
select
    columns(['of_a', 'of_b', 'what']),
    cell_id, -- cell whose verdicts differ
    in_a as a,
    in_b as b,
    why
from decided
where what = 'verdict' and not carries
order by of_a asc, of_b asc, cell_id asc nulls first, what asc
