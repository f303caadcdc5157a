-- What does the ban of an engine cost, and which engine takes its place?
-- terminal: cell, ban, banned_ms, ratio[ratio_low ratio_high], wall_in_words, device_ratio,
--     banned_l2_error, reproducibility
-- none: no cell was measured both with and without a ban; use `sweep bans` to measure some
--
-- There is one row for each cell and ban. Bans that fail come first, then those that cost the most
-- time. `sweep query helps_or_hurts --help` explains verdicts and ratios. The engines are from
-- cuDNN's log of the first calls, in one process with the ban and one without it.
--
-- usual_kernels: convolution kernels that a step launches only without the ban
-- banned_kernels: convolution kernels that a step launches only with the ban
with sides as (
    select
        setting,
        place_of(cell_id, env_hash, software_hash, workload_hash, other_settings) as place,
        any_value(errata) as errata,
        arg_min(engines(logged_choices), started_at) filter (where len(logged_choices) > 0)
            as taken,
        list_sort(list_distinct(
            arg_min(convolution_kernels(kernels), started_at) filter (where kernels is not null)
        )) as kernels,
        max(relative_l2_error) as l2_error
    from configured('ban', $sweep_id)
    where twin = 0
    group by place, setting
),

compared as (
    select
        banned.place,
        banned.errata,
        usual.l2_error as usual_l2_error, -- largest L2 error against float64 without the ban
        banned.l2_error as banned_l2_error, -- largest L2 error against float64 with the ban
        only_in(usual.kernels, banned.kernels) as usual_kernels,
        only_in(banned.kernels, usual.kernels) as banned_kernels,
        replaced(usual.taken, banned.taken) as swaps
    from sides as banned
    inner join sides as usual
        on banned.place = usual.place and banned.setting = 'yes' and usual.setting = 'no'
)

select -- noqa: disable=AM04,RF02,ST06,ST07
    labels.* exclude (cell_id, cell_order),
    compared.errata as ban, -- banned engine, in the form OPERATION:ENGINE
    replace(verdicts.other_settings, ', errata=' || compared.errata, '') as other_settings,
    verdicts.in_turns,
    verdicts.blocks,
    verdicts.baseline_ms as usual_ms, -- wall time per iteration without the ban, ms
    verdicts.candidate_ms as banned_ms, -- wall time per iteration with the ban, ms
    columns([
        'ratio', 'ratio_low', 'ratio_high', 'wall_verdict', 'wall_in_words', 'device_ratio',
        'device_verdict'
    ]),
    len(compared.swaps) as operations, -- number of operations that got another engine
    list_sort(list_distinct(compared.swaps)) as in_its_place, -- engines that changed, as old → new
    columns([
        'usual_kernels', 'banned_kernels', 'usual_l2_error', 'banned_l2_error', 'reproducibility'
    ]),
    columns(['cell_id', 'env_hash', 'software_hash', 'workload_hash'])
from contrast_verdicts('ban', 'no', 'yes', $min_effect, $sweep_id, 0) as verdicts
inner join compared on verdicts.place = compared.place
inner join cell_labels() as labels using (cell_id)
qualify
    row_number() over (
        partition by verdicts.place, compared.errata
        order by verdicts.blocks desc, verdicts.in_turns desc
    ) = 1
order by
    (verdicts.wall_verdict <> 'fails'), -verdicts.ratio, labels.cell_order, verdicts.other_settings,
    verdicts.software_hash, verdicts.cell_id, verdicts.env_hash, verdicts.workload_hash
