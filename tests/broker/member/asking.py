"""A client of a simulated cluster that asks brokers whatever there is to ask, one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.replica.partition import Partition
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import APIS
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import Record, decode_batch, encode_batch, read_end_marker
from tests.broker.handlers.harness import decode_answer, request_frame
from tests.broker.simulation.broker import SimulatedBroker
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.peers import SimulatedPeers
from tests.broker.simulation.world import Process

_KEYS: Final = {api.name: api.key for api in APIS.values()}
_TIMEOUT_MS: Final = 20_000
GROUP: Final = 0
TRANSACTION: Final = 1

COORDINATION: Final = {
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Asked:
    """A question on its way, and what became of it."""

    def __init__(self) -> None:
        self.answer: Any = None

    @property
    def waits(self) -> bool:
        return self.answer is None


class AskedCluster:
    """Brokers 1, 2 and 3, all of which are there."""

    def __init__(self, seed: int = 0, /, **properties: str) -> None:
        texts = {name.replace("_", "."): text for name, text in properties.items()}
        self.cluster = Cluster(seed, properties={**COORDINATION, **texts})
        self._client = Process(self.cluster.world, "client")
        self._peers = SimulatedPeers(self.cluster.network, self._client, "client")
        for broker in self.cluster.brokers.values():
            broker.start()
        self.wait(lambda: all(broker.is_registered for broker in self.brokers))
        self.wait(lambda: all(len(self.views(broker)) == 3 for broker in self.brokers))

    @property
    def brokers(self) -> list[SimulatedBroker]:
        return list(self.cluster.brokers.values())

    @staticmethod
    def views(broker: SimulatedBroker) -> list[int]:
        """The brokers that it knows to live."""
        return [] if broker.node is None else [other.broker_id for other in broker.node.cluster.brokers()]

    def __getitem__(self, broker_id: int) -> SimulatedBroker:
        return self.cluster.brokers[broker_id]

    def wait(self, until: Callable[[], bool], *, at_most_ms: int = 60_000) -> None:
        assert self.cluster.world.run(at_most_ms, until), "\n".join([*self.cluster.describe()])

    def let_pass(self, duration_ms: int) -> None:
        self.cluster.world.run(duration_ms)

    def create_topic(self, name: str, *assignment: list[int]) -> None:
        self.cluster.create_topic(name, assignment)
        self.wait(lambda: all(self.leader(broker.broker_id, (name, 0)) > 0 for broker in self.brokers))
        self.wait(lambda: self.cluster.is_whole)

    def leader(self, of: int, key: TopicPartition) -> int:
        """The partition's leader as that broker knows it; -1 for none."""
        node = self[of].node
        view = None if node is None else node.cluster.partition(*key)
        return -1 if view is None else view.leader

    def known_leader(self, key: TopicPartition) -> int | None:
        """As the first broker knows it that can be asked."""
        able = [broker for broker in self.brokers if broker.node is not None and not broker.process.is_paused]
        leader = self.leader(able[0].broker_id, key) if able else -1
        return leader if leader > 0 else None

    def mend(self) -> None:
        """Let everybody run, and reach the others."""
        self.cluster.network.heal_all()
        for broker in self.brokers:
            if broker.process.is_paused:
                broker.resume()
            broker.start_if_not_running()

    # Asking

    def send(self, broker_id: int, name: str, version: int, /, **fields: Any) -> Asked:
        asked = Asked()

        def answered(answer: Any) -> None:
            asked.answer = answer

        peer = self._peers.connect(self[broker_id].endpoint, "client")
        ask(peer, _KEYS[name], version, fields, answered, timeout_ms=_TIMEOUT_MS)
        return asked

    def ask(self, broker_id: int, name: str, version: int, /, **fields: Any) -> Any:
        asked = self.send(broker_id, name, version, **fields)
        self.wait(lambda: not asked.waits)
        return asked.answer

    def produce(
        self,
        broker_id: int,
        key: TopicPartition,
        *values: bytes,
        transactional_id: str | None = None,
        version: int = 9,
        **batch: Any,
    ) -> ErrorCode | PeerFailure:
        """To partitions with odd numbers by the topic's id, if the broker knows it; to others by its name.

        A client of version 1 of transactions writes by the name alone.
        """
        records = bytes(encode_batch([Record(value, timestamp_ms=self._client.now_ms()) for value in values], **batch))
        name, index = key
        node = self[broker_id].node
        view = None if node is None else node.cluster.topic(name)
        topic: dict[str, Any] = {"name": name}
        if view is not None and index % 2 and (transactional_id is None or version >= 12):
            version, topic = 13, {"topic_id": view.topic_id}
        frame = request_frame(
            "produce",
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout=10_000,
            topic_data=[topic | {"partition_data": [{"index": index, "records": records}]}],
        )
        outcome: list[ErrorCode | PeerFailure] = []

        def answered(body: memoryview | PeerFailure) -> None:
            if isinstance(body, PeerFailure):
                outcome.append(body)
                return
            # As it is framed, since the harness decodes it so: a length, a correlation id and no tags.
            framed = (len(body) + 5).to_bytes(4, "big") + b"\x00\x00\x00\x01\x00" + bytes(body)
            answer = decode_answer("produce", version, [framed])
            outcome.append(answer.responses[0].partition_responses[0].error_code)

        peer = self._peers.connect(self[broker_id].endpoint, "client")
        # What follows the header: api key, version, correlation id, the client's id of four letters, no tags.
        peer.send(0, version, [frame[15:]], answered, timeout_ms=_TIMEOUT_MS)
        self.wait(lambda: bool(outcome))
        return outcome[0]

    # Coordinators

    def coordinator(self, key: str, kind: int, *, of: int | None = None) -> int:
        """The broker that coordinates it, as clients find it: they ask until one is told."""
        found: list[int] = []
        asked: list[Asked] = []

        def is_found() -> bool:
            if not asked or not asked[0].waits:
                answer = asked.pop().answer if asked else None
                if answer is not None and not isinstance(answer, PeerFailure) and not answer.error_code:
                    found.append(answer.node_id)
                    return True
                able = [broker for broker in self.brokers if broker.is_running and not broker.process.is_paused]
                asked.append(self.send(of or able[0].broker_id, "find_coordinator", 3, key=key, key_type=kind))
            return False

        self.wait(is_found)
        return found[0]

    def until(self, question: Callable[[], Any], is_good: Callable[[Any], bool]) -> Any:
        """Ask again and again, as clients do, until the answer is good; the answer."""
        for _ in range(300):
            answer = question()
            if not isinstance(answer, PeerFailure) and is_good(answer):
                return answer
            self.let_pass(100)
        raise AssertionError(f"the answer stays {answer}")


def _replica_of(broker: SimulatedBroker, key: TopicPartition) -> Partition:
    assert broker.node is not None
    partition = broker.node.partitions.find(*key)
    assert partition is not None
    return partition


def _held(partition: Partition, end_offset: int) -> bytes:
    """The batches of a replica below an offset."""
    data = partition.log.read(partition.log.log_start_offset, 1 << 20, end_offset=end_offset)
    assert isinstance(data, bytes)
    return data


def log_of(broker: SimulatedBroker, key: TopicPartition) -> list[str]:
    """What its replica holds: values, and the ends of transactions."""
    partition = _replica_of(broker, key)
    data = _held(partition, partition.log.log_end_offset)
    found = []
    for position, header in headers(data):
        batch = memoryview(data)[position:]
        if header.is_control:
            marker = read_end_marker(batch, header)
            assert marker is not None
            found.append("commit" if marker.is_commit else "abort")
        else:
            found += [(record.value or b"").decode() for record in decode_batch(batch, header)]
    return found


def read_committed(broker: SimulatedBroker, key: TopicPartition) -> list[bytes]:
    """What a reader of committed records sees in its replica."""
    partition = _replica_of(broker, key)
    data = _held(partition, partition.last_stable_offset)
    found: list[tuple[int, int, bytes]] = []
    aborted: set[int] = set()
    open_by_producer: dict[int, list[int]] = {}
    for position, header in headers(data):
        batch = memoryview(data)[position:]
        if header.is_control:
            marker = read_end_marker(batch, header)
            assert marker is not None
            offsets = open_by_producer.pop(header.producer_id, [])
            aborted.update(() if marker.is_commit else offsets)
            continue
        for record in decode_batch(batch, header):
            found.append((record.offset, header.producer_id, record.value or b""))
            open_by_producer.setdefault(header.producer_id, []).append(record.offset)
    return [value for offset, _, value in found if offset not in aborted]


def check_epochs(broker: SimulatedBroker, key: TopicPartition) -> None:
    """Check that the epochs of each producer in a replica only grow, and that no transaction is open there."""
    partition = _replica_of(broker, key)
    end_offset = partition.log.log_end_offset
    data = _held(partition, end_offset)
    epochs: dict[int, int] = {}
    for _, header in headers(data):
        assert header.producer_epoch >= epochs.get(header.producer_id, -1), log_of(broker, key)
        epochs[header.producer_id] = header.producer_epoch
    assert partition.last_stable_offset == partition.high_watermark == end_offset


def error_codes(topics: Any) -> Mapping[TopicPartition, ErrorCode]:
    return {(topic.name, entry.partition_index): entry.error_code for topic in topics for entry in topic.partitions}
