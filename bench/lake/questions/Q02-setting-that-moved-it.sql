-- title: Which change of a setting moved a figure most
-- param workload: the workload
-- param metric = produce.p99: a name of `highwater bench metrics`
-- answer: {param.metric} of {param.workload} moved most with {first.scope} {first.name}, {first.before} → {first.after}: {first.change_ratio}, in {first.steps} steps from one run to the next; at least {first.settings_at_once} settings changed with it
-- nothing: no setting changed from one run of {param.workload} to the next
with ordered as (
    select run, created_utc, row_number() over (order by created_utc, run) as place from runs where workload = :workload
),
steps as (
    select older.run as run_before, newer.run as run_after, newer.created_utc as time
    from ordered older join ordered newer on newer.place = older.place + 1
),
figure as (
    select f.run, f.cell, median_of(array_agg(f.value)) as value
    from figures f join ordered o on o.run = f.run
    where f.metric = :metric and f.usable and f.role = 'measure'
    group by f.run, f.cell
),
moved as (
    select s.run_after, s.time, median_of(array_agg(newer.value / older.value)) as change_ratio
    from steps s
    join figure older on older.run = s.run_before
    join figure newer on newer.run = s.run_after and newer.cell = older.cell
    where older.value > 0 and newer.value > 0
    group by s.run_after, s.time
),
-- Most settings are the same in all runs: only others can change from one to the next.
varying as (
    select t.scope, t.name
    from settings t join ordered o on o.run = t.run
    group by t.scope, t.name
    having min(t.value) <> max(t.value) or count(*) < (select count(*) from ordered)
),
setting as (
    select t.run, t.scope, t.name, t.value
    from settings t join ordered o on o.run = t.run join varying v on v.scope = t.scope and v.name = t.name
),
setting_before as (
    select s.run_after, t.scope, t.name, t.value from steps s join setting t on t.run = s.run_before
),
setting_after as (
    select s.run_after, t.scope, t.name, t.value from steps s join setting t on t.run = s.run_after
),
changed as (
    select coalesce(a.run_after, b.run_after) as run_after, coalesce(a.scope, b.scope) as scope,
           coalesce(a.name, b.name) as name, coalesce(b.value, '(not set)') as before,
           coalesce(a.value, '(not set)') as after
    from setting_before b
    full outer join setting_after a on a.run_after = b.run_after and a.scope = b.scope and a.name = b.name
    where a.value is distinct from b.value
),
beside as (
    select run_after, count(*) as settings from changed group by run_after
),
ranked as (
    select c.scope, c.name, c.before, c.after, count(*) as steps, min(m.time) as first_time,
           median_of(array_agg(m.change_ratio)) as change_ratio, min(b.settings) as settings_at_once
    from changed c join moved m on m.run_after = c.run_after join beside b on b.run_after = c.run_after
    group by c.scope, c.name, c.before, c.after
)
select scope, name, before, after, change_ratio, steps, settings_at_once, first_time
from ranked
order by greatest(change_ratio, 1 / change_ratio) desc, settings_at_once, scope, name, before, after
limit 20
