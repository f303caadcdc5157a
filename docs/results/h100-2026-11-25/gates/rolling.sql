-- What would a stored baseline have said of the same processes?
--
-- Each gate's first process of the head, against the median of the first processes of the base in
-- up to five gates before it on the same GPU: an alarm where it takes over 1.05 of that.
with firsts as (
    select
        gate,
        gpu,
        side,
        arg_min(wall_ms, started_ms) as wall_ms
    from read_csv('docs/results/h100-2026-11-25/gates/processes.csv')
    where twin = 0
    group by gate, gpu, side
),

rolling as (
    select
        gates.step,
        gates.input,
        gates.change,
        head.wall_ms / median(base.wall_ms) over (
            partition by head.gpu, gates.step, gates.input
            order by head.gate
            rows between 5 preceding and 1 preceding
        ) as ratio
    from firsts as head
    inner join firsts as base on head.gate = base.gate and base.side = 'base'
    inner join read_csv('docs/results/h100-2026-11-25/gates/gates.csv') as gates
        on head.gate = gates.gate
    where head.side = 'head'
)

select
    step,
    input,
    change,
    count(*) as judged,
    count(*) filter (where ratio > 1.05) as alarms,
    min(ratio) as smallest,
    max(ratio) as largest
from rolling
where ratio is not null
group by step, input, change
order by step, input, change
