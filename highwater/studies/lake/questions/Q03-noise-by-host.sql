-- title: How much trials of the same thing differ, by host
-- param metric = produce.p99: a name of `highwater bench metrics`
-- param workload = none: this workload only
-- answer: {first.cpu_model} ({first.environment}) is the noisiest: {param.metric} of trials of one cell varies by {first.variation_ratio}; the quietest is {last.cpu_model} ({last.environment}) with {last.variation_ratio}
-- nothing: no run has two usable trials of one cell with {param.metric}
with cells as (
    select f.run, f.cell, count(*) as trials, variation_of(array_agg(f.value)) as variation
    from figures f
    where f.metric = :metric and f.usable and f.role = 'measure'
    group by f.run, f.cell
)
select r.environment, r.host, r.cpu_model, r.kernel, count(distinct c.run) as runs, cast(sum(c.trials) as bigint) as trials,
       median_of(array_agg(c.variation)) as variation_ratio, max(c.variation) as largest_variation_ratio
from cells c join runs r on r.run = c.run
where c.variation is not null and (:workload is null or r.workload = :workload)
group by r.environment, r.host, r.cpu_model, r.kernel
order by variation_ratio desc, environment, host
