"""The collector against processes of our broker: what it says equals what confluent-kafka's admin client says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import ScramMechanism  # type: ignore[attr-defined]

from highwater.kafka.client.settings import settings_of
from highwater.monitor.kafka_source.source import KafkaSource
from highwater.monitor.model import GroupState, Snapshot
from tests.broker.running import running_broker
from tests.broker.running_cluster import RunningCluster, running_cluster
from tests.broker.server.secured import PASSWORD, running_secured
from tests.monitor.kafka_source.oracle import check, fill, snapshot_of
from tests.waiting import wait_until

pytestmark = pytest.mark.clients


@pytest.mark.parametrize(("kind", "assignor"), [("classic", "range"), ("consumer", "uniform")])
def test_a_broker_that_runs_alone(tmp_path: Path, kind: str, assignor: str) -> None:
    with running_broker(tmp_path / "log", properties=["group.initial.rebalance.delay.ms=0"]) as broker:
        properties = {"bootstrap.servers": broker.address}
        admin = fill(broker.address, 1)
        open_transaction = Producer(properties | {"transactional.id": "tx", "transaction.timeout.ms": 600_000})
        open_transaction.init_transactions(60)
        open_transaction.begin_transaction()
        open_transaction.produce("empty", b"x", partition=1)
        open_transaction.flush(60)
        options = {"group.id": "busy", "client.id": "me", "auto.offset.reset": "earliest", "group.protocol": kind}
        consumer = Consumer(properties | options)
        try:
            consumer.subscribe(["orders"])
            wait_until(lambda: consumer.poll(0.1) is not None, "a record")
            found = snapshot_of(properties, 2)
            check(found, admin)
            assert (found.topics["orders"].config or {})["retention.ms"].default == "604800000"
            undecided = found.topics["empty"].partitions[1]
            assert (undecided.end_offset, undecided.last_stable_offset) == (1, 0)
            busy = found.groups["busy"]
            assert (busy.state, busy.kind, busy.protocol, busy.coordinator) == (GroupState.STABLE, kind, assignor, 0)
            (member,) = busy.members
            assert (member.client_id, member.assigned) == ("me", (("orders", 0), ("orders", 1), ("orders", 2)))
            assert member.coming == ()
            assert found.cluster_id == broker.cluster_id
            sizes = [partition.size_bytes[0] for partition in found.topics["orders"].partitions]
            assert all(size > 0 for size in sizes)
            (directory,) = found.brokers[0].directories
            assert directory.path == str(broker.log_dir)
            assert directory.total_bytes is not None
        finally:
            consumer.close()
            open_transaction.abort_transaction(60)


def test_a_cluster_with_tls_and_a_login(tmp_path: Path) -> None:
    with running_secured(tmp_path) as secured:
        secured.set_password(ScramMechanism.SCRAM_SHA_512, "bob", PASSWORD.encode())
        login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "bob", "sasl_password": PASSWORD}
        found = snapshot_of(secured.conf("SASL_SSL", **login))
        assert {state.error for state in found.sources.values()} == {""}
        assert len(found.brokers) == 1
        wrong = snapshot_of(secured.conf("SASL_SSL", **login | {"sasl_password": "wrong"}))
        assert "refuses the login: SASL_AUTHENTICATION_FAILED (58)" in wrong.sources["kafka"].error
        assert PASSWORD not in str(wrong)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), 3) as running:
        yield running


@pytest.mark.slow
def test_three_brokers_of_which_one_dies(cluster: RunningCluster) -> None:
    admin = fill(cluster.bootstrap, 3)
    properties = {"bootstrap.servers": cluster.bootstrap}
    found = snapshot_of(properties, 2)
    check(found, admin)
    assert found.controller in found.brokers
    assert sorted(found.brokers) == [1, 2, 3]
    for partition in found.topics["orders"].partitions:
        assert sorted(partition.size_bytes) == [1, 2, 3]
        assert set(partition.follower_lag.values()) == {0}

    def is_over(last: Snapshot) -> bool:
        """Brokers hear one by one of who is gone, who leads, who is in sync, and which groups they coordinate."""
        return (
            not last.brokers[2].is_alive
            and all(part.end_offset is not None for topic in last.topics.values() for part in topic.partitions)
            and {part.in_sync_replicas for part in last.topics["orders"].partitions} <= {(1, 3), (3, 1)}
            and last.groups["idle"].state is GroupState.EMPTY
        )

    async def losing_one() -> None:
        source = KafkaSource("c", settings_of(properties), 4.0)
        try:
            await source.snapshot(0)
            cluster.kill(2)
            number, last = 0, await source.snapshot(1)
            while not is_over(last):
                number += 1
                assert number < 600, last
                assert sorted(last.brokers) == [1, 2, 3]
                await asyncio.sleep(0.1)
                last = await source.snapshot(number)
        finally:
            await source.close()

    asyncio.run(losing_one())
