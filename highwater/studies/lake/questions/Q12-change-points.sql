-- title: Where a figure changed for good: change points by Apache Otava
-- param metric = produce.p99: a name of `highwater bench metrics`
-- param workload = none: this workload only
-- param floor (percent) = 5%: the smallest change that matters
-- then: change_points
-- answer: {last.workload}, {last.cell}: {param.metric} changed on {last.time}, {last.before} → {last.after} ({last.change_ratio}); {rows} change points in all
-- nothing: no change point in {param.metric}
select r.workload, r.environment, f.cell, r.created_utc as time, r.run, coalesce(r.commit, '') as commit,
       median_of(array_agg(f.value)) as value, min(f.unit) as unit
from figures f join runs r on r.run = f.run
where f.metric = :metric and f.usable and f.role = 'measure' and (:workload is null or r.workload = :workload)
group by r.workload, r.environment, f.cell, r.created_utc, r.run, r.commit
order by r.workload, r.environment, f.cell, r.created_utc, r.run
