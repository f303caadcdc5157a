create or replace macro block_paces(of_sweep) as table
select
    cell_id,
    avg(seconds) as block_s
from (
    select
        cell_id,
        epoch(max(ended_at) - min(started_at)) as seconds
    from records
    where of_sweep is null or sweep_id glob of_sweep
    group by cell_id, sweep_id, block
) as blocks
group by cell_id;

create or replace macro software_labels() as table
select
    software_hash,
    min(columns(['torch', 'cuda', 'cudnn', 'driver', 'version']))
from records
group by software_hash;

-- Return a config's settings as text, without the setting `flag` and the twin.
create or replace macro settings_besides(flag, settings) as array_to_string(
    list_transform(
        list_filter(
            map_entries(settings), lambda entry: entry.key not in (coalesce(flag, ''), 'twin')
        ),
        lambda entry: entry.key || '=' || coalesce(entry.value, 'null')
    ),
    ', '
);

-- Return the part of the text `settings` that differs from PyTorch's defaults.
create or replace macro unusual_among(settings) as array_to_string(
    list_sort(list_filter(
        string_split(settings, ', '),
        lambda each: not list_contains(
            string_split(settings_besides(null, setting_texts(usual_config(), 0)), ', '), each
        )
    )),
    ', '
);

-- Return whether errata ban exactly one engine, such as ConvFwd:5.
create or replace macro is_ban(errata) as regexp_full_match(errata, '\w+:\d+');

-- Return the settings of each config. The column `setting` has the config's value of `flag`. For
-- the flags `frozen` and `ban`, this value is yes, no or null. An unknown flag is an error.
create or replace macro configs(flag) as table
with mapped as (
    select
        config,
        twin,
        setting_texts(config, twin) as by_name
    from records
    group by config, twin
)

select
    * exclude (by_name),
    settings_besides(null, by_name) as settings,
    if(
        flag in ('race', 'usual'), '',
        settings_besides(if(flag in ('ban', 'frozen'), 'errata', flag), by_name)
    ) as other_settings,
    case
        when flag is null then null
        when flag in ('race', 'usual') then 'other'
        when flag in ('ban', 'frozen') and config.errata is null then 'no'
        when flag in ('ban', 'frozen')
            then if(flag = 'frozen' or is_ban(config.errata), 'yes', null)
        when map_contains(by_name, flag) then coalesce(by_name[flag], 'null')
        else error('field: found ' || flag || ', allowed are ' || map_keys(by_name)::text)
    end as setting
from mapped;

-- Return the records of one sweep, or of all sweeps, with the columns of `configs`. With the flag
-- `ban` or `frozen`, a record without errata has one row for each set of errata in its cell. The
-- flag `race` compares the best config of a cell with each other config. The best config is the
-- fastest one that failed at most once and was not raced out. The flag `usual` compares PyTorch's
-- default config with each other config. Raced-out trials are left out if `flag` is set and
-- `raced_out` is false.
create or replace macro configured(flag, of_sweep, raced_out := false) as table
with bans as (
    select distinct columns(['sweep_id', 'cell_id', 'errata'])
    from records
    where flag = 'frozen' and errata is not null or flag = 'ban' and is_ban(errata)
),

entrants as (
    select
        columns(['sweep_id', 'cell_id', 'settings']),
        row_number() over (
            partition by sweep_id, cell_id
            order by
                if(flag = 'usual', any_value(config) is distinct from usual_config(), null),
                count(*) filter (where status = 'raced_out'),
                count(*) filter (where status = 'ok') = 0,
                count(*) filter (where status <> 'ok') > 1,
                avg(case when status = 'ok' and steady_wall_ms > 0 then ln(steady_wall_ms) end),
                settings
        ) = 1 and (flag = 'race' or any_value(config) = usual_config()) as is_best
    from records
    where flag in ('race', 'usual') and twin = 0
    group by sweep_id, cell_id, settings
)

select
    records.* exclude (settings, config_hash), -- noqa: AM04
    if(flag in ('race', 'usual'), records.settings, configs.settings) as settings,
    concat_ws(
        ', ', nullif(configs.other_settings, ''), 'errata=' || bans.errata,
        others.settings || ' beside ' || best.settings
    ) as other_settings,
    if(
        best.settings = records.settings, if(flag = 'race', 'best', 'usual'), configs.setting
    ) as setting
from records
inner join configs(flag) as configs
    on records.config = configs.config and records.twin = configs.twin
left join bans
    on
        records.sweep_id = bans.sweep_id
        and records.cell_id = bans.cell_id
        and coalesce(records.errata, bans.errata) = bans.errata
left join entrants as best
    on [records.sweep_id, records.cell_id] = [best.sweep_id, best.cell_id] and best.is_best
left join entrants as others
    on
        [records.sweep_id, records.cell_id] = [others.sweep_id, others.cell_id]
        and not others.is_best
        and records.settings in (best.settings, others.settings)
where
    (of_sweep is null or records.sweep_id glob of_sweep)
    and (flag is null or raced_out or records.status <> 'raced_out');

-- Return a short key for the cell, the versions and the settings that a verdict is about.
create or replace macro place_of(
    cell_id, env_hash, software_hash, workload_hash, other_settings
) as md5(concat_ws('|', cell_id, env_hash, software_hash, workload_hash, other_settings));

-- Return whether a trial's times are unreliable because its GPU was throttled or shared.
create or replace macro is_doubtful(warnings) as
    coalesce(list_has_any(warnings, ['throttled', 'shared_gpu']), false);
