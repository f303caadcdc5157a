-- Which nights are stored, what did they plan to measure, and with what hardware and software?
-- terminal: night, planned, recorded, first_started_at, gpu, torch, cudnn, driver
-- none: no night is recorded
--
-- There is one row for each night, hardware and software.
--
-- launch: name of the launch, with which the sweep_id ends; null if the sweep is not a night
with named as (
    select
        *,
        count(*) over (partition by sweep_id, block) as block_trials
    from records
    where not is_confirmation(sweep_id) and is_night_of(sweep_id, $launch, $until)
)

select -- noqa: ST06
    sweep_id as night,
    any_value(nullif(night_parts(sweep_id)['launch'], '')) as launch,
    max(plan_trials) as planned,
    count(*) filter (where repeats_block is null) as recorded,
    -- All records of the last block may be lost.
    least(
        max(position) filter (where repeats_block is null)
        + 1 + max(max(block_trials)) over (partition by sweep_id),
        planned
    ) as reached, -- number of planned trials whose turn came; less than planned if time was up
    coalesce(bool_or(in_turns), false) as in_turns,
    min(started_at) as first_started_at,
    any_value(columns([
        'gpu', 'gpu_memory_bytes', 'mig_profile', 'max_sm_clock_mhz', 'power_limit_w', 'torch',
        'cuda', 'cudnn', 'driver', 'python', 'ray', 'version'
    ])),
    string_agg(distinct commit, ', ' order by commit) as commit, -- noqa: RF04
    env_hash,
    software_hash
from named
group by sweep_id, env_hash, software_hash
order by sweep_id, env_hash, software_hash
