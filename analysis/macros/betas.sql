-- Return quantiles of beta distributions. `tails` is the name of a table with the columns p, a and
-- b. Rows in which a or b is 0 are skipped. The results are within 2e-4 of scipy's.
create or replace macro beta_quantiles(tails) as table
with steps as (
    select
        columns(['p', 'a', 'b']),
        unnest(range(400)) as step,
        (step + 0.5) * pi() / 800 as angle,
        -- Division by about the peak keeps the sums above 0.
        exp(
            (2 * a - 1) * ln(sin(angle) / sqrt(a / (a + b)))
            + (2 * b - 1) * ln(cos(angle) / sqrt(b / (a + b)))
        ) as density
    from (
        select distinct columns(['p', 'a', 'b'])
        from query_table(tails)
        where a > 0 and b > 0
    ) as tail
),

summed as (
    select
        *,
        sum(density) over (partition by p, a, b order by step) as below,
        p * sum(density) over (partition by p, a, b) as wanted
    from steps
)

select
    columns(['p', 'a', 'b']),
    sin(min_by(step + 1 - (below - wanted) / density, step) * pi() / 800) ** 2 as quantile
from summed
where below >= wanted
group by p, a, b;

-- Return the 95% interval (Clopper and Pearson's) of the share k of n. `counts` is the name of a
-- table with the columns k and n.
create or replace macro share_intervals(counts) as table
with ends as ( -- noqa: ST03
    select distinct
        k,
        n,
        unnest([0.025, 0.975]) as p,
        if(p < 0.5, k, k + 1) as a,
        n + 1 - a as b
    from query_table(counts)
)

select
    ends.k,
    ends.n,
    coalesce(max(quantiles.quantile) filter (where ends.p < 0.5), 0) as low,
    coalesce(max(quantiles.quantile) filter (where ends.p > 0.5), 1) as high
from ends
left join beta_quantiles('ends') as quantiles
    on ends.p = quantiles.p and ends.a = quantiles.a and ends.b = quantiles.b
group by ends.k, ends.n;
