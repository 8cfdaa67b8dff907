-- title: Whether a record was ever lost or received twice
-- param workload = none: this workload only
-- answer if first.faulty_trials = 0: no record was lost, repeated, reordered or damaged in any of {lake.trials} trials; of {first.unchecked_trials_in_all} it was not checked
-- answer: {first.workload}: {first.lost} lost, {first.duplicated} duplicated, {first.reordered} reordered, {first.corrupt} damaged of {first.sent} records, in {first.faulty_trials} of {first.trials} trials
-- nothing: the lake has no such trial
with by_workload as (
    select r.workload, t.system, t.version, count(*) as trials,
           cast(sum(case when t.lost + t.duplicated + t.reordered + t.corrupt > 0 then 1 else 0 end) as bigint)
               as faulty_trials,
           cast(sum(case when t.delivery_checked then 0 else 1 end) as bigint) as unchecked_trials,
           cast(sum(t.sent) as bigint) as sent, cast(sum(t.lost) as bigint) as lost,
           cast(sum(t.duplicated) as bigint) as duplicated, cast(sum(t.reordered) as bigint) as reordered,
           cast(sum(t.corrupt) as bigint) as corrupt
    from trials t join runs r on r.run = t.run
    where :workload is null or r.workload = :workload
    group by r.workload, t.system, t.version
)
select workload, system, version, trials, faulty_trials, sent, lost, duplicated, reordered, corrupt, unchecked_trials,
       cast(sum(unchecked_trials) over () as bigint) as unchecked_trials_in_all
from by_workload
order by faulty_trials desc, lost desc, workload, system, version
