"""A log directory changes hands between Kafka 3.9 and our broker: what one wrote, the other serves and goes on with."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from highwater.kafka.records.record import Record, encode_batch
from tests.broker.running import RunningBroker, running_broker
from tests.compat.apache_kafka.case import CODECS, Server, case, consume, create_topic, produce, raw_produce, succeed
from tests.compat.apache_kafka.dump import assert_no_complaints
from tests.compat.apache_kafka.server import (
    KafkaServer,
    running_kafka,
    running_zookeeper,
    zookeeper_commands,
)

METADATA: Final = "embedded-metadata.json"
PRODUCER_ID: Final = 4711
GROUP: Final = "movers"
OFFSETS_PARTITIONS: Final = 2
PROPERTIES: Final = {
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "transaction.state.log.num.partitions": OFFSETS_PARTITIONS,
    "group.initial.rebalance.delay.ms": 0,
}


def _lines(codec: str) -> list[str]:
    return [f"{codec} line {number} " + "x" * (number % 50) for number in range(400)]


def _fill(server: Server) -> None:
    """Every codec over several segments, a compacted topic, a group's offsets, an idempotent producer."""
    for codec in CODECS:
        create_topic(server, f"moved-{codec}", segment_bytes=10_000, index_interval_bytes=1000)
        produce(server, f"moved-{codec}", _lines(codec), f"compression.type={codec}", "batch.size=1500")
    create_topic(server, "moved-compacted", cleanup_policy="compact", segment_bytes=4000, min_cleanable_dirty_ratio=0)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:", "--producer-property", "batch.size=1000")
    succeed(
        "kafka.tools.ConsoleProducer", "--bootstrap-server", server.address, "--topic", "moved-compacted", *keyed,
        stdin="".join(f"key {number % 10}:value {number}\n" for number in range(600)),
    )  # fmt: skip
    _consume_as_group(server, 150)
    create_topic(server, "moved-idempotent")
    assert _produce_idempotent(server, 0) == (0, 0)
    assert _produce_idempotent(server, 2) == (0, 2)
    create_topic(server, "moved-copy")
    _copy_in_transactions(server, 200)


def _check(server: Server) -> None:
    """All that `_fill` left is there, and is gone on with."""
    for codec in CODECS:
        assert consume(server, f"moved-{codec}", 400) == _lines(codec), codec
        assert consume(server, f"moved-{codec}", 50, offset="350") == _lines(codec)[350:], codec
    tool = ("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", server.address)
    ends = succeed(*tool, "--topic", "moved-compacted").strip()
    assert ends == "moved-compacted:0:600", ends
    kept = succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", server.address,
        "--topic", "moved-compacted", "--from-beginning", "--timeout-ms", "3000",
    ).splitlines()  # fmt: skip
    assert kept[-10:] == [f"value {number}" for number in range(590, 600)], kept[-10:]
    groups = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", server.address)
    described = succeed(*groups, "--describe", "--group", GROUP)
    assert [line.split()[:6] for line in described.splitlines() if line.startswith(GROUP)] == [
        [GROUP, "moved-none", "0", "150", "400", "250"]
    ], described
    assert _consume_as_group(server, 250) == _lines("none")[150:]
    assert _produce_idempotent(server, 2) == (0, 2), "a retry of the last batch is no duplicate"
    assert _produce_idempotent(server, 6)[0] == 45, "a gap is not seen"
    assert _produce_idempotent(server, 4) == (0, 4)
    _copy_in_transactions(server, 200)
    copied = succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", server.address,
        "--topic", "moved-copy", "--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", "5000",
    ).splitlines()  # fmt: skip
    assert copied == _lines("none"), f"{len(copied)} are copied"
    produce(server, "moved-gzip", ["one more"], "compression.type=gzip")
    assert consume(server, "moved-gzip", 1, offset="400") == ["one more"]


def _consume_as_group(server: Server, count: int) -> list[str]:
    return succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", server.address,
        "--topic", "moved-none", "--group", GROUP, "--from-beginning", "--max-messages", str(count),
        "--timeout-ms", "20000", "--consumer-property", f"max.poll.records={count}",
    ).splitlines()  # fmt: skip


def _copy_in_transactions(server: Server, count: int) -> None:
    """The next messages of a topic, some of them in transactions that are aborted and repeated."""
    succeed(
        "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", server.address,
        "--input-topic", "moved-none", "--input-partition", "0", "--output-topic", "moved-copy",
        "--transactional-id", "copier", "--consumer-group", "copiers", "--max-messages", str(count),
        "--transaction-size", "20", "--enable-random-aborts", "--use-group-metadata",
    )  # fmt: skip


def _produce_idempotent(server: Server, sequence: int) -> tuple[int, int]:
    """(error code, base offset) of a batch of two records."""
    records = [Record(b"record %d" % (sequence + i), timestamp_ms=time.time_ns() // 1_000_000) for i in range(2)]
    batch = encode_batch(records, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
    return raw_produce(server, "moved-idempotent", batch)


def _create_znodes(metadata: Mapping[str, Any], leader_epoch: int) -> Iterator[str]:
    """ZooKeeper's commands that make a tree like ours, with the partitions' state that a broker alone does not keep."""
    made: set[str] = set()

    def create(path: str, value: object) -> Iterator[str]:
        parent = path.rpartition("/")[0]
        if parent and parent not in made:
            yield from create(parent, "")
        if path not in made:
            made.add(path)
            yield f"create {path} {json.dumps(value, separators=(',', ':')) if value != '' else ''}".rstrip()

    for path, value in metadata.items():
        yield from create(path, value)
        if path.startswith("/brokers/topics/"):
            for partition in value["partitions"]:
                state = {"version": 1, "leader": 0, "leader_epoch": leader_epoch, "controller_epoch": 1, "isr": [0]}
                yield from create(f"{path}/partitions/{partition}/state", state)


def _copy_without_lock(log_dir: Path, to: Path) -> Path:
    shutil.copytree(log_dir, to, ignore=shutil.ignore_patterns(".lock"))
    return to


@contextmanager
def _kafka(directory: Path, metadata: Mapping[str, Any] | None = None) -> Iterator[tuple[KafkaServer, str]]:
    """Kafka with its ZooKeeper, which knows what `metadata` says; its log directory is `directory`/log."""
    with running_zookeeper(directory) as zookeeper:
        if metadata is not None:
            epoch = int(metadata["/controller_epoch"])
            printed = zookeeper_commands(zookeeper, *_create_znodes(metadata, epoch - 1))
            assert "/brokers/topics/moved-none/partitions/0/state" in printed, printed
        (directory / "log").mkdir(exist_ok=True)
        with running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka:
            yield kafka, zookeeper


@case
def kafka_takes_over_our_log_directory(broker: RunningBroker) -> None:
    _fill(broker)
    assert broker.stop() == 0, broker.log_text()[-2000:]
    assert_no_complaints(broker.log_dir)
    directory = broker.log_dir.with_name("kafka")
    directory.mkdir()
    copy = _copy_without_lock(broker.log_dir, directory / "log")
    metadata = json.loads((copy / METADATA).read_text())
    with _kafka(directory, metadata) as (kafka, _):
        _check(kafka)
        kafka.stop()
    assert_no_complaints(copy)


@case
def our_broker_takes_over_kafkas_log_directory(broker: RunningBroker) -> None:
    broker.stop()
    directory = broker.log_dir.with_name("kafka")
    directory.mkdir()
    with _kafka(directory) as (kafka, zookeeper):
        _fill(kafka)
        metadata = _read_znodes(zookeeper)
        kafka.stop()
    copy = _copy_without_lock(directory / "log", directory / "ours")
    (copy / METADATA).write_text(json.dumps(metadata))
    properties = [f"{name}={value}" for name, value in PROPERTIES.items()]
    with running_broker(copy, properties=properties) as ours:
        _check(ours)
        assert ours.stop() == 0, ours.log_text()[-2000:]
    assert_no_complaints(copy)


def _read_znodes(zookeeper: str) -> dict[str, Any]:
    """The part of Kafka's tree that we keep, too."""
    listed = zookeeper_commands(zookeeper, "ls /brokers/topics", "ls /config/topics")
    topics, configured = (
        [name.strip() for name in line.strip("[]").split(",") if name.strip()]
        for line in listed.splitlines()
        if line.startswith("[") and line.endswith("]")
    )
    paths = ["/cluster/id", "/controller_epoch", "/latest_producer_id_block"]
    paths += [f"/brokers/topics/{name}" for name in topics] + [f"/config/topics/{name}" for name in configured]
    tree = {}
    for path in paths:
        printed = zookeeper_commands(zookeeper, f"get {path}").splitlines()
        tree[path] = json.loads(next(line for line in reversed(printed) if line[:1] in "{0123456789" and line))
    return tree
