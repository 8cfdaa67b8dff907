-- title: What has become worse since a date
-- param since (date): the first day that counts as new, such as 2026-03-01
-- param floor (percent) = 5%: the smallest change that matters
-- param workload = none: this workload only
-- answer: {first.workload}, {first.cell}: {first.metric} is worse since {param.since}, {first.before} → {first.after} ({first.change_ratio}); {rows} figures are worse in all
-- nothing: no figure is worse since {param.since} by more than {param.floor} and the noise of A/A pairs
with figure as (
    select r.workload, r.environment, f.cell, f.metric, f.unit, f.better, r.run,
           case when r.created_utc >= :since then 1 else 0 end as is_new, median_of(array_agg(f.value)) as value
    from figures f join runs r on r.run = f.run
    where f.usable and f.role = 'measure' and f.better in ('lower', 'higher')
      and f.metric in ('produce.achieved_per_s', 'produce.p50', 'produce.p99', 'e2e.p99', 'consume.per_s',
                       'system.cpu_s_per_gib')
      and (:workload is null or r.workload = :workload)
    group by r.workload, r.environment, f.cell, f.metric, f.unit, f.better, r.run, r.created_utc
),
sides as (
    select workload, environment, cell, metric, unit, better,
           median_of(array_agg(case when is_new = 0 then value end)) as before,
           median_of(array_agg(case when is_new = 1 then value end)) as after,
           count(*) - sum(is_new) as runs_before, sum(is_new) as runs_after
    from figure
    group by workload, environment, cell, metric, unit, better
),
noise as (
    select r.workload, r.environment, twin.metric, noise_bound(array_agg(twin.value / own.value)) as bound
    from figures twin
    join figures own on own.run = twin.run and own.cell = twin.cell and own.block = twin.block
                    and own.metric = twin.metric and own.role = 'measure' and own.usable
    join runs r on r.run = twin.run
    where twin.role = 'a_a' and twin.usable and own.value > 0 and twin.value > 0
      and twin.metric in ('produce.achieved_per_s', 'produce.p50', 'produce.p99', 'e2e.p99', 'consume.per_s',
                          'system.cpu_s_per_gib')
    group by r.workload, r.environment, twin.metric
),
judged as (
    select s.*, n.bound as noise_ratio, s.after / s.before as change_ratio,
           case when s.better = 'lower' then s.after / s.before else s.before / s.after end as worse_by
    from sides s
    left join noise n on n.workload = s.workload and n.environment = s.environment and n.metric = s.metric
    where s.before > 0 and s.after > 0
)
select workload, environment, cell, metric, before, after, unit, change_ratio, noise_ratio,
       cast(runs_before as bigint) as runs_before, cast(runs_after as bigint) as runs_after
from judged
where worse_by > 1 + greatest(:floor, coalesce(noise_ratio, 0))
order by worse_by desc, workload, environment, cell, metric
