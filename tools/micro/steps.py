"""The timed steps of the broker's hot path, each with the state that it needs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Client
from highwater.broker.log.files import FilePiece
from highwater.broker.log.offset_index import OffsetIndex
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.log.time_index import TimeIndex
from highwater.broker.security.authorizer import Authorizer
from highwater.kafka.acl import (
    EVERYBODY,
    WILDCARD,
    Entry,
    Operation,
    Permission,
    Resource,
    ResourceType,
)
from highwater.kafka.protocol import cold, fetch, metadata, produce
from highwater.kafka.protocol.frame import FrameReceiver, frame_response, read_request_header
from highwater.kafka.protocol.primitives import Decoder
from highwater.kafka.records.batch import BatchHeader, read_header, validate_produced
from tests.broker.handlers.harness import LISTENER, NodeHarness, one_batch, request_frame

Call = Callable[[], object]
Step = Callable[[], AbstractContextManager[Call]]

_TOPIC: Final = "benchmark"
_NOW_MS: Final = 1_700_000_000_000

_BY_ACLS: Final = {
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
    "super_users": "User:admin",
}
"""Properties of a broker that asks ACLs about each request: `_node` lets everybody use the topic, among 1,000 ACLs."""
_OTHER_ACLS: Final = 999

WITH_ACLS: Final = ", with ACLs"
"""Ends the name of a step that another has without ACLs."""
STEPS: Final[dict[str, Step]] = {}


def step(name: str) -> Callable[[Callable[[], Iterator[Call]]], Callable[[], Iterator[Call]]]:
    """Register a generator that yields what to call."""

    def register(make: Callable[[], Iterator[Call]]) -> Callable[[], Iterator[Call]]:
        STEPS[name] = contextmanager(make)
        return make

    return register


def _batch(size_bytes: int, record_bytes: int = 1024) -> bytes:
    return one_batch(*[bytes(record_bytes)] * max(1, size_bytes // (record_bytes + 12)))


def _produce_frame(records: bytes, version: int = 9) -> bytes:
    partitions = [{"index": 0, "records": records}]
    topics = [{"name": _TOPIC, "partition_data": partitions}]
    return request_frame("produce", version, acks=1, timeout=30_000, topic_data=topics)


def _fetch_frame(offset: int, max_bytes: int) -> bytes:
    partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}]
    return request_frame(
        "fetch",
        11,
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[{"topic": _TOPIC, "partitions": partitions}],
    )


@contextmanager
def _node(partitions: int, **properties: str) -> Iterator[NodeHarness]:
    with tempfile.TemporaryDirectory(prefix="highwater-micro-") as directory:
        node = NodeHarness(Path(directory) / "log", **properties)
        try:
            node.create_topic(_TOPIC, partitions)
            # Fetches look what is in the page cache, as in a server; here all is.
            node.replace(storage=replace(node.node.storage, bring_into_cache=_never))
            if node.node.acls is not None:
                _let_everybody_use_the_topic(node.node.acls.authorizer)
            yield node
        finally:
            node.close(clean=False)


def _never(_: Sequence[FilePiece], __: Callable[[OSError | None], None]) -> None:
    raise AssertionError("what was just written is not in the page cache")


def _let_everybody_use_the_topic(authorizer: Authorizer) -> None:
    allowed = [
        Entry(EVERYBODY, WILDCARD, operation, Permission.ALLOW) for operation in (Operation.READ, Operation.WRITE)
    ]
    names = [_TOPIC, *(f"{_TOPIC}-{number}" for number in range(_OTHER_ACLS))]
    for name in names:
        authorizer.set_entries(Resource(ResourceType.TOPIC, name), allowed)


def _log_of(node: NodeHarness) -> PartitionLog:
    partition = node.node.partitions.find(_TOPIC, 0)
    assert partition is not None
    return partition.log


def _decoding(frame: bytes, decode: Callable[[Decoder, int], Any], version: int, *, flexible: bool) -> Call:
    view = memoryview(bytearray(frame))
    position = read_request_header(view).body_position + flexible
    return lambda: decode(Decoder(view, position, flexible=flexible), version)


def _dispatching(node: NodeHarness, frame: bytes) -> Call:
    dispatch, view, client = node.dispatcher.dispatch, memoryview(bytearray(frame)), Client(LISTENER)
    return lambda: dispatch(view, client)


@contextmanager
def _producing(size_bytes: int, **properties: str) -> Iterator[Call]:
    with _node(1, **properties) as node:
        log, dispatch, client = _log_of(node), node.dispatcher.dispatch, Client(LISTENER)
        batch = _batch(size_bytes)
        frame = _produce_frame(batch)
        received = memoryview(bytearray(frame))
        calls = 0

        def produce_again() -> object:
            nonlocal calls
            calls += 1
            received[:] = frame  # the broker stamps offsets into what it received
            return dispatch(received, client)

        yield produce_again
        assert log.log_end_offset == calls * read_header(batch).record_count, "a request was refused"


@contextmanager
def _fetching_at_the_end(**properties: str) -> Iterator[Call]:
    with _node(1, **properties) as node:
        for _ in range(256):
            node.produce_records(_TOPIC, _batch(16 << 10))
        end = _log_of(node).log_end_offset
        yield _dispatching(node, _fetch_frame(end - 1, 16 << 10))


# Codec


@step("frame: 16 KiB out of the receive buffer")
def _() -> Iterator[Call]:
    frame = _produce_frame(_batch(16 << 10))
    sent = len(frame).to_bytes(4, "big") + frame
    receiver = FrameReceiver(100 << 20)

    def receive() -> memoryview | None:
        taken = 0
        while taken < len(sent):
            room = receiver.writable()
            size = min(len(room), len(sent) - taken)
            room[:size] = sent[taken : taken + size]
            room.release()
            receiver.received(size)
            taken += size
            if (whole := receiver.next()) is not None:
                return whole
        return None

    assert receive() is not None
    yield receive


@step("decode: request header")
def _() -> Iterator[Call]:
    view = memoryview(bytearray(_produce_frame(_batch(1024))))
    yield lambda: read_request_header(view)


@step("decode: produce v9, one partition")
def _() -> Iterator[Call]:
    yield _decoding(_produce_frame(_batch(16 << 10)), produce.decode_request, 9, flexible=True)


@step("decode: fetch v11, one partition")
def _() -> Iterator[Call]:
    yield _decoding(_fetch_frame(0, 1 << 20), fetch.decode_request, 11, flexible=False)


@step("decode: metadata v9, one topic")
def _() -> Iterator[Call]:
    frame = request_frame("metadata", 9, topics=[{"name": _TOPIC}])
    yield _decoding(frame, metadata.decode_request, 9, flexible=True)


@step("decode: join_group v5 by its schema")
def _() -> Iterator[Call]:
    def decode(decoder: Decoder, version: int) -> Any:
        return cold.decode_request("join_group", version, decoder)

    frame = request_frame(
        "join_group",
        5,
        group_id="group",
        session_timeout=10_000,
        rebalance_timeout=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": bytes(64)}],
    )
    yield _decoding(frame, decode, 5, flexible=False)


@step("encode: produce v9 answer, framed")
def _() -> Iterator[Call]:
    answers = [(_TOPIC, [produce.PartitionProduced(0, ErrorCode.none, 1000, -1, 0)])]
    yield lambda: frame_response(7, produce.encode_response(answers, 9), flexible_header=True)


# Record batches


@step("batch: read header")
def _() -> Iterator[Call]:
    batch = _batch(16 << 10)
    yield lambda: read_header(batch)


@step("batch: validate 16 KiB")
def _() -> Iterator[Call]:
    batch = memoryview(bytearray(_batch(16 << 10)))
    assert isinstance(validate_produced(batch, max_message_bytes=1 << 20), BatchHeader)
    yield lambda: validate_produced(batch, max_message_bytes=1 << 20)


@step("batch: validate 1 MiB")
def _() -> Iterator[Call]:
    batch = memoryview(bytearray(_batch(1_000_000)))
    assert isinstance(validate_produced(batch, max_message_bytes=1 << 20), BatchHeader)
    yield lambda: validate_produced(batch, max_message_bytes=1 << 20)


# Log


@step("log: append 16 KiB")
def _() -> Iterator[Call]:
    with _node(1) as node:
        log = _log_of(node)
        batch = bytearray(_batch(16 << 10))
        header = read_header(batch)
        yield lambda: log.append(batch, header, leader_epoch=0, now_ms=_NOW_MS)


@step("log: append 1 KiB")
def _() -> Iterator[Call]:
    with _node(1) as node:
        log = _log_of(node)
        batch = bytearray(_batch(1024))
        header = read_header(batch)
        yield lambda: log.append(batch, header, leader_epoch=0, now_ms=_NOW_MS)


@step("log: read 1 MiB of 16 KiB batches")
def _() -> Iterator[Call]:
    with _node(1) as node:
        log = _log_of(node)
        for _ in range(256):
            batch = bytearray(_batch(16 << 10))
            log.append(batch, read_header(batch), leader_epoch=0, now_ms=_NOW_MS)
        middle, end = log.log_end_offset // 2, log.log_end_offset
        yield lambda: log.read(middle, 1 << 20, end_offset=end)


@step("index: look up an offset among 100 000")
def _() -> Iterator[Call]:
    index = OffsetIndex(0)
    for entry in range(100_000):
        index.append(16 * entry, 4096 * entry)
    yield lambda: index.lookup(777_777)


@step("index: look up a time among 100 000")
def _() -> Iterator[Call]:
    index = TimeIndex(0)
    for entry in range(100_000):
        index.append_if_later(_NOW_MS + entry, 16 * entry)
    yield lambda: index.lookup(_NOW_MS + 77_777)


# Whole requests, from the frame to the buffers of the answer


@step("request: produce 16 KiB")
def _() -> Iterator[Call]:
    with _producing(16 << 10) as call:
        yield call


@step("request: produce one 1 KiB record")
def _() -> Iterator[Call]:
    with _producing(1024) as call:
        yield call


@step("request: fetch 1 MiB")
def _() -> Iterator[Call]:
    with _node(1) as node:
        for _ in range(256):
            node.produce_records(_TOPIC, _batch(16 << 10))
        yield _dispatching(node, _fetch_frame(0, 1 << 20))


@step("request: fetch 16 KiB at the end")
def _() -> Iterator[Call]:
    with _fetching_at_the_end() as call:
        yield call


@step("request: metadata of 12 partitions")
def _() -> Iterator[Call]:
    with _node(12) as node:
        yield _dispatching(node, request_frame("metadata", 9, topics=[{"name": _TOPIC}]))


@step("request: produce one 1 KiB record" + WITH_ACLS)
def _() -> Iterator[Call]:
    with _producing(1024, **_BY_ACLS) as call:
        yield call


@step("request: fetch 16 KiB at the end" + WITH_ACLS)
def _() -> Iterator[Call]:
    with _fetching_at_the_end(**_BY_ACLS) as call:
        yield call


@step("request: metadata of 12 partitions" + WITH_ACLS)
def _() -> Iterator[Call]:
    with _node(12, **_BY_ACLS) as node:
        yield _dispatching(node, request_frame("metadata", 9, topics=[{"name": _TOPIC}]))
