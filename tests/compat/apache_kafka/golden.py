"""Makes tests/golden/kafka-3.9: requests, and what Apache Kafka 3.9 answers to them and keeps of them in its files.

    .venv/bin/python -m tests.compat.apache_kafka.golden

`requests.jsonl` holds a request on each line, in order: the API, its version, the time Kafka took it to be, the frame
and Kafka's answer (base64). `log/` is what Kafka had in its log directory after it was stopped cleanly. Where Kafka
puts its own clock into a file, that clock is the time of the request: a replay that is told the same times has to write
the same bytes (tests/broker/test_golden_files.py).
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from highwater.kafka.records.batch import Codec, headers
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import decode_answer, request_frame
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka-3.9"
PROPERTIES: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.backoff.ms": 100,
    # Transactional batches come with no coordinator behind them, so that producer ids and epochs are the scenario's.
    "transaction.partition.verification.enable": "false",
}
RETRIABLE: Final = {3, 5, 6, 14, 15, 16, 51}
_DEADLINE_S: Final = 60.0


class Request(NamedTuple):
    api: str
    version: int
    fields: dict[str, Any]


class Topic(NamedTuple):
    name: str
    config: dict[str, str]


TRANSACTIONAL_ID: Final = "identity"
COORDINATED: Final = {"name": "coordinated", "partitions": [0]}
SMALL_SEGMENTS: Final = {"segment.bytes": "2000", "index.interval.bytes": "300"}
TOPICS: Final = (
    Topic("plain", SMALL_SEGMENTS),
    Topic("codecs", {"index.interval.bytes": "500"}),
    Topic("append-time", {"message.timestamp.type": "LogAppendTime", **SMALL_SEGMENTS}),
    Topic("idempotent", SMALL_SEGMENTS),
    Topic("transactional", SMALL_SEGMENTS),
    Topic("coordinated", {}),
    Topic("shortened", {}),
    Topic("compacted", {"cleanup.policy": "compact", "min.compaction.lag.ms": str((1 << 63) - 1), **SMALL_SEGMENTS}),
)


def scenario(start_ms: int) -> Iterator[Request]:
    yield Request("create_topics", 4, {"timeout": 30_000, "topics": [_new_topic(topic) for topic in TOPICS]})
    yield from _plain(start_ms)
    yield from _codecs(start_ms)
    yield from _idempotent(start_ms)
    yield from _transactional(start_ms)
    yield from _coordinated(start_ms)
    yield from _offsets()
    yield produce("shortened", encode_batch(_records(start_ms, 10)))
    partitions = [{"partition_index": 0, "offset": 4}]
    yield Request("delete_records", 1, {"timeout": 30_000, "topics": [{"name": "shortened", "partitions": partitions}]})
    yield from _compacted(start_ms)


def _new_topic(topic: Topic) -> dict[str, Any]:
    configs = [{"name": name, "value": value} for name, value in topic.config.items()]
    return {"name": topic.name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}


def _records(start_ms: int, count: int, *, size: int = 40, key: str = "key") -> list[Record]:
    """Timestamps rise and fall, keys and values are now and then null, some records have headers."""
    return [
        Record(
            None if i % 11 == 5 else f"value {i} ".encode() * (size // 10),
            None if i % 7 == 3 else f"{key} {i % 5}".encode(),
            start_ms + (i * 37) % 100,
            (("trace", b"%d" % i), ("none", None)) if i % 5 == 0 else (),
        )
        for i in range(count)
    ]


def produce(topic: str, batch: bytes | bytearray, transactional_id: str | None = None) -> Request:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    fields = {"transactional_id": transactional_id, "acks": -1, "timeout": 30_000, "topic_data": data}
    return Request("produce", 9, fields)


def _plain(start_ms: int) -> Iterator[Request]:
    """Many batches of many sizes, over several segments."""
    for i in range(60):
        yield produce(
            "plain", encode_batch(_records(start_ms + 1000 * (i - i % 4), 1 + i * 7 % 5, size=20 + i * 13 % 90))
        )


def _codecs(start_ms: int) -> Iterator[Request]:
    for codec in Codec:
        yield produce("codecs", encode_batch(_records(start_ms, 60), codec=codec))
        yield produce("append-time", encode_batch(_records(start_ms, 20), codec=codec))


def _idempotent(start_ms: int) -> Iterator[Request]:
    def batch(producer: int, sequence: int, count: int = 3, epoch: int = 0) -> Request:
        ids: dict[str, Any] = {"producer_id": 4000 + producer, "producer_epoch": epoch, "base_sequence": sequence}
        return produce("idempotent", encode_batch(_records(start_ms + sequence, count, size=100), **ids))

    for sequence in range(0, 18, 3):
        for producer in range(3):
            yield batch(producer, sequence)
    yield batch(1, 12)  # a retry, answered with the offset that it has already
    yield batch(1, 0)  # a retry of one that is no longer remembered
    yield batch(2, 40)  # a gap
    yield batch(0, 0, epoch=1)  # a new epoch starts from 0
    yield batch(0, 18)  # and fences the old one
    # Over the end of the sequence numbers.
    yield batch(7, (1 << 31) - 3, count=3)
    yield batch(7, 0, count=2)


def _transactional(start_ms: int) -> Iterator[Request]:
    sequences: dict[int, int] = {}

    def batch(producer: int, count: int = 2) -> Request:
        sequence = sequences.get(producer, 0)
        sequences[producer] = sequence + count
        ids: dict[str, Any] = {"producer_id": 5000 + producer, "producer_epoch": 0, "base_sequence": sequence}
        records = encode_batch(_records(start_ms, count, size=150), is_transactional=True, **ids)
        return produce("transactional", records, f"transaction {producer}")

    def end(producer: int, commit: bool) -> Request:
        marker = {
            "producer_id": 5000 + producer,
            "producer_epoch": 0,
            "coordinator_epoch": 0,
            "transaction_result": commit,
            "topics": [{"name": "transactional", "partition_indexes": [0]}],
        }
        return Request("write_txn_markers", 1, {"markers": [marker]})

    yield produce("transactional", encode_batch(_records(start_ms, 2)))
    for number in range(3):
        yield batch(0)
        yield batch(1)
        yield end(0, commit=True)
        yield batch(2)
        yield batch(1, count=3)
        yield end(2, commit=number % 2 == 0)
        yield end(1, commit=False)
    yield end(0, commit=False)  # with no transaction open
    yield batch(0)
    yield produce("transactional", encode_batch(_records(start_ms, 2)))
    yield batch(3)
    yield end(3, commit=True)
    yield batch(2)  # 0 and 2 stay open


def _coordinated(start_ms: int) -> Iterator[Request]:
    """Transactions through the coordinator, which is the first to be given a producer id of this cluster."""
    yield Request("find_coordinator", 2, {"key": TRANSACTIONAL_ID, "key_type": 1})
    for epoch, commits in enumerate((True, False)):
        ids = {"transactional_id": TRANSACTIONAL_ID, "producer_id": 0, "producer_epoch": epoch}
        yield Request("init_producer_id", 2, {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout": 60_000})
        yield Request("add_partitions_to_txn", 1, {**_v3(ids), "v3_and_below_topics": [COORDINATED]})
        batch = encode_batch(
            _records(start_ms, 3), producer_id=0, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        yield produce("coordinated", batch, TRANSACTIONAL_ID)
        yield Request("end_txn", 1, {**ids, "committed": commits})
    # Answered only when the last transaction is over and done with.
    yield Request("init_producer_id", 2, {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout": 60_000})


def _v3(ids: dict[str, Any]) -> dict[str, Any]:
    return {f"v3_and_below_{name}": value for name, value in ids.items()}


def _offsets() -> Iterator[Request]:
    yield Request("find_coordinator", 2, {"key": "group", "key_type": 0})
    for offset in (3, 7):
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": f"read {offset}"}
        fields = {
            "group_id": "group",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": topic, "partitions": [partition]} for topic in ("plain", "codecs")],
        }
        yield Request("offset_commit", 8, fields)


def _compacted(start_ms: int) -> Iterator[Request]:
    """Keys written over, also idempotently, tombstones, transactions of both ends; then the topic may be compacted."""

    def keyed(pass_: int, count: int, **ids: Any) -> bytearray:
        records = [
            Record(
                None if (pass_ + i) % 9 == 4 else b"value %d of pass %d " % (i, pass_) * 4,
                b"key %d" % ((pass_ * 7 + i) % 23),
                start_ms + pass_,
            )
            for i in range(count)
        ]
        return encode_batch(records, **ids)

    for pass_ in range(12):
        yield produce("compacted", keyed(pass_, 8))
    for pass_ in range(12, 16):
        ids = {"producer_id": 6000 + pass_ % 2, "producer_epoch": 0, "base_sequence": (pass_ - 12) // 2 * 5}
        yield produce("compacted", keyed(pass_, 5, **ids))
    for pass_ in range(16, 19):
        ids = {"producer_id": 7000, "producer_epoch": 0, "base_sequence": (pass_ - 16) * 4}
        yield produce("compacted", keyed(pass_, 4, is_transactional=True, **ids), "transaction")
        marker = {
            "producer_id": 7000,
            "producer_epoch": 0,
            "coordinator_epoch": 0,
            "transaction_result": pass_ != 17,
            "topics": [{"name": "compacted", "partition_indexes": [0]}],
        }
        yield Request("write_txn_markers", 1, {"markers": [marker]})
    for pass_ in range(19, 30):
        yield produce("compacted", keyed(pass_, 8))
    # A pass merges segments up to their size, so that the larger one shows in the files.
    changes = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0", "segment.bytes": "5000"}
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in changes.items()]
    resource = {"resource_type": 2, "resource_name": "compacted", "configs": configs}
    yield Request("incremental_alter_configs", 0, {"resources": [resource]})


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _DEADLINE_S)
        self._stream = self._socket.makefile("rb")

    def exchange(self, frame: bytes) -> bytes:
        """The answer with its length before it."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = self._stream.read(4)
        return size + self._stream.read(*struct.unpack(">i", size))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def error_codes(answer: Any) -> set[int]:
    """Of all levels of an answer."""
    if isinstance(answer, tuple):
        return {code for item in answer for code in error_codes(item)}
    if hasattr(answer, "__dataclass_fields__"):
        codes = {int(answer.error_code)} if hasattr(answer, "error_code") else set()
        return codes | {code for name in answer.__dataclass_fields__ for code in error_codes(getattr(answer, name))}
    return set()


def _ask(connection: Connection, request: Request) -> dict[str, Any]:
    frame = request_frame(request.api, request.version, **request.fields)
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        now_ms = time.time_ns() // 1_000_000
        answer = connection.exchange(frame)
        if not error_codes(decode_answer(request.api, request.version, [answer])) & RETRIABLE:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"Kafka does not serve {request.api}: {answer!r}")
        time.sleep(0.1)
    return {
        "api": request.api,
        "version": request.version,
        "now_ms": now_ms,
        "frame": base64.b64encode(frame).decode(),
        "answer": base64.b64encode(answer).decode(),
    }


def _append_times(requests: list[Request], log_dir: Path) -> Iterator[tuple[int, int]]:
    """(number of the request, Kafka's time) where Kafka wrote its own time into a batch."""
    stamped: dict[str, list[int]] = {}
    for topic in ("append-time", "transactional", "coordinated", "compacted", "__consumer_offsets"):
        files = sorted((log_dir / f"{topic}-0").glob("*.log"))
        stamped[topic] = [
            header.max_timestamp_ms
            for file in files
            for _, header in headers(file.read_bytes())
            if header.is_control or topic in ("append-time", "__consumer_offsets")
        ]
    for number, request in enumerate(requests):
        match request.api:
            case "write_txn_markers":
                topic = request.fields["markers"][0]["topics"][0]["name"]
            case "produce":
                topic = request.fields["topic_data"][0]["name"]
                if topic != "append-time":
                    continue
            case "offset_commit":
                topic = "__consumer_offsets"
            case "end_txn":
                topic = "coordinated"
            case _:
                continue
        yield number, stamped[topic].pop(0)


def _wait_for_cleaner(log_dir: Path) -> None:
    """Until the one pass over the compacted topic is on record."""
    deadline = time.monotonic() + _DEADLINE_S
    path = log_dir / "cleaner-offset-checkpoint"
    while not (path.exists() and re.search(r"^compacted 0 [1-9]", path.read_text(), re.MULTILINE)):
        if time.monotonic() > deadline:
            raise SystemExit("Kafka does not compact the topic")
        time.sleep(0.1)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-golden-") as temporary:
        directory = Path(temporary)
        log_dir = directory / "log"
        log_dir.mkdir()
        with running_zookeeper(directory) as zookeeper, running_kafka(log_dir, zookeeper, PROPERTIES) as kafka:
            connection = Connection(kafka.port)
            requests = list(scenario(time.time_ns() // 1_000_000))
            *before, alter_configs = requests
            lines = [_ask(connection, request) for request in before]
            for number, now_ms in _append_times(before, log_dir):
                lines[number]["now_ms"] = now_ms
            lines.append(_ask(connection, alter_configs))
            _wait_for_cleaner(log_dir)
            connection.close()
            kafka.stop()
        shutil.rmtree(GOLDEN, ignore_errors=True)
        GOLDEN.mkdir(parents=True)
        (GOLDEN / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        deleted = shutil.ignore_patterns(".lock", "*.deleted", "meta.properties", ".kafka_cleanshutdown")
        shutil.copytree(log_dir, GOLDEN / "log", ignore=deleted)


if __name__ == "__main__":
    main()
