-- title: What two trials of the same thing differ by: the A/A noise floor
-- param metric = none: this metric only
-- param workload = none: this workload only
-- answer: {first.metric} of {first.workload} is the noisiest: two trials of the same thing differ by up to {first.noise_ratio}, 95 times in 100 ({first.pairs} pairs)
-- nothing: there are no three A/A pairs of anything (trials: {a_a: true} makes them)
with pairs as (
    select r.workload, r.environment, twin.metric, twin.value / own.value as ratio
    from figures twin
    join figures own on own.run = twin.run and own.cell = twin.cell and own.block = twin.block
                    and own.metric = twin.metric and own.role = 'measure' and own.usable
    join runs r on r.run = twin.run
    where twin.role = 'a_a' and twin.usable and own.value > 0 and twin.value > 0
      and (:workload is null or r.workload = :workload)
      and (twin.metric = :metric
           or (:metric is null and twin.metric in ('produce.achieved_per_s', 'produce.p50', 'produce.p99',
                                                   'produce.p999', 'e2e.p99', 'system.cpu_s_per_gib')))
),
bounds as (
    select workload, environment, metric, noise_bound(array_agg(ratio)) as noise_ratio, count(*) as pairs
    from pairs
    group by workload, environment, metric
)
select workload, environment, metric, noise_ratio, pairs
from bounds
where noise_ratio is not null
order by noise_ratio desc, workload, environment, metric
