"""A node without sockets, time that moves when told to, and requests as a client would encode them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.static.constants import EntityType

from highwater.broker.alone.assembly import LoneNode
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.handlers.dispatch import Dispatcher
from highwater.broker.handlers.shared.reply import Client, Listener, PendingResponse
from highwater.broker.log.files import FileOperations, RealFiles
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.member.assembly import ClusteredNode
from highwater.broker.member.features import ClusterFeatures
from highwater.broker.member.zookeeper_store import ZooKeeperStore
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.settings.config import BrokerConfig, Setting, TopicConfig
from highwater.broker.topics.administration import NewTopic
from highwater.broker.topics.log_settings import log_config_of
from highwater.broker.topics.refusal import refusal
from highwater.broker.topics.storage import Storage
from highwater.broker.topics.topic import Topic
from highwater.broker.turns import Turns
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, CLUSTER_APIS
from highwater.kafka.protocol.frame import LENGTH_BYTES, Part
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.manual_clock import ManualClock

LISTENER: Final = Listener("PLAINTEXT", "broker.example", 9092)
NO_SUCH_ID: Final = UUID(int=9)
_KEYS: Final = {api.name: api.key for api in (*APIS.values(), *CLUSTER_APIS.values())}


def versions(name: str) -> list[int]:
    """Those of an API that are served."""
    api = APIS[_KEYS[name]]
    return [version for version in range(api.max_version + 1) if api.serves(version)]


class ManualTimer:
    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualScheduler:
    """An event loop whose time is told to pass."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._soon: list[Callable[[], None]] = []
        self._timers: list[ManualTimer] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.now_ms + delay_ms, callback)
        self._timers.append(timer)
        return timer

    @property
    def pending_timers(self) -> int:
        return sum(timer.callback is not None for timer in self._timers)

    def run(self, duration_ms: int = 0) -> None:
        """Do what is due soon, then let time pass."""
        self._run_soon()
        self.now_ms += duration_ms
        for timer in self._timers:
            if timer.callback is not None and timer.due_ms <= self.now_ms:
                callback, timer.callback = timer.callback, None
                callback()
        self._timers = [timer for timer in self._timers if timer.callback is not None]
        self._run_soon()

    def _run_soon(self) -> None:
        while self._soon:
            self._soon.pop(0)()


class Pending:
    """An answer that may still come."""

    def __init__(self, name: str, version: int, pending: PendingResponse) -> None:
        self.answer: Any = None
        self._pending = pending
        pending.deferred.on_ready(lambda parts: self._take(name, version, pending.frame(parts)))

    def _take(self, name: str, version: int, parts: list[Part]) -> None:
        assert self.answer is None, "a second answer to one request"
        self.answer = decode_answer(name, version, parts)

    @property
    def waits(self) -> bool:
        return self.answer is None

    def cancel(self) -> None:
        self._pending.deferred.cancel()


class NodeHarness:
    def __init__(
        self,
        log_dir: Path,
        more_log_dirs: Sequence[Path] = (),
        files: FileOperations | None = None,
        /,
        **properties: str,
    ) -> None:
        self.config = BrokerConfig(Setting("test", name.replace("_", "."), text) for name, text in properties.items())
        self.clock = ManualClock()
        self.scheduler = ManualScheduler()
        self.wanted_flushes: list[Partition] = []
        files = files or RealFiles()
        defaults = log_config_of(TopicConfig(self.config, {}))
        self.log_directory, *others = (
            LogDirectory(files, path, defaults, broker_id=0, clock=self.clock) for path in (log_dir, *more_log_dirs)
        )
        self.log_directories = LogDirectories([self.log_directory, *others])
        self.store = EmbeddedMetadataStore(files, log_dir, self.log_directory.cluster_id)
        self.log_directories.load(lambda _: defaults, lambda done, total: None)
        self.store.begin_epoch(self.log_directories.latest_leader_epoch)
        runtime = Runtime(
            broker_id=0,
            config=self.config,
            clock=self.clock,
            scheduler=self.scheduler,
            turns=Turns(self.clock, self.scheduler),
        )
        storage = Storage(
            log_directories=self.log_directories,
            request_flush=self.wanted_flushes.append,
            storage_failed=self._storage_failed,
            request_checkpoint=self._checkpoint,
        )
        self.node = self._assemble(runtime, storage)
        self.dispatcher = Dispatcher(self.node)

    def _assemble(self, runtime: Runtime, storage: Storage) -> Node:
        alone = LoneNode(runtime, self.store, storage)
        self.topics = alone.topics
        return alone.node

    def replace(self, **parts: Any) -> None:
        """Go on with a node that has other parts."""
        self.node = replace(self.node, **parts)
        self.dispatcher = Dispatcher(self.node)

    def _storage_failed(self, error: OSError, partition: Partition) -> None:
        self.node.partitions.fail_directory(self.log_directories.of(partition.log))

    def _checkpoint(self, done: Callable[[OSError | None], None]) -> None:
        self.log_directory.checkpoint()
        done(None)

    def close(self, *, clean: bool = True) -> None:
        self.log_directories.close(clean=clean)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> Topic:
        overrides: dict[str, str | None] = {key.replace("_", "."): value for key, value in config.items()}
        topic = self.topics.create(NewTopic(name, partitions, config=overrides))
        assert not isinstance(topic, Problem), topic
        return topic

    def refusal(self, topic: str | UUID, index: int) -> ErrorCode:
        return refusal(self.node.partitions, self.node.cluster, topic, index)

    def flush(self) -> None:
        """What the flusher does."""
        wanted = dict.fromkeys(self.wanted_flushes)
        self.wanted_flushes.clear()  # The node holds on to this very list.
        for partition in wanted:
            ticket = partition.log.begin_flush()
            if ticket is not None:
                ticket.sync()
                partition.log.complete_flush(ticket)
            partition.flushed()

    user: str | None = None
    """Who asks; None for a client that did not log in."""
    listener: Listener = LISTENER
    """On which listener."""
    connection: Client | None = None
    """On which connection; None for a new one each time."""

    def send(self, frame: bytes) -> list[Part] | PendingResponse | None:
        client = self.connection or Client(self.listener)
        if self.user is not None:
            client.authenticated(self.user)
        received = memoryview(bytearray(len(frame).to_bytes(LENGTH_BYTES, "big") + frame))
        size, now_ns = len(received), self.clock.monotonic_ns()
        taken = self.dispatcher.take_run(received, 0, size, size, client, now_ns)
        if taken is None:
            return self.dispatcher.dispatch(received[LENGTH_BYTES:], client)
        return taken[1] or None

    def ask(self, name: str, version: int, /, **fields: Any) -> Any:
        """Send a request and give its decoded answer, None if there is none, or Pending if it is still to come."""
        reply = self.send(request_frame(name, version, **fields))
        if reply is None:
            return None
        if isinstance(reply, PendingResponse):
            return Pending(name, version, reply)
        return decode_answer(name, version, reply)

    def topic_key(self, topic: str | UUID, *, is_by_id: bool) -> dict[str, Any]:
        """A topic as a request has it; of a name that is not there, an id that nobody knows."""
        if not is_by_id:
            return {"name": topic}
        found = self.node.cluster.topic(topic)
        return {"topic_id": topic if isinstance(topic, UUID) else NO_SUCH_ID if found is None else found.topic_id}

    def produce(
        self, topic: str | UUID, *values: bytes, partition: int = 0, acks: int = 1, version: int = 9, **batch: Any
    ) -> Any:
        return self.produce_records(topic, one_batch(*values, **batch), partition=partition, acks=acks, version=version)

    def produce_records(
        self, topic: str | UUID, records: bytes | None, *, partition: int = 0, acks: int = 1, version: int = 9
    ) -> Any:
        """Produce to one partition; the answer for it."""
        answer = self.ask(
            "produce",
            version,
            acks=acks,
            timeout=30_000,
            topic_data=[
                self.topic_key(topic, is_by_id=version >= 13)
                | {"partition_data": [{"index": partition, "records": records}]}
            ],
        )
        return answer if answer is None or isinstance(answer, Pending) else answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, *, partition: int = 0, version: int = 11, **fields: Any) -> Any:
        """Fetch one partition; the whole answer."""
        wanted = {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": fields.pop("partition_max_bytes", 1 << 20),
        } | {key: fields.pop(key) for key in ("current_leader_epoch", "last_fetched_epoch") if key in fields}
        key = {"topic_id": topic} if version >= 13 else {"topic": topic}
        defaults = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 26, "session_epoch": -1}
        return self.ask("fetch", version, **(defaults | fields | {"topics": [key | {"partitions": [wanted]}]}))


def one_batch(*values: bytes, **options: Any) -> bytes:
    return bytes(encode_batch([Record(value, timestamp_ms=1_700_000_000_000) for value in values], **options))


def request_frame(name: str, version: int, /, correlation_id: int = 1, **fields: Any) -> bytes:
    """A request as a client sends it, without its length."""
    tags = b"\x00" if cold._entity(name, version, EntityType.request).__flexible__ else b""
    head = struct.pack(">hhih4s", _KEYS[name], version, correlation_id, 4, b"test")
    return head + tags + cold.encode_request(name, version, fields)


def decode_answer(name: str, version: int, parts: list[Part]) -> Any:
    raw = b"".join(bytes(part) for part in parts)
    entity = cold._entity(name, version, EntityType.response)
    position = 9 if entity.__flexible__ and _KEYS[name] != API_VERSIONS else 8
    answer, size = entity_reader(entity)(raw, position)
    assert position + size == len(raw), "bytes are left after the answer"
    assert int.from_bytes(raw[:4], "big") == len(raw) - 4
    return answer


def a_member(runtime: Runtime, storage: Storage, cluster_id: str = "cluster") -> ClusteredNode:
    """The parts of a broker of a cluster that speaks with nobody: neither ZooKeeper nor other brokers are there."""
    nobody: Any = None
    store = ZooKeeperStore(nobody, runtime.clock, cluster_id)
    features = ClusterFeatures(nobody, runtime.clock)
    return ClusteredNode(
        runtime, store, None, features, storage, nobody, nobody, listener_name="PLAINTEXT", random=Random(1)
    )


class MemberHarness(NodeHarness):
    """A broker of a cluster that speaks with nobody."""

    def _assemble(self, runtime: Runtime, storage: Storage) -> Node:
        clustered = a_member(runtime, storage)
        self.member = clustered.parts
        return clustered.node

    def replace_member(self, **parts: Any) -> None:
        """Go on with other parts of a member."""
        self.member = replace(self.member, **parts)
        self.replace(member=self.member)
