"""What clients feel: a row for each client id, group and software, and all together beside the brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.monitor.figures.clients import ALL, MOST_CLIENTS, OTHERS, Felt, felt
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import ClientMetrics, ClientPush
from tests.monitor.clusters import push


def of(*pushes: ClientPush) -> Felt:
    found = felt(ClientMetrics(pushes))
    assert found is not None
    return found


def test_without_pushes_nothing_is_known() -> None:
    assert felt(None) is None
    assert felt(ClientMetrics()) is None


def test_the_instances_of_a_client_are_one_row() -> None:
    found = of(
        push("orders", 0, produce_ms=2.0, produce_max_ms=9.0),
        push("orders", 1, produce_ms=4.0, produce_max_ms=40.0),
        push("reader", 0, group="g", fetch_ms=500.0, rebalance_max_ms=3000.0),
    )
    orders, reader = found.clients
    assert (orders.name, orders.instances) == ("orders (librdkafka)", 2)
    assert (orders.produce_ms, orders.produce_max_ms, orders.fetch_ms) == (3.0, 40.0, None)
    assert (reader.name, reader.group, reader.fetch_ms) == ("reader (g, librdkafka)", "g", 500.0)
    assert (found.all.name, found.all.instances) == (ALL, 3)
    assert (found.all.produce_ms, found.all.fetch_ms) == (3.0, 500.0)


def test_a_client_with_two_libraries_is_two_rows() -> None:
    java = replace(push("orders", 1, produce_ms=4.0), software="apache-kafka-java")
    assert [row.software for row in of(push("orders", produce_ms=2.0), java).clients] == [
        "apache-kafka-java",
        "librdkafka",
    ]


def test_the_time_of_each_broker_counts_once() -> None:
    pushes = [push("a", number, broker=0, produce_ms=1.0) for number in range(3)]
    other = replace(push("b", broker=1, produce_ms=1.0), broker_produce_ms=0.75)
    assert of(*pushes, other).all.broker_produce_ms == 0.5


def test_errors_are_a_warning() -> None:
    (row,) = of(push("orders", 0, errors_per_s=1.5), push("orders", 1, errors_per_s=0.5)).clients
    assert (row.errors_per_s, row.level) == (2.0, Level.WARN)
    (row,) = of(push("orders", produce_ms=1.0)).clients
    assert (row.errors_per_s, row.level) == (None, Level.OK)


@pytest.mark.parametrize("more", [0, 1, 1000])
def test_there_are_so_many_rows_at_most(more: int) -> None:
    found = of(*(push(f"client-{number:05}", produce_ms=1.0) for number in range(MOST_CLIENTS + more)))
    assert len(found.clients) == MOST_CLIENTS + bool(more)
    assert found.all.instances == MOST_CLIENTS + more
    if more:
        assert (found.clients[-1].name, found.clients[-1].instances) == (OTHERS, more)
