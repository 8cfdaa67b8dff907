-- title: What durability costs: acknowledgements and flushes against latency
-- param workload = none: this workload only
-- answer: {last.workload}: p99 is {last.p99_ns} with acks={last.acks}, flush every {last.flush_messages} messages, {last.copies} copies: {last.price_ratio} against the fastest (acks={last.fastest_acks})
-- nothing: no usable trial has a produce latency

-- All samples of all trials together.
-- pool pooled by workload, acks, flush_messages, copies: 99.9
select r.workload, t.acks, coalesce(t.flush_messages, '') as flush_messages, t.copies, h.buckets, h.counts
from histograms h
join trials t on t.run = h.run and t.trial_id = h.trial_id
join runs r on r.run = h.run
where h.metric = 'produce_response' and t.usable and t.role = 'measure' and (:workload is null or r.workload = :workload);

with cell as (
    select r.workload, t.acks, coalesce(t.flush_messages, '') as flush_messages, t.copies,
           count(*) as trials, median_of(array_agg(f.value)) as p99_ns,
           median_of(array_agg(t.achieved_per_s)) as achieved_per_s
    from trials t
    join runs r on r.run = t.run
    join figures f on f.run = t.run and f.trial_id = t.trial_id and f.metric = 'produce.p99'
    where t.usable and t.role = 'measure' and (:workload is null or r.workload = :workload)
    group by r.workload, t.acks, coalesce(t.flush_messages, ''), t.copies
)
select c.workload, c.acks, c.flush_messages, c.copies, c.trials, c.p99_ns, p.p99_9_ns as pooled_p999_ns, c.achieved_per_s,
       c.p99_ns / nullif(first_value(c.p99_ns) over w, 0) as price_ratio,
       first_value(c.acks) over w as fastest_acks
from cell c
left join pooled p on p.workload = c.workload and p.acks = c.acks and p.flush_messages = c.flush_messages
                  and p.copies = c.copies
window w as (partition by c.workload order by c.p99_ns, c.acks, c.flush_messages, c.copies)
order by c.workload, c.p99_ns, c.acks, c.flush_messages, c.copies
