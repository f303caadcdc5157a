-- What a step chose, as lists of names.

create or replace macro convolution_kernels(kernels) as list_transform(
    list_filter(kernels, lambda kernel: kernel.kind = 'convolution'),
    lambda kernel: kernel.name
);

create or replace macro engines(logged_choices) as
    list_transform(logged_choices, lambda choice: choice.engine);

-- `trials` names a table of trials, the column `trial` a struct of sweep_id and trial_id. One row a
-- trial: what it chose. Kernels and logs are most of a store: a question that groups by choice
-- keeps a trial of each, and asks here.
create or replace macro choices_of(trials) as table
with asked as (
    select distinct trial
    from query_table(trials)
)

select
    asked.trial,
    convolution_kernels(records.kernels) as kernels,
    engines(records.logged_choices) as engines
from asked
inner join records
    on asked.trial.sweep_id = records.sweep_id and asked.trial.trial_id = records.trial_id;
