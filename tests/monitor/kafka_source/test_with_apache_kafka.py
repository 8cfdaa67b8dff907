"""The collector with Apache Kafka: with ZooKeeper, and without it, with groups of both protocols."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from highwater.monitor.model import GroupState
from tests.monitor.kafka_source.oracle import check, fill, snapshot_of
from tests.pipeline.kafka.brokers import KAFKAS, bootstrap_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clients]
DEADLINE_S = 120


def are_stable(properties: dict[str, str], groups: Collection[str]) -> bool:
    found = snapshot_of(properties).groups
    return all(name in found and found[name].state is GroupState.STABLE for name in groups)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("system", KAFKAS)
def test_what_the_cluster_says_is_what_its_clients_hear(system: str, tmp_path: Path) -> None:
    is_kraft = system == "4"
    protocols = ("classic", "consumer") if is_kraft else ("classic",)
    with bootstrap_of(system, tmp_path) as bootstrap, ExitStack() as stack:
        properties = {"bootstrap.servers": bootstrap}
        admin = fill(bootstrap, 1)
        consumers = []
        for protocol in protocols:
            conf = {"group.id": protocol, "client.id": f"me-{protocol}", "auto.offset.reset": "earliest"}
            consumers.append(Consumer(properties | conf | ({"group.protocol": protocol} if is_kraft else {})))
            stack.callback(consumers[-1].close)
            consumers[-1].subscribe(["orders"])
        deadline_s = time.monotonic() + DEADLINE_S
        read: set[int] = set()
        while len(read) < len(consumers):
            assert time.monotonic() < deadline_s
            for number, consumer in enumerate(consumers):
                if consumer.poll(0.1) is not None:
                    read.add(number)
        # A member has its partitions before the coordinator has heard that it has them.
        wait_until(lambda: are_stable(properties, protocols), "groups that are stable", DEADLINE_S)
        found = snapshot_of(properties, 2)
        check(found, admin)
        assert (found.controller, found.controller_epoch is not None) == (1, is_kraft)
        assert ("kafka controller" in found.sources) == is_kraft
        for protocol in protocols:
            group = found.groups[protocol]
            assert (group.kind, group.state) == (protocol, GroupState.STABLE)
            (member,) = group.members
            assert member.client_id == f"me-{protocol}"
            assert member.assigned == (("orders", 0), ("orders", 1), ("orders", 2))
        assert found.brokers[1].directories[0].total_bytes
