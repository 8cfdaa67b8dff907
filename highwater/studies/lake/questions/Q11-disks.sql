-- title: Disk against disk
-- param workload = none: this workload only
-- answer: {first.workload} is fastest on {first.storage} ({first.medium}): p99 {first.p99_ns}, {first.achieved_per_s}; on {last.storage} ({last.medium}) of {last.workload} it is {last.p99_ns}, {last.achieved_per_s}
-- nothing: no usable trial has a produce latency
with disk as (
    select r.workload, t.storage, t.medium, t.emulated, coalesce(t.disk_model, '') as disk_model, count(*) as trials,
           median_of(array_agg(f.value)) as p99_ns, median_of(array_agg(t.achieved_per_s)) as achieved_per_s
    from trials t
    join runs r on r.run = t.run
    join figures f on f.run = t.run and f.trial_id = t.trial_id and f.metric = 'produce.p99'
    where t.usable and t.role = 'measure' and (:workload is null or r.workload = :workload)
    group by r.workload, t.storage, t.medium, t.emulated, coalesce(t.disk_model, '')
),
-- What fio measured there.
probe as (
    select r.workload, p.storage, max(case when p.job = 'sequential_append' then p.bytes_per_s end) as append_bytes_per_s,
           max(case when p.job = 'fsync' then p.latency_p99_ns end) as fsync_p99_ns
    from probes p join runs r on r.run = p.run
    group by r.workload, p.storage
)
select d.workload, d.storage, d.medium, d.emulated, d.disk_model, d.trials, d.p99_ns, d.achieved_per_s,
       p.append_bytes_per_s, p.fsync_p99_ns
from disk d left join probe p on p.workload = d.workload and p.storage = d.storage
order by d.workload, d.p99_ns, d.storage
