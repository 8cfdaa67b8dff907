"""A cluster that goes through what a test tells, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure
from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.replica.follower_progress import Followers
from highwater.broker.replica.partition import Partition
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import PRODUCE
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.simulation.broker import SimulatedBroker
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.peers import SimulatedPeers
from tests.broker.simulation.wire import PRODUCE_VERSION, decode_produced, encode_produce
from tests.broker.simulation.world import Process

KEY: Final[TopicPartition] = ("t", 0)
_REQUEST_TIMEOUT_MS: Final = 4000


class Sent:
    """A record on its way, and what became of it."""

    def __init__(self) -> None:
        self.outcome: ErrorCode | PeerFailure | None = None

    def take(self, answer: memoryview | PeerFailure) -> None:
        self.outcome = answer if isinstance(answer, PeerFailure) else decode_produced(answer)[0].error_code

    @property
    def is_acknowledged(self) -> bool:
        return self.outcome is ErrorCode.none


class Story:
    """Brokers 1 to 4, of which 1 is the controller, and a partition of which the first of `replicas` is the leader."""

    def __init__(
        self,
        replicas: Sequence[int] = (2, 3, 1),
        *,
        may_lose: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = Cluster(0, brokers=4, properties=properties, may_lose=may_lose)
        self.client = Process(self.cluster.world, "client")
        self._peers = SimulatedPeers(self.cluster.network, self.client, "client")
        for broker in self.cluster.brokers.values():
            broker.start()
            self.wait(lambda broker=broker: broker.is_registered)  # type: ignore[misc]
        self.wait(lambda: self.controller == 1)
        self.cluster.create_topic(KEY[0], [replicas])
        self.wait(lambda: self.cluster.is_whole)

    def __getitem__(self, broker_id: int) -> SimulatedBroker:
        return self.cluster.brokers[broker_id]

    # Time

    def wait(self, until: Callable[[], bool], *, at_most_ms: int = 30_000) -> None:
        assert self.cluster.world.run(at_most_ms, until), "\n".join([*self.cluster.describe(), *self.history])

    def let_pass(self, duration_ms: int) -> None:
        self.cluster.world.run(duration_ms)

    # What is so

    @property
    def history(self) -> list[str]:
        return self.cluster.world.history

    @property
    def controller(self) -> int:
        """The one whose epoch is the latest, of those that take themselves for it."""
        contexts = {
            broker.parts.parts.controller.context.epoch: broker.broker_id
            for broker in self.cluster.brokers.values()
            if broker.parts is not None and broker.parts.parts.controller.context is not None
        }
        return contexts[max(contexts)] if contexts else -1

    @property
    def state(self) -> LeaderAndIsr:
        return self.cluster.states[KEY]

    def replica(self, broker_id: int) -> Partition:
        node = self[broker_id].node
        assert node is not None
        partition = node.partitions.find(*KEY)
        assert partition is not None
        return partition

    def leads(self, broker_id: int) -> bool:
        node = self[broker_id].node
        partition = None if node is None else node.partitions.find(*KEY)
        return partition is not None and partition.is_leader

    def log(self, broker_id: int) -> list[str]:
        """Its records, each with the leader epoch it was written in."""
        log = self.replica(broker_id).log
        data = log.read(log.log_start_offset, 1 << 20, end_offset=log.log_end_offset)
        assert isinstance(data, bytes)
        return [
            f"{(record.value or b'').decode()}@{header.leader_epoch}"
            for position, header in headers(data)
            for record in decode_batch(data[position:], header)
        ]

    # What is done

    def send(self, value: str, broker_id: int, *, acks: int = -1, timeout_ms: int = 2000) -> Sent:
        """Produce to this broker, whoever leads."""
        peer = self._peers.connect(self[broker_id].endpoint, "client")
        batch = bytes(encode_batch([Record(value.encode(), timestamp_ms=self.client.now_ms())]))
        body = encode_produce(KEY[0], [(KEY[1], batch)], acks=acks, timeout_ms=timeout_ms)
        sent = Sent()
        peer.send(PRODUCE, PRODUCE_VERSION, [body], sent.take, timeout_ms=_REQUEST_TIMEOUT_MS)
        return sent

    def produce(self, value: str, broker_id: int, *, acks: int = -1) -> None:
        """The same, and it is acknowledged."""
        sent = self.send(value, broker_id, acks=acks)
        self.wait(lambda: sent.outcome is not None)
        assert sent.is_acknowledged, sent.outcome

    def cut(self, one: int, other: int) -> None:
        self.cluster.network.cut(self[one].host, self[other].host)
        self.cluster.network.cut(self[other].host, self[one].host)

    def heal(self) -> None:
        self.cluster.heal()
        self.wait(lambda: self.cluster.is_whole, at_most_ms=60_000)
        self.cluster.check_convergence()
        self.cluster.check_quiet()


@contextmanager
def leaders_shrink_by_themselves() -> Iterator[None]:
    """A leader goes on without a follower before the controller has agreed to it."""

    def propose(self: Followers, in_sync: tuple[int, ...]) -> None:
        self.in_sync = self.proposed = in_sync
        self.maximal = frozenset(in_sync)

    with patch.object(Followers, "propose", propose):
        yield


@contextmanager
def followers_do_not_flush_first() -> Iterator[None]:
    """A follower tells its leader of records that it has not flushed, though the topic wants that."""
    with patch.object(Partition, "call_when_flushed", lambda self, then: True):
        yield


@contextmanager
def before_leader_epochs() -> Iterator[None]:
    """Replicas as they were before KIP-101: who begins to follow cuts its log to its high watermark, and then goes on
    from its end, whatever the leader has before that."""
    become_follower = Partition.become_follower

    def cut_and_follow(self: Partition, *args: object) -> None:
        become_follower(self, *args)  # type: ignore[arg-type]
        if self.high_watermark < self.log.log_end_offset:
            self.truncate_to(self.high_watermark)

    with (
        patch.object(Partition, "become_follower", cut_and_follow),
        patch.object(Partition, "diverging_epoch", lambda self, epoch, offset: None),
    ):
        yield
