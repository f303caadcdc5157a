-- What came of a cell's trials under two configs: failures, results that differ, time of a block.

create or replace macro outcomes_of(flag, from_value, to_value, of_sweep) as table
with outcomes as (
    select
        cell_id,
        env_hash,
        software_hash,
        other_settings,
        count(*) filter (where setting = from_value and status = 'out_of_memory')
            as baseline_out_of_memory,
        count(*) filter (where setting = to_value and status = 'out_of_memory')
            as candidate_out_of_memory,
        count(distinct fingerprint) filter (where setting = from_value) as baseline_results,
        count(distinct fingerprint) filter (where setting = to_value) as candidate_results,
        any_value(message) filter (where status <> 'ok' and setting = from_value)
            as baseline_message,
        any_value(message) filter (where status <> 'ok' and setting = to_value)
            as candidate_message
    from configured(flag, of_sweep)
    where flag = 'twin' or twin = 0
    group by cell_id, env_hash, software_hash, other_settings
),

tensors as (
    select
        cell_id,
        env_hash,
        software_hash,
        other_settings,
        unnest(computed) as computed
    from configured(flag, of_sweep)
    where setting = to_value and status = 'ok'
),

by_tensor as (
    select
        cell_id,
        env_hash,
        software_hash,
        other_settings,
        computed.tensor
    from tensors
    group by cell_id, env_hash, software_hash, other_settings, computed.tensor
    having count(distinct computed.fingerprint) > 1
),

varying as (
    select
        cell_id,
        env_hash,
        software_hash,
        other_settings,
        list_sort(list(tensor)) as candidate_varies_in
    from by_tensor
    group by cell_id, env_hash, software_hash, other_settings
)

select
    outcomes.*,
    paces.block_s,
    varying.candidate_varies_in
from outcomes
left join varying
    on
        outcomes.cell_id = varying.cell_id
        and outcomes.env_hash = varying.env_hash
        and outcomes.software_hash = varying.software_hash
        and outcomes.other_settings = varying.other_settings
left join block_paces(of_sweep) as paces on outcomes.cell_id = paces.cell_id;
