-- Return the kind (night or confirm), date and launch name in a sweep_id, or three empty texts.
create or replace macro night_parts(sweep_id) as regexp_extract(
    sweep_id, '^(night|confirm)-(\d{4}-\d\d-\d\d)-(.+)$', ['kind', 'date', 'launch']
);

-- Return whether a sweep is a night of a launch, up to a date. Null accepts any launch or date.
create or replace macro is_night_of(sweep_id, of_launch, until) as
    (of_launch is null or night_parts(sweep_id)['launch'] = of_launch)
    and (until is null or night_parts(sweep_id)['date'] <= until);

create or replace macro is_confirmation(sweep_id) as night_parts(sweep_id)['kind'] = 'confirm';

-- Return the median of `x` and the number of values. Return null if there are none.
create or replace macro median_of(x) as case
    when count(x) > 0
        then struct_pack(value := median(x)::double, word := null::text, processes := count(x))
end;

-- Return the most common word and the number of all words. Return null if there are none.
create or replace macro most_common(words) as case
    when count(words) > 0
        then struct_pack(
            value := null::double, word := mode(words order by words), processes := count(words)
        )
end;

-- Return one row for each process of the nights, with a column for each metric. Times are null if
-- the GPU was throttled or shared. `repeats` says whether bits differ within or between processes.
create or replace macro night_processes(of_launch, until) as table
with placed as (
    select
        *,
        is_confirmation(sweep_id) as is_fresh,
        if(is_fresh, 'night' || sweep_id[8:], sweep_id) as night,
        status = 'ok' as is_ok,
        status = 'ok' and not is_doubtful(warnings) as is_timed,
        coalesce(compute_cache in ('empty', 'disabled'), false) as compiles,
        list_sum(list_transform(cold, lambda met: met.first_ms)) as cold_ms,
        greatest(cold_peak_reserved_bytes, steady_peak_reserved_bytes) as peak_bytes,
        first_value(if(bitwise_repeatable, fingerprint, null) ignore nulls) over same as usual_bits
    from configured(null, null)
    where twin = 0 and is_night_of(sweep_id, of_launch, until)
    window same as (
        partition by env_hash, software_hash, workload_hash, cell_id, settings, kernels_hash
        order by started_at
    )
),

drawn as (
    select
        kernels_hash,
        min(struct_pack(sweep_id := sweep_id, trial_id := trial_id)) as trial
    from placed
    where kernels_hash is not null
    group by kernels_hash
),

chosen as (
    select
        drawn.kernels_hash,
        nullif(choices.kernels, []) as names
    from drawn
    inner join choices_of('drawn') as choices on drawn.trial = choices.trial
),

-- engines from cuDNN's log, for processes without convolution kernels in their list of kernels
logged as (
    select
        sweep_id,
        trial_id,
        engines(logged_choices) as names
    from records
    where
        kernels_hash is null
        or kernels_hash in (
            select chosen.kernels_hash from chosen
            where chosen.names is null
        )
)

select
    columns([
        'sweep_id', 'night', 'is_fresh', 'software', 'block', 'env_hash', 'software_hash',
        'cell_id', 'settings', 'workload_hash', 'gpu_uuid', 'host', 'cpu_model'
    ]),
    if(is_timed, steady_wall_ms, null) as steady_wall,
    if(is_timed, steady_device_ms, null) as steady_device,
    if(is_timed and compiles, cold_ms, null) as cold_empty,
    if(is_timed and not compiles, cold_ms, null) as cold_warm,
    if(is_ok, peak_bytes, null)::double as peak_memory,
    if(is_ok, relative_l2_error, null) as error,
    if(
        is_ok, array_to_string(list_distinct(coalesce(chosen.names, logged.names)), ', '), null
    ) as engine,
    if(layout_losses = [], 'none', array_to_string(layout_losses, ', ')) as layout_losses,
    if(is_ok, fingerprint, null) as bits,
    case
        when not is_ok or bitwise_repeatable is null then null
        when not bitwise_repeatable then 'differ within a process'
        when kernels_hash is not null and fingerprint <> usual_bits
            then 'differ between processes'
        else 'repeat'
    end as repeats,
    status as failure
from placed
left join chosen using (kernels_hash) -- noqa: ST07
left join logged using (sweep_id, trial_id); -- noqa: ST07
