"""Rows of retries and dead letters: found by names of topics, with dots in them too."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.retries import RetryFigures, retry_figures
from highwater.monitor.figures.rows import Level
from tests.monitor.clusters import TICK_MS, group, partition, snapshot, topic


def figures(ends: Mapping[str, int], commits: Mapping[str, Mapping[str, int]], later: Mapping[str, int]) -> Figures:
    """Topics of one partition by their ends, in a first tick and in a second; groups by what they committed."""
    ticks = []
    for number, of_tick in enumerate((ends, {**ends, **later})):
        at_ms = number * TICK_MS
        topics = [topic(name, partition(name, end=end, at_ms=at_ms)) for name, end in of_tick.items()]
        groups = [
            group(name, {(read, 0): offset for read, offset in offsets.items()}, at_ms=at_ms)
            for name, offsets in commits.items()
        ]
        ticks.append(snapshot(topics=topics, groups=groups, number=number, at_ms=at_ms))
    return derive(ticks)


def only(made: Figures) -> RetryFigures:
    (row,) = retry_figures(made)
    return row


ORDERS = {"eu.orders": 100, "eu.orders.my.billing.retry": 9, "dlq.eu.orders.my.billing": 4}
WAITING = {"eu.orders.my.billing.retry.10s": 6, "eu.orders.my.billing.retry.1m": 2}
READ = {"my.billing": {"eu.orders": 100, "eu.orders.my.billing.retry": 7}}
MOVED = {"highwater-mover": {"eu.orders.my.billing.retry.10s": 5, "eu.orders.my.billing.retry.1m": 2}}


def test_what_waits_is_due_and_is_dead() -> None:
    row = only(figures({**ORDERS, **WAITING, "eu.orders.my.billing.retry.parked": 50}, {**READ, **MOVED}, {}))
    assert (row.topic, row.group) == ("eu.orders", "my.billing")
    assert (row.waiting, row.due, row.dead) == (1, 2, 4)
    assert (row.level, row.sentence) == (Level.OK, "at most 4 dead letters, none new")


def test_records_that_become_dead_letters_need_a_look() -> None:
    row = only(figures({**ORDERS, **WAITING}, {**READ, **MOVED}, {"dlq.eu.orders.my.billing": 34}))
    assert row.dead == 34
    assert row.level is Level.WARN
    assert row.sentence.startswith("records become dead letters: ")


def test_records_that_nobody_moves() -> None:
    row = only(figures({**ORDERS, **WAITING}, READ, {}))
    assert row.waiting == 8
    assert row.level is Level.WARN
    assert row.sentence == "records wait in eu.orders.my.billing.retry.10s, and no mover reads it: start one"


def test_dead_letters_of_a_group_that_is_gone() -> None:
    row = only(figures({"dlq.old.sales": 3, "orders": 1}, {}, {}))
    assert (row.name, row.topic, row.group, row.waiting, row.due, row.dead) == ("old.sales", "", "", None, None, 3)


def test_a_cluster_without_retries() -> None:
    assert retry_figures(figures({"orders": 1, "retry": 1, "a.retrying": 1}, {}, {})) == ()
