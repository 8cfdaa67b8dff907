-- title: One figure of a workload over time
-- param workload: the workload
-- param metric = produce.p99: a name of `highwater bench metrics`
-- param environment = none: an environment key, or its beginning
-- answer: {last.workload}, {last.cell}: {param.metric} {last.value} on {last.time}, {last.change_ratio} since {last.first_time} ({last.first_value}); {last.runs} runs
-- nothing: no usable trial of {param.workload} has {param.metric}
with history as (
    select r.workload, r.environment, f.cell, r.created_utc as time, r.run, r.commit,
           count(*) as trials, median_of(array_agg(f.value)) as value, min(f.unit) as unit
    from figures f join runs r on r.run = f.run
    where r.workload = :workload and f.metric = :metric and f.usable and f.role = 'measure'
      and (:environment is null or r.environment like :environment || '%')
    group by r.workload, r.environment, f.cell, r.created_utc, r.run, r.commit
)
select workload, environment, cell, time, run, commit, trials, value, unit,
       first_value(time) over series as first_time,
       first_value(value) over series as first_value,
       value / nullif(first_value(value) over series, 0) as change_ratio,
       count(*) over (partition by environment, cell) as runs
from history
window series as (partition by environment, cell order by time, run)
order by time, run, environment, cell
