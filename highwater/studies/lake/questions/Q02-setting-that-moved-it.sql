-- title: Which change of a setting moved a figure most
-- param workload: the workload
-- param metric = produce.p99: a name of `highwater bench metrics`
-- answer: {param.metric} of {param.workload} moved most with {first.scope} {first.name}, {first.before} → {first.after}: {first.change_ratio}, in {first.steps} steps from one run to the next; at least {first.settings_at_once} settings changed with it
-- nothing: no setting changed from one run of {param.workload} to the next
with ordered as (
    select run, created_utc, row_number() over (order by created_utc, run) as place from runs where workload = :workload
),
figure as (
    select o.place, o.created_utc, f.cell, median_of(array_agg(f.value)) as value
    from figures f join ordered o on o.run = f.run
    where f.metric = :metric and f.usable and f.role = 'measure'
    group by o.place, o.created_utc, f.cell
),
figure_before as (
    select place, created_utc, value, lag(value) over cells as older, lag(place) over cells as older_place
    from figure
    window cells as (partition by cell order by place)
),
-- A step from one run to the next has the place of the newer one.
moved as (
    select place, created_utc as time, median_of(array_agg(value / older)) as change_ratio
    from figure_before
    where older_place = place - 1 and older > 0 and value > 0
    group by place, created_utc
),
-- Most settings are the same in all runs: only others can change from one to the next.
varying as (
    select t.scope, t.name
    from settings t join ordered o on o.run = t.run
    group by t.scope, t.name
    having min(t.value) <> max(t.value) or count(*) < (select count(*) from ordered)
),
setting as (
    select o.place, t.scope, t.name, t.value,
           lag(t.value) over runs as older, lag(o.place) over runs as older_place, lead(o.place) over runs as newer_place
    from settings t join ordered o on o.run = t.run join varying v on v.scope = t.scope and v.name = t.name
    window runs as (partition by t.scope, t.name order by o.place)
),
changed as (
    select place, scope, name, case when older_place = place - 1 then older else '(not set)' end as before,
           value as after
    from setting
    where place > 1 and (older_place is distinct from place - 1 or older <> value)
    union all
    select place + 1 as place, scope, name, value as before, '(not set)' as after
    from setting
    where place < (select count(*) from ordered) and newer_place is distinct from place + 1
),
beside as (
    select place, count(*) as settings from changed group by place
),
ranked as (
    select c.scope, c.name, c.before, c.after, count(*) as steps, min(m.time) as first_time,
           median_of(array_agg(m.change_ratio)) as change_ratio, min(b.settings) as settings_at_once
    from changed c join moved m on m.place = c.place join beside b on b.place = c.place
    group by c.scope, c.name, c.before, c.after
)
select scope, name, before, after, change_ratio, steps, settings_at_once, first_time
from ranked
order by greatest(change_ratio, 1 / change_ratio) desc, settings_at_once, scope, name, before, after
limit 20
