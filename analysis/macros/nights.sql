-- What a night's processes say together, and which sweeps are nights.

-- Of a sweep_id the kind (night or confirm), the date and the launch's name; all empty where it is
-- neither.
create or replace macro night_parts(sweep_id) as regexp_extract(
    sweep_id, '^(night|confirm)-(\d{4}-\d\d-\d\d)-(.+)$', ['kind', 'date', 'launch']
);

-- The median of `x` over the processes that count, and how many those are; null where none is.
create or replace macro median_of(x, counts) as case
    when count(x) filter (where counts) > 0
        then struct_pack(
            value := (median(x) filter (where counts))::double,
            word := null::text,
            processes := count(x) filter (where counts)
        )
end;

-- The most common word likewise.
create or replace macro most_common(word, counts) as case
    when count(word) filter (where counts) > 0
        then struct_pack(
            value := null::double,
            word := mode(word order by word) filter (where counts),
            processes := count(word) filter (where counts)
        )
end;

-- The records of nights, with their night, date and launch. What a night's confirmation measured afresh
-- with the same software belongs to the night. A null name stands for all sweeps, nights or not.
create or replace macro night_trials(of_launch, until) as table
with named as (
    select
        *,
        night_parts(sweep_id) as parts
    from configured(null, null)
    where twin = 0
),

placed as (
    select
        *,
        parts['kind'] = 'confirm' as is_fresh,
        if(parts['kind'] = 'confirm', 'night' || sweep_id[8:], sweep_id) as night
    from named
    where
        (of_launch is null or parts['launch'] = of_launch)
        and (until is null or parts['date'] <= until)
),

nights as (
    select distinct
        night,
        software_hash
    from placed
    where not is_fresh
)

select placed.*
from placed
inner join nights
    on placed.night = nights.night and placed.software_hash = nights.software_hash;
