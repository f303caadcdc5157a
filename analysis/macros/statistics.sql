-- Macros for statistics over blocks, and for Student's t distribution, which DuckDB lacks.

-- Student's t distribution for whole degrees of freedom, by the finite sums of Abramowitz and
-- Stegun (26.7.3 and 26.7.4). Their nested brackets are evaluated from the innermost.
create or replace macro t_brackets(c, df) as list_reduce( -- noqa: PRS
    list_prepend(1::double, list_reverse(range(2 + df % 2, df, 2))::double[]),
    lambda bracket, k: 1 + bracket * c * (k - 1) / k
);

create or replace macro t_within(t, df) as case
    when df = 1 then 2 / pi() * atan(t)
    when df % 2 = 1
        then 2 / pi() * (
            atan(t / sqrt(df)) + t * sqrt(df) / (df + t * t) * t_brackets(df / (df + t * t), df)
        )
    else t / sqrt(df + t * t) * t_brackets(df / (df + t * t), df)
end;

create or replace macro t_above(t, df) as greatest(0.5 - t_within(t, df) / 2, 0);

-- Return the quantile of Student's t for the quantile `z` of the normal distribution (Abramowitz
-- and Stegun, 26.7.5). The error is below 1e-8 if df is above 60.
create or replace macro t_expanded(z, df) as
    z
    + (z ** 3 + z) / (4 * df)
    + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * df ** 2)
    + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * df ** 3);

-- Return half the width of a two-sided 95% interval, in standard errors.
create or replace macro t_95(df) as if(df > 60, t_expanded(1.959963984540054, df), [
    12.70620474, 4.30265273, 3.18244631, 2.77644511, 2.57058184, 2.44691185, 2.36462425,
    2.30600414, 2.26215716, 2.22813885, 2.20098516, 2.17881283, 2.16036866, 2.14478669,
    2.13144955, 2.11990530, 2.10981558, 2.10092204, 2.09302405, 2.08596345, 2.07961384,
    2.07387307, 2.06865761, 2.06389856, 2.05953855, 2.05552944, 2.05183052, 2.04840714,
    2.04522964, 2.04227246, 2.03951345, 2.03693334, 2.03451530, 2.03224451, 2.03010793,
    2.02809400, 2.02619246, 2.02439416, 2.02269092, 2.02107539, 2.01954097, 2.01808170,
    2.01669220, 2.01536757, 2.01410339, 2.01289560, 2.01174051, 2.01063476, 2.00957524,
    2.00855911, 2.00758377, 2.00664681, 2.00574600, 2.00487929, 2.00404478, 2.00324072,
    2.00246546, 2.00171748, 2.00099538, 2.00029782
][df]);

create or replace macro t_density(t, df) as
    exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * pi())
    * (1 + t * t / df) ** (-(df + 1) / 2);

-- Return the value that Student's t exceeds with the probability `p`, from 1e-12 to 0.05.
create or replace macro t_exceeded(p, df) as list_reduce(
    list_prepend(1.6::double, range(60)::double[]),
    lambda t, _step: t + (t_above(t, df) - greatest(p, 1e-12)) / t_density(t, df)
);

create or replace macro t_90(df) as
    if(df > 60, t_expanded(1.6448536269514722, df), t_exceeded(0.05, df));

-- Return half the width of an interval with the coverage 1 - 0.05 * share, in standard errors.
create or replace macro t_half(df, share) as
    if(share = 1, t_95(df), t_exceeded(0.025 * share, df));

create or replace macro standard_error(x) as stddev_samp(x) / sqrt(count(x));

create or replace macro log_of(x) as case when x > 0 then ln(x) end;

create or replace macro log_ratio(candidate, baseline) as
    case when candidate > 0 and baseline > 0 then ln(candidate / baseline) end;

-- Return `ms`. If `log` is not null, first scale both times so that their log ratio is `log`.
create or replace macro in_rounds(ms, other_ms, log) as
    coalesce(sqrt(ms * other_ms) * exp(log / 2), ms);

-- Return `common_ms`. If it is null, return the side's time from `in_rounds`.
create or replace macro comparable_ms(do_compare, common_ms, ms, other_ms, log) as
    if(do_compare, coalesce(common_ms, in_rounds(ms, other_ms, log)), null);

-- Return the p value of the hypothesis that the true mean is at most `least` away from 0.
create or replace macro p_of_effect(mean, se, df, least) as case
    when df is null or df < 1 or se is null then null -- greatest() ignores nulls
    when se = 0 then if(abs(mean) > least, 0.0, 1.0)
    else t_above((abs(mean) - least) / se, df) + t_above((abs(mean) + least) / se, df)
end;

-- Return the value that a normal variable exceeds with the probability `p`, which is at most 0.5.
-- The error is below 5e-4 (Abramowitz and Stegun, 26.2.23).
create or replace macro normal_above(p) as
    sqrt(-2 * ln(p))
    - (2.515517 + 0.802853 * sqrt(-2 * ln(p)) - 0.020656 * ln(p))
    / (1 + 1.432788 * sqrt(-2 * ln(p)) - 0.378538 * ln(p) + 0.001308 * sqrt(-2 * ln(p)) ** 3);

-- Return how many blocks an interval needs to end within `gap` of the mean in four of five cases.
-- `z` is the normal quantile of the test's level.
create or replace macro blocks_within(gap, se, unseen, blocks, z) as (
    (z + 0.8416) * se + sqrt(((z + 0.8416) * se) ** 2 + 4 * coalesce(unseen, 0) * gap)
) ** 2 / (2 * gap) ** 2 * blocks;

-- Return how many further blocks would decide in four of five cases, if mean and scatter stay the
-- same. Return null below two degrees of freedom and above 1,000 blocks.
create or replace macro blocks_to_decide(
    mean, se_low, se_high, unseen_low, unseen_high, df, blocks, z, least
) as case
    when df >= 2 and greatest(se_low, se_high) > 0 and abs(mean) <> least
        then nullif(least(greatest(ceil(
            case
                when mean > least
                    then blocks_within(mean - least, se_low, unseen_low, blocks, z)
                when mean < -least
                    then blocks_within(-mean - least, se_high, unseen_high, blocks, z)
                else greatest(
                    blocks_within(least + mean, se_low, unseen_low, blocks, z),
                    blocks_within(least - mean, se_high, unseen_high, blocks, z)
                )
            end
            + z ** 2 / 2
        ) - blocks, 1), 1001), 1001)::bigint
end;

create or replace macro ln_choose(n, k) as lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);

-- Return the p value of Fisher's one-sided exact test. It is the probability that at least `failed`
-- of all failures are on this side.
create or replace macro p_of_failures(failed, others, n) as
    list_sum(list_transform(
        range(failed, least(n, failed + others) + 1),
        lambda k: exp(
            ln_choose(n, k) + ln_choose(n, failed + others - k) - ln_choose(2 * n, failed + others)
        )
    ));

-- Return whether one side fails more often than the other in `n` blocks, by Fisher's test. One more
-- failure is enough if no block has times (`timed` is 0).
create or replace macro surely_fails(failed, others, n, timed, share) as
    failed > others and (timed = 0 or p_of_failures(failed, others, n) < 0.05 * share);

-- Return the p value of a true mean that is `gap` away from the estimate.
create or replace macro p_of_gap(gap, se, df) as
    if(se = 0, if(gap > 0, 0.0, 1.0), t_above(gap / se, df));

create or replace macro verdict(mean, se_low, se_high, df, adjusted_p, least, share) as case
    when adjusted_p <= 0.05 and mean < 0 then 'helps'
    when adjusted_p <= 0.05 then 'hurts'
    when
        df > 0 and abs(mean) < least
        and p_of_gap(least - mean, se_high, df) < 0.05 * share
        and p_of_gap(least + mean, se_low, df) < 0.05 * share
        then 'equivalent'
    else 'inconclusive'
end;

-- Return a verdict for each cell and clock (wall, device, memory, ...). `estimates` is the name of
-- a table with the columns cell, clock, mean, se and df. It may have further columns of
-- `over_choices`, and the column family. The p values of a family are corrected by Benjamini and
-- Hochberg's procedure, at the level 0.05 * share. All `of_cells` rows of the whole plan count as
-- tests. `blocks_needed` is the number of further blocks that an inconclusive verdict needs, and
-- `blocks_alone` is that number without the correction. `too_early` makes a verdict inconclusive.
create or replace macro judged(estimates, min_effect, of_cells) as table
with given as (
    select
        * exclude (share, too_early, se_low, se_high, blocks),
        coalesce(blocks, df + 1) as blocks,
        coalesce(se_low, se) as se_low,
        coalesce(se_high, se) as se_high,
        if(unseen_low > 0, se, coalesce(se_low, se)) as seen_se_low,
        if(unseen_high > 0, se, coalesce(se_high, se)) as seen_se_high,
        coalesce(share, 1) as share,
        -- Values that are equal in all blocks, such as bytes, are never too early.
        coalesce(too_early and coalesce(greatest(se, se_low, se_high), 1) > 0, false)
            as too_early,
        case
            when min_effect >= 0 and isfinite(min_effect) then ln(1 + min_effect)
            else error('min_effect: found ' || min_effect::text || ', allowed is 0 or more')
        end as least
    from (
        from query_table(estimates)
        union all by name
        select
            null as family,
            null::double as share,
            null::boolean as too_early,
            null::bigint as blocks,
            null::double as se_low,
            null::double as se_high,
            null::double as unseen_low,
            null::double as unseen_high
        where false
    )
    where mean is not null
),

tested as (
    select
        *,
        if(
            too_early, 1.0, p_of_effect(mean, if(mean > 0, se_low, se_high), df, least) / share
        ) as p,
        if(too_early, 1, share) as drawn
    from given
),

-- `t_half` is slow, so it is called once for each df and share.
halves as (
    select
        df as of_df,
        drawn as of_share,
        t_half(df, drawn) as half
    from tested
    group by df, drawn
),

counted as (
    select
        *,
        greatest(
            count(p) over (partition by clock, family),
            -- `of_cells` without the rows of other families
            of_cells - count(*) over (partition by clock)
            + count(*) over (partition by clock, family)
        ) as tests,
        p * tests
        / row_number() over (partition by clock, family order by p nulls last) as scaled_p
    from tested
),

adjusted as (
    select
        *,
        if(
            p is null, null, min(scaled_p) over (partition by clock, family order by p desc nulls last)
        ) as adjusted_p
    from counted
),

-- the level at which one further row would pass the procedure
levelled as (
    select
        *,
        if(
            abs(mean) > least,
            0.05 * share * least(
                1 + count(*) filter (where adjusted_p <= 0.05) over (partition by clock, family),
                tests
            ) / tests,
            0.05 * share
        ) as level
    from adjusted
),

-- This is a separate step, because DuckDB computes an alias anew at each use in the same select.
worded as (
    select
        *,
        normal_above(level) as level_z,
        normal_above(0.05 * share) as alone_z,
        if(
            too_early, 'inconclusive', verdict(mean, se_low, se_high, df, adjusted_p, least, share)
        ) as verdict
    from levelled
),

lacking as (
    select
        *,
        if(
            verdict = 'inconclusive',
            list_transform(
                [level_z, alone_z],
                lambda z: blocks_to_decide(
                    mean, seen_se_low, seen_se_high, unseen_low, unseen_high, df, blocks, z, least
                )
            ),
            null
        ) as blocks_lacking
    from worded
)

select
    cell,
    clock,
    exp(mean) as ratio,
    exp(mean - half * se_low) as ratio_low,
    exp(mean + half * se_high) as ratio_high,
    verdict,
    blocks_lacking[1] as blocks_needed,
    blocks_lacking[2] as blocks_alone
from lacking
inner join halves
    on drawn = of_share and df is not distinct from of_df;

-- Return a ratio with its interval as text, such as 12% less (11–13%) or 1% more (-2 to 4%).
create or replace macro in_percent(ratio, ratio_low, ratio_high) as format(
    '{:.0f}% {} ({:.0f}{}{:.0f}%)',
    100 * abs(ratio - 1), if(ratio < 1, 'less', 'more'),
    100 * if(ratio < 1, 1 - ratio_high, ratio_low - 1),
    if(ratio_low < 1 and ratio_high > 1, ' to ', '–'),
    100 * if(ratio < 1, 1 - ratio_low, ratio_high - 1)
);

-- Return the degrees of freedom of Welch's test, rounded down. Return null for groups of one value.
create or replace macro welch_df(var_1, n_1, var_2, n_2) as case
    when least(n_1, n_2) < 2 then null
    when var_1 + var_2 = 0 then n_1 + n_2 - 2
    else floor(
        (var_1 / n_1 + var_2 / n_2) ** 2
        / ((var_1 / n_1) ** 2 / (n_1 - 1) + (var_2 / n_2) ** 2 / (n_2 - 1))
    )::bigint
end;
