create or replace macro convolution_kernels(kernels) as list_transform(
    list_filter(kernels, lambda kernel: kernel.kind = 'convolution'), lambda kernel: kernel.name
);

-- Return false if the two lists have an element in common. Return true if each list has exactly one
-- element and the elements differ. Otherwise, return null.
create or replace macro chose_otherwise(b_choices, c_choices) as case
    when list_has_any(b_choices, c_choices) then false
    when len(b_choices) = 1 and len(c_choices) = 1 then true
end;

create or replace macro only_in(names, others) as
    if(others is null, null, list_filter(names, lambda each: not list_contains(others, each)));

-- Return the text `old → new` for each operation of a step that got another engine.
create or replace macro replaced(engines, others) as
    if(
        len(engines) = len(others),
        list_transform(
            list_filter(list_zip(engines, others), lambda each: each[1] <> each[2]),
            lambda each: each[1] || ' → ' || each[2]
        ),
        null
    );

create or replace macro engines(logged_choices) as
    list_transform(logged_choices, lambda choice: choice.engine);

-- Return the kernels and engines of each trial. `trials` is the name of a table with the column
-- `trial`, a struct of sweep_id and trial_id.
create or replace macro choices_of(trials) as table
with wanted as (
    select distinct trial
    from query_table(trials)
)

select
    wanted.trial,
    convolution_kernels(records.kernels) as kernels,
    engines(records.logged_choices) as engines
from wanted
inner join records
    on wanted.trial.sweep_id = records.sweep_id and wanted.trial.trial_id = records.trial_id;
