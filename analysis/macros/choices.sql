-- What a step chose, as lists of names.

create or replace macro convolution_kernels(kernels) as list_transform(
    list_filter(kernels, lambda kernel: kernel.kind = 'convolution'),
    lambda kernel: kernel.name
);

create or replace macro engines(logged_choices) as
    list_transform(logged_choices, lambda choice: choice.engine);
