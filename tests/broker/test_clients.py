"""Stock clients against a real broker process: what they write comes back, in order and unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.request import cold_request
from highwater.kafka.client.settings import settings_of
from highwater.kafka.records.batch import headers
from tests.broker.running import RunningBroker, running_broker
from tests.waiting import wait_until

# Its types are there, but not exported.
kafka_admin: Any = import_module("confluent_kafka.admin")

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        yield broker
        assert broker.stop() == 0
        for word in ("Traceback", "ERROR", "CRITICAL"):
            assert word not in broker.log_text()


@pytest.fixture
def admin(broker: RunningBroker) -> Any:
    return kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})


def create(admin: Any, name: str, partitions: int = 1, **config: str) -> None:
    options = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin.create_topics([kafka_admin.NewTopic(name, partitions, 1, config=options)]).values():
        future.result(DEADLINE_S)


def produce(broker: RunningBroker, topic: str, values: list[bytes], **options: Any) -> None:
    settings = {key.replace("_", "."): value for key, value in options.items()}
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address, "linger.ms": 5, **settings})
    failed: list[KafkaError] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert failed == []


def consume(broker: RunningBroker, topic: str, count: int, offset: int = OFFSET_BEGINNING) -> list[Message]:
    consumer = Consumer(
        {
            "log_level": 0,
            "bootstrap.servers": broker.address,
            "group.id": "assigned-by-hand",
            "enable.auto.commit": False,
        }
    )
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        while len(messages) < count and time.monotonic() < deadline:
            for message in consumer.consume(count, 0.5):
                assert message.error() is None, message.error()
                messages.append(message)
    finally:
        consumer.close()
    return messages


def kafka_python_consumer(broker: RunningBroker, topic: str, **options: Any) -> Any:
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, consumer_timeout_ms=60_000, **options)
    consumer.assign([KafkaPythonPartition(topic, 0)])
    return consumer


@pytest.mark.parametrize(("acks", "codec"), list(product(("0", "1", "all"), CODECS)))
def test_librdkafka_reads_what_it_wrote(broker: RunningBroker, admin: Any, acks: str, codec: str) -> None:
    topic = f"librdkafka-{acks}-{codec}"
    create(admin, topic)
    values = [f"value {number} ".encode() * 20 for number in range(500)]
    produce(broker, topic, values, acks=acks, compression_type=codec)
    messages = consume(broker, topic, len(values))
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))
    stored = (broker.log_dir / f"{topic}-0" / f"{0:020}.log").read_bytes()
    assert {header.codec.name.lower() for _, header in headers(stored)} == {codec}


@pytest.mark.parametrize(("acks", "codec"), list(product((0, 1, "all"), CODECS)))
def test_kafka_python_reads_what_it_wrote(broker: RunningBroker, acks: int | str, codec: str) -> None:
    topic = f"kafka-python-{acks}-{codec}"
    producer = KafkaProducer(
        bootstrap_servers=broker.address,
        acks=acks,
        enable_idempotence=acks == "all",
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
    )
    values = [f"value {number} ".encode() * 20 for number in range(200)]
    for value in values:
        producer.send(topic, value)
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = kafka_python_consumer(broker, topic, auto_offset_reset="earliest")
    try:
        records = [next(consumer) for _ in values]
    finally:
        consumer.close()
    assert [record.value for record in records] == values


def test_keys_headers_null_values_and_timestamps_stay(broker: RunningBroker, admin: Any) -> None:
    create(admin, "whole-records")
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address})
    producer.produce("whole-records", None, key=b"tombstone", timestamp=1_600_000_000_001)
    producer.produce("whole-records", b"", key=None, headers=[("trace", b"1"), ("trace", None), ("ünï", b"")])
    producer.flush(DEADLINE_S)
    tombstone, empty = consume(broker, "whole-records", 2)
    assert (tombstone.key(), tombstone.value(), tombstone.timestamp()[1]) == (b"tombstone", None, 1_600_000_000_001)
    assert (empty.key(), empty.value()) == (None, b"")
    assert empty.headers() == [("trace", b"1"), ("trace", None), ("ünï", b"")]


def test_reading_from_the_middle_of_a_batch_the_end_and_a_timestamp(broker: RunningBroker, admin: Any) -> None:
    create(admin, "positions")
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address, "linger.ms": 60_000})
    for number in range(100):
        producer.produce("positions", str(number).encode(), timestamp=1_600_000_000_000 + number)
    producer.flush(DEADLINE_S)
    (batch,) = headers((broker.log_dir / "positions-0" / f"{0:020}.log").read_bytes())
    assert batch[1].record_count == 100

    assert [message.offset() for message in consume(broker, "positions", 58, offset=42)] == list(range(42, 100))

    def offset_for(timestamp_ms: int) -> int:
        consumer = Consumer({"log_level": 0, "bootstrap.servers": broker.address, "group.id": "times"})
        (found,) = consumer.offsets_for_times([TopicPartition("positions", 0, timestamp_ms)], timeout=DEADLINE_S)
        consumer.close()
        return int(found.offset)

    assert offset_for(1_600_000_000_042) == 42
    assert offset_for(0) == 0
    assert offset_for(1_600_000_000_100) == OFFSET_END

    partition = TopicPartition("positions", 0)
    for spec, expected in (
        (kafka_admin.OffsetSpec.earliest(), 0),
        (kafka_admin.OffsetSpec.latest(), 100),
        (kafka_admin.OffsetSpec.max_timestamp(), 99),
        (kafka_admin.OffsetSpec.for_timestamp(1_600_000_000_007), 7),
    ):
        (future,) = admin.list_offsets({partition: spec}).values()
        assert future.result(DEADLINE_S).offset == expected


def test_a_consumer_at_the_end_hears_of_new_records(broker: RunningBroker, admin: Any) -> None:
    create(admin, "tail")
    produce(broker, "tail", [b"old"])
    consumer = kafka_python_consumer(broker, "tail")
    try:
        consumer.seek_to_end()
        assert consumer.position(KafkaPythonPartition("tail", 0)) == 1
        produce(broker, "tail", [b"new"])
        assert next(consumer).value == b"new"
    finally:
        consumer.close()


def test_an_idempotent_producer(broker: RunningBroker, admin: Any) -> None:
    create(admin, "idempotent")
    values = [str(number).encode() for number in range(5000)]
    produce(broker, "idempotent", values, enable_idempotence=True, batch_num_messages=100)
    messages = consume(broker, "idempotent", len(values))
    assert [message.value() for message in messages] == values


def set_group_version(broker: RunningBroker, level: int) -> None:
    update = {"feature": "group.version", "max_version_level": level, "upgrade_type": 1 if level else 2}
    fields = {"timeout": 1000, "feature_updates": [update], "validate_only": False}
    asked = cold_request("update_features", 1, 1, fields, lambda answer: answer.error_code)
    client = BlockingClient(settings_of({"bootstrap.servers": broker.address}))
    assert not client.ask(("127.0.0.1", broker.port), asked)


def test_a_consumer_of_the_new_group_protocol_ends_with_an_error(
    broker: RunningBroker, admin: Any, request: pytest.FixtureRequest
) -> None:
    """Where `group.version` is 0. It must not wait for ever."""
    create(admin, "new-protocol")
    set_group_version(broker, 0)
    request.addfinalizer(lambda: set_group_version(broker, 1))
    options = {"bootstrap.servers": broker.address, "group.id": "new", "group.protocol": "consumer"}
    with closing(Consumer(options)) as consumer:
        consumer.subscribe(["new-protocol"])

        def fails() -> bool:
            message = consumer.poll(0.1)
            error = None if message is None else message.error()
            return error is not None and error.code() == KafkaError._FATAL

        wait_until(fails, "a fatal error", DEADLINE_S)


def test_offsets_out_of_range_send_a_consumer_to_its_reset(broker: RunningBroker, admin: Any) -> None:
    create(admin, "reset")
    produce(broker, "reset", [b"first"])
    consumer = kafka_python_consumer(broker, "reset", auto_offset_reset="earliest")
    try:
        consumer.seek(KafkaPythonPartition("reset", 0), 1000)
        assert next(consumer).value == b"first"
    finally:
        consumer.close()


def failure(call: Callable[[], Any]) -> Any:
    with pytest.raises(KafkaException) as caught:
        call()
    return caught.value.args[0].code()


def test_topic_administration(broker: RunningBroker, admin: Any) -> None:
    create(admin, "managed", 2, max_message_bytes="2000")
    assert len(admin.list_topics(timeout=DEADLINE_S).topics["managed"].partitions) == 2
    assert failure(lambda: create(admin, "managed")) == KafkaError.TOPIC_ALREADY_EXISTS
    assert failure(lambda: create(admin, "bad name")) == KafkaError.TOPIC_EXCEPTION
    assert failure(lambda: create(admin, "new", retention_ms="soon")) == KafkaError.INVALID_CONFIG
    assert failure(lambda: create(admin, "new", no_such="1")) == KafkaError.INVALID_CONFIG
    (replicated,) = admin.create_topics([kafka_admin.NewTopic("new", 1, 3)]).values()
    assert failure(lambda: replicated.result(DEADLINE_S)) == KafkaError.INVALID_REPLICATION_FACTOR
    (validated,) = admin.create_topics([kafka_admin.NewTopic("new", 1, 1)], validate_only=True).values()
    validated.result(DEADLINE_S)
    assert "new" not in admin.list_topics(timeout=DEADLINE_S).topics

    (grown,) = admin.create_partitions([kafka_admin.NewPartitions("managed", 5)]).values()
    grown.result(DEADLINE_S)
    assert len(admin.list_topics(timeout=DEADLINE_S).topics["managed"].partitions) == 5
    (shrunk,) = admin.create_partitions([kafka_admin.NewPartitions("managed", 3)]).values()
    assert failure(lambda: shrunk.result(DEADLINE_S)) == KafkaError.INVALID_PARTITIONS

    (described,) = admin.describe_configs(
        [kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, "managed")]
    ).values()
    configs = described.result(DEADLINE_S)
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].is_default) == ("2000", False)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].is_default) == ("1073741824", True)
    (described,) = admin.describe_configs([kafka_admin.ConfigResource(kafka_admin.ResourceType.BROKER, "0")]).values()
    assert described.result(DEADLINE_S)["num.partitions"].value == "1"

    cluster = admin.describe_cluster().result(DEADLINE_S)
    assert cluster.cluster_id == broker.cluster_id
    assert [(node.host, node.port) for node in cluster.nodes] == [("127.0.0.1", broker.port)]

    (deleted,) = admin.delete_topics(["managed"]).values()
    deleted.result(DEADLINE_S)
    assert "managed" not in admin.list_topics(timeout=DEADLINE_S).topics
    (missing,) = admin.delete_topics(["managed"]).values()
    assert failure(lambda: missing.result(DEADLINE_S)) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_too_large_a_message_is_refused(broker: RunningBroker, admin: Any) -> None:
    create(admin, "small-messages", max_message_bytes="1000")
    errors: list[KafkaError | None] = []
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address})
    producer.produce("small-messages", bytes(2000), on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_S)
    assert [error and error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_acks_all_below_min_insync_replicas_is_refused(broker: RunningBroker, admin: Any) -> None:
    create(admin, "two-replicas", min_insync_replicas="2")
    errors: list[KafkaError | None] = []
    for acks, timeout_ms in (("all", 1500), ("1", 60_000)):
        producer = Producer(
            {"log_level": 0, "bootstrap.servers": broker.address, "acks": acks, "message.timeout.ms": timeout_ms}
        )
        producer.produce("two-replicas", b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(DEADLINE_S)
    refused, taken = errors
    assert refused is not None
    assert taken is None


def test_the_broker_stamps_its_own_time_when_the_topic_says_so(broker: RunningBroker, admin: Any) -> None:
    create(admin, "broker-time", message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address})
    producer.produce("broker-time", b"x", timestamp=1)
    producer.flush(DEADLINE_S)
    (message,) = consume(broker, "broker-time", 1)
    assert message.timestamp()[1] >= before_ms
