-- title: What was achieved of each target rate, over versions
-- param workload = none: this workload only
-- answer: {last.system} {last.version} reached 99.5 % of targets up to {last.reached_per_s}; {first.system} {first.version} up to {first.reached_per_s}
-- nothing: no usable trial had a target rate
with curve as (
    select r.workload, t.system, t.version, t.offered_per_s, count(*) as trials,
           median_of(array_agg(t.achieved_per_s)) as achieved_per_s, min(r.created_utc) as first_time
    from trials t join runs r on r.run = t.run
    where t.usable and t.role = 'measure' and t.offered_per_s > 0 and (:workload is null or r.workload = :workload)
    group by r.workload, t.system, t.version, t.offered_per_s
),
versions as (
    select workload, system, version, min(first_time) as since,
           max(case when achieved_per_s >= 0.995 * offered_per_s then offered_per_s end) as reached_per_s
    from curve
    group by workload, system, version
)
select c.workload, c.system, c.version, v.since, c.offered_per_s, c.achieved_per_s,
       c.achieved_per_s / c.offered_per_s as achieved_ratio, c.trials, v.reached_per_s
from curve c join versions v on v.workload = c.workload and v.system = c.system and v.version = c.version
order by c.workload, v.since, c.system, c.version, c.offered_per_s
