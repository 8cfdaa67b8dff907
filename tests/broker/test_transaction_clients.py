"""Stock transactional clients against a real broker process: all or nothing, once, and by one producer at a time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import AbortTransactionSpec, OffsetSpec
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from highwater.broker.features import TRANSACTION_VERSION, UpgradeType
from tests.broker.running import RunningBroker, running_broker, start_broker
from tests.broker.txn.wire_producer import Wire, WireProducer
from tests.reading import read_to_end
from tests.waiting import wait_until

# Its types are there, but not exported.
kafka_admin: Any = import_module("confluent_kafka.admin")

pytestmark = pytest.mark.clients

DEADLINE_S = 150.0
TIMEOUT_S = 60.0
PROPERTIES = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
)
RECORDS = 2000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("transactions") / "log", properties=PROPERTIES) as broker:
        yield broker
        assert broker.stop() == 0
        for word in ("Traceback", "ERROR", "CRITICAL"):
            assert word not in broker.log_text()


def create(broker: RunningBroker, name: str, partitions: int = 1) -> None:
    admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
    admin.create_topics([kafka_admin.NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)


def begun(broker: RunningBroker, transactional_id: str, **options: Any) -> Producer:
    """A producer that has begun a transaction."""
    settings = {key.replace("_", "."): value for key, value in options.items()}
    producer = Producer(
        {
            "log_level": 0,
            "bootstrap.servers": broker.address,
            "transactional.id": transactional_id,
            "linger.ms": 5,
            "transaction.timeout.ms": 600_000,
            **settings,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    return producer


def read(broker: RunningBroker, topic: str, *, committed: bool = True, partitions: int = 1) -> list[str]:
    """The values of everything up to the end."""
    found = read_to_end(broker.address, topic, partitions, committed=committed)
    return [each.value.decode() for each in found]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_librdkafka_commits_and_aborts(broker: RunningBroker, codec: str) -> None:
    topic = f"both-{codec}"
    create(broker, topic)
    producer = begun(broker, topic, compression_type=codec)
    for number in range(6):
        if number:
            producer.begin_transaction()
        for letter in "abc":
            producer.produce(topic, f"{number}{letter}" * 50)
        if number % 3:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
    expected = [[f"{number}{letter}" * 50 for letter in "abc"] for number in range(6)]
    assert read(broker, topic) == [value for number in (1, 2, 4, 5) for value in expected[number]]
    assert read(broker, topic, committed=False) == [value for values in expected for value in values]


def test_kafka_python_commits_and_aborts(broker: RunningBroker) -> None:
    create(broker, "kafka-python", 2)
    producer = KafkaProducer(bootstrap_servers=broker.address, transactional_id="kafka-python", acks="all")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        for partition in range(2):
            producer.send("kafka-python", b"%d" % number, partition=partition)
        producer.flush()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=int(TIMEOUT_S * 1000),
    )
    consumer.assign([KafkaPythonPartition("kafka-python", index) for index in range(2)])
    seen = Counter(next(consumer).value for _ in range(4))
    consumer.close()
    assert seen == {b"1": 2, b"3": 2}
    assert sorted(read(broker, "kafka-python", partitions=2)) == ["1", "1", "3", "3"]


@pytest.mark.parametrize("release", [None, *(release for release in BROKER_API_VERSIONS if release >= (3, 9))])
def test_kafka_python_that_is_told_of_a_release_asks_for_nothing_else(
    broker: RunningBroker, release: tuple[int, int] | None
) -> None:
    """It takes the versions of that release, whatever ApiVersions says: one that is not served ends its connection."""
    told: dict[str, Any] = {"bootstrap_servers": broker.address, "api_version": release}
    topic = f"told-{release}".replace(", ", ".").translate({40: None, 41: None})
    create(broker, topic)
    partition = KafkaPythonPartition(topic, 0)
    producer = KafkaProducer(transactional_id=topic, **told)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"in").get(TIMEOUT_S)
    producer.send_offsets_to_transaction({partition: OffsetAndMetadata(1, "", -1)}, topic)
    producer.commit_transaction()
    consumer = KafkaConsumer(topic, group_id="reader", auto_offset_reset="earliest", **told)
    assert next(consumer).value == b"in"
    consumer.commit()
    consumer.close()
    admin = KafkaAdminClient(**told)
    assert admin.list_partition_offsets({partition: OffsetSpec.LATEST})[partition].offset == 2
    assert admin.list_group_offsets(topic)[topic][partition].offset == 1
    assert admin.describe_log_dirs()
    producer.begin_transaction()
    producer.send(topic, b"hanging").get(TIMEOUT_S)
    (hanging,) = admin.describe_producers([partition])[partition].active_producers
    admin.abort_transaction(AbortTransactionSpec(partition, hanging.producer_id, hanging.producer_epoch, 0))
    assert read(broker, topic) == ["in"]
    admin.close()
    producer.close(0)
    assert "is not served" not in broker.log_text()


def test_readers_wait_for_an_open_transaction_and_see_all_of_it_at_once(broker: RunningBroker) -> None:
    create(broker, "open")
    plain = Producer({"log_level": 0, "bootstrap.servers": broker.address})
    producer = begun(broker, "open")
    producer.produce("open", "within")
    producer.flush(TIMEOUT_S)
    plain.produce("open", "behind")
    plain.flush(TIMEOUT_S)
    assert read(broker, "open") == []
    assert read(broker, "open", committed=False) == ["within", "behind"]
    producer.commit_transaction(TIMEOUT_S)
    assert read(broker, "open") == ["within", "behind"]


def test_a_newer_producer_fences_the_one_before(broker: RunningBroker) -> None:
    create(broker, "fenced")
    zombie = begun(broker, "fenced")
    zombie.produce("fenced", "zombie")
    zombie.flush(TIMEOUT_S)
    successor = begun(broker, "fenced")
    successor.produce("fenced", "successor")
    successor.commit_transaction(TIMEOUT_S)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal()
    assert read(broker, "fenced") == ["successor"]


def test_a_transaction_that_takes_too_long_is_aborted(broker: RunningBroker) -> None:
    create(broker, "late")
    producer = begun(broker, "late", transaction_timeout_ms=1000)
    producer.produce("late", "late")
    producer.flush(TIMEOUT_S)
    plain = Producer({"log_level": 0, "bootstrap.servers": broker.address})
    plain.produce("late", "behind")
    plain.flush(TIMEOUT_S)
    wait_until(lambda: read(broker, "late") == ["behind"], "the abort", DEADLINE_S)
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal()
    assert read(broker, "late") == ["behind"]


def features_of(answer: Any) -> list[str]:
    return [feature.name for feature in answer.finalized_features]


def test_only_a_client_of_version_2_is_to_ask_again_when_the_level_is_taken_back(tmp_path: Path) -> None:
    """It learns of levels from ApiVersions alone. Until then it would send to a Kafka 3.9 what is refused there."""
    question = {"client_software_name": "a", "client_software_version": "1"}
    with running_broker(tmp_path / "log", properties=PROPERTIES) as broker:
        create(broker, "t")
        old, new = (WireProducer(broker.address, f"x-{version}", version) for version in (1, 2))
        for producer in (old, new):
            producer.init()
            producer.write("t", 0, b"before")
            producer.end()
        downgrade = {"feature": TRANSACTION_VERSION, "max_version_level": 0, "upgrade_type": UpgradeType.SAFE_DOWNGRADE}
        changed = Wire().ask(broker.address, "update_features", 1, feature_updates=[downgrade])
        assert not changed.error_code
        assert features_of(old.wire.ask(broker.address, "api_versions", 4, **question)) == ["group.version"]
        with pytest.raises(ConnectionError):
            new.wire.ask(broker.address, "api_versions", 4, **question)
        assert features_of(new.wire.ask(broker.address, "api_versions", 4, **question)) == ["group.version"]
        # It may have begun its next transaction before.
        new.write("t", 0, b"after")
        new.end()
        assert read(broker, "t") == ["before", "before", "after"]
        old.close()
        new.close()


class Restarted:
    """A broker and a program that can be killed and are there again at once."""

    def __init__(self, log_dir: Path) -> None:
        self.broker = start_broker(log_dir, properties=PROPERTIES)
        self._copier: subprocess.Popen[bytes] | None = None

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker = start_broker(self.broker.log_dir, port=self.broker.port, properties=PROPERTIES)

    def kill_copier(self) -> None:
        if self._copier is not None:
            self._copier.kill()
            self._copier.wait()
            self._copier = None

    def keep_copier(self) -> None:
        """Start the program if it does not run."""
        if self._copier is None or self._copier.poll() is not None:
            arguments = [sys.executable, "-m", "tests.broker.txn.copier", self.broker.address, "source", "target"]
            self._copier = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        self.kill_copier()
        self.broker.kill()


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Restarted]:
    restarted = Restarted(tmp_path / "log")
    yield restarted
    restarted.close()


@pytest.mark.slow
def test_consume_transform_produce_is_exactly_once_whoever_is_killed(restarted: Restarted) -> None:
    create(restarted.broker, "source", 2)
    create(restarted.broker, "target", 2)
    kills = [restarted.kill_copier, restarted.kill_broker, restarted.kill_copier, restarted.kill_broker]
    copied: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    quarter = RECORDS // len(kills)
    for first in range(0, RECORDS, quarter):
        producer = Producer({"log_level": 0, "bootstrap.servers": restarted.broker.address, "linger.ms": 5})
        for number in range(first, first + quarter):
            producer.produce("source", str(number), partition=number % 2)
        assert producer.flush(TIMEOUT_S) == 0
        before = len(copied)
        while len(copied) == before:
            assert time.monotonic() < deadline, len(copied)
            restarted.keep_copier()
            copied = read(restarted.broker, "target", partitions=2)
        kills.pop(0)()
    while len(copied) < RECORDS:
        assert time.monotonic() < deadline, len(copied)
        restarted.keep_copier()
        copied = read(restarted.broker, "target", partitions=2)
    assert Counter(copied) == Counter(map(str, range(RECORDS)))
    for parity in range(2):
        assert [number for number in map(int, copied) if number % 2 == parity] == list(range(parity, RECORDS, 2))
