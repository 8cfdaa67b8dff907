-- title: Which figure of the host goes with a latency most closely
-- param metric = produce.p999: the latency, a name of `highwater bench metrics`
-- param workload = none: this workload only
-- answer: {first.host_metric} goes with {param.metric} most closely: rank correlation {first.correlation} over {first.trials} trials (that one causes the other is not shown)
-- nothing: fewer than five usable trials have {param.metric} and a figure of the host that varies
with target as (
    select f.run, f.trial_id, r.workload, f.cell, f.value
    from figures f join runs r on r.run = f.run
    where f.metric = :metric and f.usable and f.role = 'measure' and (:workload is null or r.workload = :workload)
),
-- Cells differ by what they measure; what is left over is what the host may explain.
centre as (
    select workload, cell, median_of(array_agg(value)) as value from target group by workload, cell
),
relative as (
    select t.run, t.trial_id, t.value / c.value as ratio
    from target t join centre c on c.workload = t.workload and c.cell = t.cell
    where c.value > 0
),
found as (
    select f.metric as host_metric, rank_correlation(array_agg(pair(f.value, x.ratio))) as correlation,
           count(*) as trials
    from figures f join relative x on x.run = f.run and x.trial_id = f.trial_id
    where f.metric like 'host.%' or f.metric like 'writeback.%' or f.metric like 'system.%'
    group by f.metric
)
select host_metric, correlation, trials
from found
where correlation is not null
order by abs(correlation) desc, host_metric
