create or replace macro outcomes_of(flag, from_value, to_value, of_sweep) as table
with trials as (
    select
        *,
        concat_ws('|', cell_id, env_hash, software_hash, other_settings) as place
    from configured(flag, of_sweep)
),

outcomes as (
    select
        place,
        any_value(cell_id) as cell_id,
        count(*) filter (where setting = from_value and status = 'out_of_memory')
            as baseline_out_of_memory,
        count(*) filter (where setting = to_value and status = 'out_of_memory')
            as candidate_out_of_memory,
        count(distinct fingerprint) filter (where setting = from_value) as baseline_results,
        count(distinct fingerprint) filter (where setting = to_value) as candidate_results
    from trials
    where flag = 'twin' or twin = 0
    group by place
),

varying as (
    select
        place,
        list_sort(list(tensor)) as candidate_varies_in
    from (
        select
            trials.place,
            result['tensor'] as tensor
        from trials
        cross join unnest(trials.computed) as computed (result)
        where trials.setting = to_value and trials.status = 'ok'
        group by trials.place, tensor
        having count(distinct result['fingerprint']) > 1
    ) as by_tensor
    group by place
)

select
    outcomes.* exclude (cell_id),
    paces.block_s,
    varying.candidate_varies_in
from outcomes
left join varying on outcomes.place = varying.place
left join block_paces(of_sweep) as paces on outcomes.cell_id = paces.cell_id;
