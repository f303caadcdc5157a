-- Which nights are stored, what did they plan to measure, and with what?
-- terminal: night, planned, recorded, first_started_at, gpu, torch, cudnn, driver
-- none: no night is recorded
--
-- A row a night, hardware and software.
--
-- launch: the launch's name, with which the sweep_id ends; null if the sweep is no night
with named as (
    select *
    from records
    where not is_confirmation(sweep_id) and is_night_of(sweep_id, $launch, $until)
),

longest as (
    select distinct -- noqa: AM01
        sweep_id,
        max(count(*)) over (partition by sweep_id) as longest_block
    from named
    group by sweep_id, block
)

select -- noqa: ST06
    named.sweep_id as night,
    any_value(nullif(night_parts(named.sweep_id)['launch'], '')) as launch,
    max(named.plan_trials) as planned,
    count(*) filter (where named.repeats_block is null) as recorded,
    -- the last block may be lost as a whole
    least(
        max(named.position) filter (where named.repeats_block is null)
        + 1 + any_value(longest.longest_block),
        planned
    ) as reached, -- trials whose turn came, lost ones too; less than planned if time was up
    coalesce(bool_or(named.in_turns), false) as in_turns,
    min(named.started_at) as first_started_at,
    any_value(columns([
        'gpu', 'gpu_memory_bytes', 'mig_profile', 'max_sm_clock_mhz', 'power_limit_w', 'torch',
        'cuda', 'cudnn', 'driver', 'python', 'ray', 'version'
    ])),
    string_agg(distinct named.commit, ', ' order by named.commit) as commit, -- noqa: RF04
    named.env_hash,
    named.software_hash
from named
inner join longest on named.sweep_id = longest.sweep_id
group by named.sweep_id, named.env_hash, named.software_hash
order by named.sweep_id, named.env_hash, named.software_hash
