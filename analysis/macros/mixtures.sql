-- Return the mean and its standard errors for each cell and clock, as input of `judged`. `logs` is
-- the name of a table with one row for each block and clock. It has the columns cell, clock,
-- observed (a log ratio), choice (a hash of the kernels; null if unknown) and pool (equal for cells
-- with equal settings). The optional column `share` has the share of the 5% error that the test may
-- use (1 if it is missing). docs/validation.md (Choices that few processes make) has the reason.
--
-- The optional columns `elsewhere` and `error` have variances from other cells and from rounds
-- within blocks. The larger one is pooled with the variance between blocks, with one degree of
-- freedom, unless two choices differ by 3% or more. The optional column `origin` has the host and
-- launch of a CPU-bound loop. If there are several, DerSimonian and Laird's variance is added.
--
-- With several choices, and three blocks more than choices, shares follow a Dirichlet distribution.
-- With one choice, the interval allows for an unseen one if other cells of the pool have one. Its
-- share is at most 1 - (0.025 * share) ** (1 / blocks), and 20 times the pool's share of such ones.
--
-- `se_low` and `se_high`, multiplied by t_half(df, share), are the distances to the interval's
-- ends. `unseen_low` and `unseen_high` are the parts of these distances for choices that no process
-- made. `usual` is the mean of the most common choice, and `most_alike` is its number of blocks.
create or replace macro over_choices(logs) as table
with given as materialized (
    from query_table(logs)
    where observed is not null
    union all by name
    select
        null::double as share,
        null::double as elsewhere,
        null::double as error,
        null::text as origin
    where false
),

by_choice as (
    select
        columns(['cell', 'clock', 'choice']),
        any_value(columns(['pool', 'share', 'elsewhere'])),
        sum(error) as error,
        count(*) as blocks,
        avg(observed) as mean,
        var_pop(observed) * count(*) as squares
    from given
    group by cell, clock, choice
),

by_origin as (
    select
        columns(['cell', 'clock']),
        count(*) as blocks,
        avg(observed) as mean,
        var_pop(observed) * count(*) as squares
    from given
    where origin is not null
    group by cell, clock, origin
),

origins as (
    select
        columns(['cell', 'clock']),
        count(*) as origins,
        sum(blocks * blocks) / sum(blocks) as alike, -- blocks per origin, mean over blocks
        sum(squares) as squares,
        sum(blocks * mean ** 2) - sum(blocks * mean) ** 2 / sum(blocks) as apart
    from by_origin
    group by cell, clock
    having count(*) > 1
),

joined as (
    select
        columns(['cell', 'clock']),
        any_value(pool) as pool,
        coalesce(any_value(share), 1) as share,
        greatest(any_value(elsewhere), sum(error) / sum(blocks)) as elsewhere,
        sum(blocks)::bigint as blocks,
        count(*) as choices,
        count(choice) = count(*) as is_known,
        max(blocks) as most_alike,
        max_by(mean, row(blocks, mean)) as usual,
        min(mean) as fastest,
        max(mean) as slowest,
        list(mean) as means,
        list(blocks) as counts,
        sum(squares) as squares
    from by_choice
    group by cell, clock
),

pooled as materialized (
    select
        *,
        list_dot_product(means, counts::double[]) / blocks as mean,
        list_sum(list_transform(
            list_zip(means, counts), lambda each: each[2] * (each[1] - mean) ** 2
        )) as apart,
        if(choices = 1 or slowest - fastest < ln(1.03), elsewhere, null) as borrowed,
        blocks - 1 + if(borrowed is null, 0, 1) as df,
        sqrt((apart + squares + coalesce(borrowed, 0)) / nullif(df, 0) / blocks) as se,
        squares / nullif(blocks - choices, 0) as scatter
    from joined
),

strays as (
    select
        columns(['clock', 'pool', 'blocks']),
        choices = 2 as is_stray,
        fastest + slowest - 2 * usual as off,
        if(
            abs(off) > t_95(blocks - 2) * sqrt(scatter * blocks / (blocks - 1)), off, 0
        ) as really_off
    from pooled
    where is_known and (choices = 1 or choices = 2 and most_alike = blocks - 1 and blocks >= 3)
),

unseen as (
    select
        columns(['clock', 'pool']),
        quantile_cont(greatest(-really_off, 0), 0.95) filter (where is_stray) as faster,
        quantile_cont(greatest(really_off, 0), 0.95) filter (where is_stray) as slower,
        20 * (count_if(is_stray) + 1)
        / (sum(blocks) filter (where not is_stray) + count_if(is_stray) + 1) as most
    from strays
    group by clock, pool
    having bool_or(is_stray)
),

-- A choice's place is 0 if it is the fastest, 1 if it is the slowest, and between for the others.
ends as ( -- noqa: ST03
    select
        *,
        slowest - fastest as span,
        blocks * (mean - fastest) / span as places,
        (apart + blocks * (mean - fastest) ** 2) / span ** 2 as squared_places,
        unnest([0, 1]) as place, -- place of one imagined further block
        if(place = 0, 0.025 * share, 1 - 0.025 * share) as p,
        (places + place) / (blocks + 1) as centre,
        ((squared_places + place) / (blocks + 1) - centre ** 2) / (blocks + 2) as variance,
        centre * (1 - centre) / variance - 1 as weight,
        -- Rounding makes many rows equal, so that fewer quantiles are computed.
        round(centre * weight, 4) as a,
        round((1 - centre) * weight, 4) as b
    from pooled
    where is_known and blocks - choices >= 3 and slowest > fastest
),

-- `t_half` is slow, so it is called once for each df and share.
halves as (
    select
        df,
        share,
        t_half(df, share) as half
    from (
        select
            unnest([df, blocks - choices]) as df,
            share
        from pooled
    ) as wanted
    where df > 0
    group by df, share
),

bounds as (
    select
        ends.cell,
        ends.clock,
        ends.place,
        sqrt(
            greatest(1 - (ends.choices - 1) * ends.scatter / ends.apart, 0)
            * (ends.span * (tails.quantile - ends.places / ends.blocks)) ** 2
            + within.half ** 2 * ends.scatter / ends.blocks
        ) / overall.half as se
    from ends
    inner join beta_quantiles('ends') as tails
        on ends.p = tails.p and ends.a = tails.a and ends.b = tails.b
    inner join halves as within -- noqa: RF04
        on ends.blocks - ends.choices = within.df and ends.share = within.share
    inner join halves as overall
        on ends.df = overall.df and ends.share = overall.share
),

estimated as (
    select
        pooled.*,
        low.se as mixed_se_low,
        high.se as mixed_se_high,
        if(
            pooled.is_known and pooled.choices = 1,
            least(1 - (0.025 * pooled.share) ** (1.0 / pooled.blocks), unseen.most),
            null
        ) as most_unseen,
        most_unseen * unseen.faster as unseen_low,
        most_unseen * unseen.slower as unseen_high,
        halves.half,
        pooled.df + 1 - origins.origins as df_within,
        (origins.squares + coalesce(pooled.borrowed, 0)) / nullif(df_within, 0) as variance_within,
        (origins.apart - (origins.origins - 1) * variance_within) / (pooled.blocks - origins.alike)
            as variance_between,
        coalesce(
            (t_95(origins.origins) / t_95(pooled.df)) ** 2
            * ((origins.origins - 1) * greatest(variance_between, 0) + launch_variance())
            / origins.origins * origins.alike / pooled.blocks,
            0
        ) as between_origins
    from pooled
    left join halves on pooled.df = halves.df and pooled.share = halves.share
    left join origins on pooled.cell = origins.cell and pooled.clock = origins.clock
    left join bounds as low on pooled.cell = low.cell and pooled.clock = low.clock and low.place = 0
    left join bounds as high
        on pooled.cell = high.cell and pooled.clock = high.clock and high.place = 1
    left join unseen on pooled.clock = unseen.clock and pooled.pool = unseen.pool
)

select
    columns([
        'cell', 'clock', 'share', 'blocks', 'df', 'mean', 'se', 'most_alike', 'usual',
        'most_unseen', 'unseen_low', 'unseen_high'
    ]),
    if(is_known, choices, null) as choices,
    list_filter(means, lambda each: each <> usual) as others,
    -- `mixed_se_low` is null if there is one choice. `unseen_low` is null if there are several.
    sqrt(
        coalesce(mixed_se_low, se) ** 2 + coalesce(unseen_low / half, 0) ** 2 + between_origins
    ) as se_low,
    sqrt(
        coalesce(mixed_se_high, se) ** 2 + coalesce(unseen_high / half, 0) ** 2 + between_origins
    ) as se_high
from estimated;

-- Return a text with the ratios of the different choices of kernels. Return null if their log
-- ratios differ by less than `small`, or if no choice has half of the blocks.
create or replace macro in_choices(choices, blocks, most_alike, usual, others, small) as case
    when
        choices > 1 and 2 * most_alike >= blocks
        and list_max(list_append(others, usual)) - list_min(list_append(others, usual)) >= small
        then format(
            '{} {:.2f}; in {} of {} processes {:.2f}{}',
            if(2 * most_alike > blocks, 'usually', 'in one half'),
            exp(usual), blocks - most_alike, blocks, exp(list_min(others)),
            if(len(others) > 1, format(' to {:.2f}', exp(list_max(others))), '')
        )
end;

-- Return a text about choices that no process made, or null if their effect is below 1%.
create or replace macro in_unseen(blocks, most_unseen, unseen_low, unseen_high) as case
    when greatest(unseen_low, unseen_high) >= 0.01
        then format(
            'all {} processes chose the same kernels; up to {:.0f}% may choose others, {:.0f}% {}',
            blocks, 100 * most_unseen,
            100 * (exp(greatest(unseen_low, unseen_high) / most_unseen) - 1),
            if(unseen_high >= unseen_low, 'slower', 'faster')
        )
end;

-- Return the log ratio of side c to side b for each cell and clock, as input of `judged`.
-- `processes` is the name of a table with the columns cell, side, pool, choice, wall and device.
-- Blocks are not paired. The interval is Welch's. If choices widen a side's interval, Zou and
-- Donner's method (MOVER) combines the intervals of the two sides.
create or replace macro over_sides(processes, b_side, c_side, small) as table
with sided as (
    select -- noqa: ST06
        struct_pack(of := cell, side := side) as cell,
        clock,
        ln(ms) as observed,
        choice,
        concat_ws('|', pool, side) as pool
    from (
        unpivot (from query_table(processes))
        on wall, device
        into name clock value ms
    )
    where ms > 0
),

of_sides as materialized (
    select
        columns(['cell', 'clock', 'blocks', 'mean', 'se', 'se_low', 'se_high']),
        t_95(df) * se_low as to_low,
        t_95(df) * se_high as to_high,
        coalesce(
            in_choices(
                choices, blocks, most_alike, 0.0,
                list_transform(others, lambda each: each - usual), small
            ),
            in_unseen(blocks, most_unseen, unseen_low, unseen_high)
        ) as by_choice
    from over_choices('sided')
)

select
    b.cell.of as cell,
    b.clock,
    c.mean - b.mean as mean,
    sqrt(b.se ** 2 + c.se ** 2) as se,
    welch_df(b.se ** 2 * b.blocks, b.blocks, c.se ** 2 * c.blocks, c.blocks) as df,
    if(
        c.se_low = c.se and b.se_high = b.se, sqrt(b.se ** 2 + c.se ** 2),
        sqrt(c.to_low ** 2 + b.to_high ** 2) / t_95(df)
    ) as se_low,
    if(
        c.se_high = c.se and b.se_low = b.se, sqrt(b.se ** 2 + c.se ** 2),
        sqrt(c.to_high ** 2 + b.to_low ** 2) / t_95(df)
    ) as se_high,
    b.by_choice as b_choice,
    c.by_choice as c_choice
from of_sides as b
inner join of_sides as c
    on
        b.cell.of = c.cell.of
        and b.clock = c.clock
        and b.cell.side = b_side
        and c.cell.side = c_side;
