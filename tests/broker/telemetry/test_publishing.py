"""Pushes on their way to the topic, where its leader is this broker, another one or nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import Peer, PeerFailure
from highwater.broker.cluster.state import PartitionView
from highwater.broker.telemetry.publishing import Publishing
from highwater.broker.telemetry.subscriptions import Identity
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder
from highwater.kafka.records.record import decode_batch
from tests.broker.handlers.harness import NodeHarness

CLIENT = Identity("AAAAAAAAAAAAAAAAAAAAAg", "orders", "librdkafka", "2.12.1", "10.0.0.7", "51234")
THIS, OTHER, NOBODY = 0, 7, -1


class OtherBroker:
    """A peer that answers Produce with what it is told."""

    def __init__(self) -> None:
        self.outcome: ErrorCode | PeerFailure = ErrorCode.none
        self.requests: list[Any] = []

    def send(
        self,
        api_key: int,
        version: int,
        body: list[Any],
        then: Callable[[memoryview | PeerFailure], None],
        *,
        timeout_ms: int,
    ) -> None:
        request = cold.decode_request("produce", version, Decoder(memoryview(b"".join(body)), 0, flexible=False))
        self.requests.append(request)
        if isinstance(self.outcome, PeerFailure):
            then(self.outcome)
            return
        answer = {
            "responses": [
                {
                    "name": request.topic_data[0].name,
                    "partition_responses": [{"index": 0, "error_code": self.outcome, "base_offset": 0}],
                }
            ]
        }
        then(memoryview(cold.encode_response("produce", version, answer)))

    @property
    def values(self) -> list[bytes | None]:
        return [
            record.value
            for request in self.requests
            for record in decode_batch(bytes(request.topic_data[0].partition_data[0].records))
        ]


class Cluster:
    """The topic is led by one of these."""

    def __init__(self, leader: int | None) -> None:
        self.leader = leader
        self.asked: list[str] = []
        self.peer = OtherBroker()

    def partition(self, topic: str, index: int) -> PartitionView | None:
        return None if self.leader is None else PartitionView(self.leader, 0, [self.leader], [self.leader], [])

    def create(self, names: list[str]) -> None:
        self.asked += names

    def to(self, broker_id: int) -> Peer | None:
        return self.peer if broker_id == OTHER else None  # type: ignore[return-value]

    def close(self) -> None:
        pass


@pytest.fixture
def node(tmp_path: Path) -> NodeHarness:
    return NodeHarness(tmp_path / "log")


def publishing_to(node: NodeHarness, cluster: Any) -> Publishing:
    return Publishing(node.node, node.node.partitions, cluster, cluster, cluster)


def test_another_broker_is_asked_to_write(node: NodeHarness) -> None:
    cluster = Cluster(OTHER)
    publishing = publishing_to(node, cluster)
    publishing.add(CLIENT, b"one", {})
    publishing.add(CLIENT, b"two", {})
    node.scheduler.run(1000)
    assert cluster.peer.values == [b"one", b"two"]
    assert len(cluster.peer.requests) == 1
    assert (publishing.written, publishing.lost) == (2, 0)


@pytest.mark.parametrize("outcome", [ErrorCode.not_leader_or_follower, PeerFailure.CLOSED])
def test_what_failed_is_sent_again(node: NodeHarness, outcome: ErrorCode | PeerFailure) -> None:
    cluster = Cluster(OTHER)
    publishing = publishing_to(node, cluster)
    cluster.peer.outcome = outcome
    publishing.add(CLIENT, b"one", {})
    node.scheduler.run(1000)
    cluster.peer.outcome = ErrorCode.none
    node.scheduler.run(1000)
    assert cluster.peer.values == [b"one", b"one"]
    assert (publishing.written, publishing.lost) == (1, 0)


def test_a_batch_that_is_never_taken_is_lost_alone(node: NodeHarness, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(OTHER)
    publishing = publishing_to(node, cluster)
    cluster.peer.outcome = ErrorCode.message_too_large
    publishing.add(CLIENT, b"one", {})
    node.scheduler.run(1000)
    cluster.peer.outcome = ErrorCode.none
    publishing.add(CLIENT, b"two", {})
    node.scheduler.run(1000)
    assert (publishing.written, publishing.lost) == (1, 1)
    assert "cannot be written to _highwater_client_metrics: MESSAGE_TOO_LARGE" in caplog.text


@pytest.mark.parametrize("leader", [None, NOBODY])
def test_without_a_leader_the_newest_are_kept_and_it_is_said(
    node: NodeHarness, caplog: pytest.LogCaptureFixture, leader: int | None
) -> None:
    cluster = Cluster(leader)
    publishing = publishing_to(node, cluster)
    caplog.set_level(logging.WARNING)
    for number in range(40):
        publishing.add(CLIENT, bytes([number]) * ((1 << 20) - 1024), {})
        node.scheduler.run(1000)
        node.clock.advance_ms(2000)
    assert len(caplog.messages) == 2, "after a while, and once a minute"
    assert cluster.asked == ([] if leader is not None else ["_highwater_client_metrics"] * len(cluster.asked))
    cluster.leader = OTHER
    for _ in range(40):
        node.scheduler.run(1000)
    numbers = [(value or b"?")[0] for value in cluster.peer.values]
    assert numbers == [0, *range(24, 40)], "the one that was on its way, and 16 MiB"
    assert (publishing.written, publishing.lost) == (17, 23)


def test_what_a_client_calls_itself_takes_memory_too(node: NodeHarness) -> None:
    cluster = Cluster(NOBODY)
    publishing = publishing_to(node, cluster)
    for _ in range(2000):
        publishing.add(CLIENT._replace(client_id="c" * 32_000), b"\n\0", {})
    assert 15 << 20 < (2000 - publishing.lost) * 32_000 < 16 << 20
    cluster.leader = OTHER
    while publishing.written + publishing.lost < 2000:
        node.scheduler.run(1000)
    assert all(len(request.topic_data[0].partition_data[0].records) < 600_000 for request in cluster.peer.requests)
    assert len(cluster.peer.requests) > 20, "half a megabyte in each"


def test_this_broker_writes_itself_what_it_leads(node: NodeHarness) -> None:
    cluster = Cluster(THIS)
    publishing = publishing_to(node, cluster)
    publishing.add(CLIENT, b"one", {})
    node.scheduler.run(1000)
    assert publishing.written == 0, "it lost the leadership, or does not have it yet"
    node.create_topic("_highwater_client_metrics")
    node.scheduler.run(1000)
    assert publishing.written == 1
