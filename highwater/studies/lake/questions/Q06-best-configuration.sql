-- title: The best configuration on each storage target under an objective
-- param objective = produce.p99: the metric that is bounded
-- param bound (duration) = 20ms: what the objective may be at most, in every run
-- param best = produce.achieved_per_s: the metric to be highest
-- param workload = none: this workload only
-- answer: {first.workload} on {first.storage} ({first.medium}): {first.cell} is best, {param.best} {first.value} with {param.objective} of {first.objective_ns} at most
-- nothing: no configuration keeps {param.objective} within {param.bound}
with figure as (
    select r.workload, t.storage, t.medium, t.emulated, f.cell, f.run, f.metric, f.unit,
           median_of(array_agg(f.value)) as value
    from figures f
    join trials t on t.run = f.run and t.trial_id = f.trial_id
    join runs r on r.run = f.run
    where f.metric in (:objective, :best) and f.usable and f.role = 'measure'
      and (:workload is null or r.workload = :workload)
    group by r.workload, t.storage, t.medium, t.emulated, f.cell, f.run, f.metric, f.unit
),
configuration as (
    select workload, storage, medium, emulated, cell, count(distinct run) as runs,
           max(case when metric = :objective then value end) as objective_ns,
           median_of(array_agg(case when metric = :best then value end)) as value,
           max(case when metric = :best then unit end) as unit
    from figure
    group by workload, storage, medium, emulated, cell
),
ranked as (
    select configuration.*, row_number() over (
               partition by workload, storage, medium, emulated order by value desc, objective_ns, cell) as place,
           count(*) over (partition by workload, storage, medium, emulated) as configurations
    from configuration
    where objective_ns <= :bound and value is not null
)
select workload, storage, medium, emulated, cell, value, unit, objective_ns, runs, configurations
from ranked
where place = 1
order by workload, storage, medium
