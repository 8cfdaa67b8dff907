"""Stock consumers in groups, against a real broker process: they share the partitions, and lose nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer

from tests.broker.running import RunningBroker, running_broker, start_broker
from tests.broker.running_cluster import RunningCluster, running_cluster

# Its types are there, but not exported.
kafka_admin: Any = import_module("confluent_kafka.admin")

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0
PARTITIONS = 6
RECORDS = 600
CONSUMER = {"group_protocol": "consumer"}
"""A group of KIP-848."""
STRATEGIES = {
    **{name: {"partition_assignment_strategy": name} for name in ("range", "roundrobin", "cooperative-sticky")},
    **{f"consumer-{name}": CONSUMER | {"group_remote_assignor": name} for name in ("range", "uniform")},
}
PROPERTIES = (
    "group.initial.rebalance.delay.ms=100",
    "offsets.topic.num.partitions=5",
    *(f"group.consumer.{bound}heartbeat.interval.ms=200" for bound in ("", "min.")),
    *(f"group.consumer.{bound}session.timeout.ms=6000" for bound in ("", "min.")),
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("groups") / "log", properties=PROPERTIES) as broker:
        yield broker
        assert broker.stop() == 0
        for word in ("Traceback", "ERROR", "CRITICAL"):
            assert word not in broker.log_text()


def address_of(broker: RunningBroker | RunningCluster) -> str:
    return broker.address if isinstance(broker, RunningBroker) else broker.bootstrap


def filled_topic(broker: RunningBroker | RunningCluster, name: str, replicas: int = 1) -> list[bytes]:
    """Make a topic with records in every partition; their values."""
    admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": address_of(broker)})
    admin.create_topics([kafka_admin.NewTopic(name, PARTITIONS, replicas)])[name].result(DEADLINE_S)
    return fill(broker, name, 0)


def fill(broker: RunningBroker | RunningCluster, name: str, first: int) -> list[bytes]:
    producer = Producer({"log_level": 0, "bootstrap.servers": address_of(broker), "linger.ms": 5})
    values = [b"%d" % number for number in range(first, first + RECORDS)]
    for number, value in enumerate(values):
        producer.produce(name, value, partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0
    return values


class Reader:
    """A member of a group that remembers what it was given."""

    def __init__(self, broker: RunningBroker | RunningCluster, group: str, topic: str, **options: Any) -> None:
        settings = {key.replace("_", "."): value for key, value in options.items()}
        # In a group of KIP-848 these are the broker's.
        times = (
            {}
            if settings.get("group.protocol") == "consumer"
            else {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 500}
        )
        self.values: list[bytes] = []
        self.consumer = Consumer(
            {
                "log_level": 0,
                "bootstrap.servers": address_of(broker),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **times,
                **settings,
            }
        )
        self.consumer.subscribe([topic])

    def read(self) -> None:
        for message in self.consumer.consume(100, 0.05):
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            self.values.append(value)

    def commit(self) -> None:
        """What it has read of the partitions that it has now, which is nothing after a rebalance."""
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def has_read_a_topic(self) -> bool:
        return len(self.values) == RECORDS

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}


def read_until(readers: list[Reader], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, [(reader.partitions, len(reader.values)) for reader in readers]
        for reader in readers:
            reader.read()


def share_all(readers: list[Reader]) -> bool:
    """Every partition has one reader, and every reader has partitions."""
    owned = Counter(partition for reader in readers for partition in reader.partitions)
    return owned == Counter(range(PARTITIONS)) and all(reader.partitions for reader in readers)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_come_and_go_and_each_record_is_read_once(broker: RunningBroker, strategy: str) -> None:
    topic = f"shared-{strategy}"
    expected = filled_topic(broker, topic)
    options = STRATEGIES[strategy]
    first = Reader(broker, topic, topic, **options)
    read_until([first], lambda: len(first.values) == RECORDS)
    first.consumer.commit(asynchronous=False)
    second, third = (Reader(broker, topic, topic, **options) for _ in range(2))
    everybody = [first, second, third]
    read_until(everybody, lambda: share_all(everybody))
    expected += fill(broker, topic, RECORDS)
    read_until(everybody, lambda: sum(len(reader.values) for reader in everybody) == 2 * RECORDS)
    for reader in everybody:
        reader.consumer.commit(asynchronous=False)
    second.consumer.close()
    rest = [first, third]
    read_until(rest, lambda: share_all(rest))
    expected += fill(broker, topic, 2 * RECORDS)
    read_until(rest, lambda: sum(len(reader.values) for reader in everybody) == 3 * RECORDS)
    assert sorted(value for reader in everybody for value in reader.values) == sorted(expected)
    for reader in rest:
        reader.consumer.close()


_CRASHING_MEMBER = """
import sys
from confluent_kafka import Consumer
address, topic, protocol = sys.argv[1:]
times = {"session.timeout.ms": 6000} if protocol == "classic" else {}
consumer = Consumer({"log_level": 0, "bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest",
                     "group.protocol": protocol, "enable.auto.commit": False, **times})
consumer.subscribe([topic])
while True:
    for message in consumer.consume(10, 0.1):
        print(message.value().decode(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_crashes_is_replaced_and_every_record_is_read(broker: RunningBroker, protocol: str) -> None:
    topic = f"crashing-{protocol}"
    expected = filled_topic(broker, topic)
    command = [sys.executable, "-c", _CRASHING_MEMBER, broker.address, topic, protocol]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    survivor = Reader(broker, topic, topic, group_protocol=protocol)
    read_until([survivor], lambda: len(survivor.values) == RECORDS)
    assert sorted(survivor.values) == sorted(expected)
    survivor.consumer.close()


def test_a_static_member_starts_again_without_a_rebalance(broker: RunningBroker) -> None:
    topic = "static"
    filled_topic(broker, topic)
    readers = [Reader(broker, topic, topic, group_instance_id=f"instance-{number}") for number in range(2)]
    read_until(readers, lambda: share_all(readers))
    before = readers[1].partitions
    readers[1].consumer.close()
    readers[1] = Reader(broker, topic, topic, group_instance_id="instance-1")
    read_until(readers, lambda: readers[1].partitions == before)
    assert share_all(readers)
    admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
    members = admin.describe_consumer_groups([topic])[topic].result(DEADLINE_S).members
    assert {(member.host, member.group_instance_id) for member in members} == {
        ("/127.0.0.1", "instance-0"),
        ("/127.0.0.1", "instance-1"),
    }
    generations = [line for line in broker.log_text().splitlines() if "group static: generation" in line]
    for reader in readers:
        reader.consumer.close()
    assert len(generations) <= 2


def test_a_static_member_of_a_consumer_group_gets_back_what_it_had(broker: RunningBroker) -> None:
    topic = "static-consumer"
    filled_topic(broker, topic)
    options = [CONSUMER | {"group_instance_id": f"instance-{number}"} for number in range(2)]
    readers = [Reader(broker, topic, topic, **each) for each in options]
    read_until(readers, lambda: share_all(readers))
    before = readers[1].partitions
    readers[1].consumer.close()
    readers[1] = Reader(broker, topic, topic, **options[1])
    read_until(readers, lambda: readers[1].partitions == before)
    assert share_all(readers)
    for reader in readers:
        reader.consumer.close()


def test_a_group_changes_its_protocol_while_it_is_empty(broker: RunningBroker) -> None:
    topic = "changing"
    expected = filled_topic(broker, topic)
    for number, options in enumerate(({}, CONSUMER, {})):
        reader = Reader(broker, topic, topic, **options)
        read_until([reader], reader.has_read_a_topic)
        reader.consumer.commit(asynchronous=False)
        reader.consumer.close()
        assert sorted(reader.values) == sorted(expected)
        expected = fill(broker, topic, (number + 1) * RECORDS)


def type_of(broker: RunningBroker | RunningCluster, group: str) -> str | None:
    admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": address_of(broker)})
    found = {each.group_id: str(each.type.name) for each in admin.list_consumer_groups().result(DEADLINE_S).valid}
    return found.get(group)


def is_of_type(cluster: RunningCluster, group: str, kind: str) -> bool:
    return type_of(cluster, group) == kind


def coordinator_of(cluster: RunningCluster, group: str) -> int:
    admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap})
    return int(admin.describe_consumer_groups([group])[group].result(DEADLINE_S).coordinator.id)


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_change_their_protocol_one_by_one_and_back(
    broker: RunningBroker, strategy: str, is_static: bool
) -> None:
    """While records come: none is lost, no partition has two readers, and commits go on."""
    topic = f"rolling-{strategy}-{is_static}"
    expected = filled_topic(broker, topic)
    own = [{"group_instance_id": f"instance-{number}"} if is_static else {} for number in range(3)]
    often = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    readers = [Reader(broker, topic, topic, **often, **STRATEGIES[strategy], **each) for each in own]
    everybody = [*readers]

    def share() -> bool:
        owned = Counter(partition for reader in readers for partition in reader.partitions)
        assert max(owned.values(), default=0) <= 1, owned
        return share_all(readers)

    def have_read_all() -> bool:
        return share() and set(expected) == {value for reader in everybody for value in reader.values}

    read_until(readers, have_read_all)
    kinds = []
    for options in (CONSUMER, STRATEGIES[strategy]):
        for number, each in enumerate(own):
            readers[number].consumer.close()
            readers[number] = Reader(broker, topic, topic, **often, **options, **each)
            everybody.append(readers[number])
            expected += fill(broker, topic, len(expected))
            read_until(readers, have_read_all)
            kinds.append(type_of(broker, topic))
    assert kinds == ["CONSUMER"] * 5 + ["CLASSIC"]
    for reader in readers:
        reader.consumer.close()
    committed = Consumer({"log_level": 0, "bootstrap.servers": broker.address, "group.id": topic}).committed(
        [TopicPartition(topic, partition) for partition in range(PARTITIONS)], DEADLINE_S
    )
    assert sum(partition.offset for partition in committed) == len(expected)


def test_kafka_python_shares_a_group_and_goes_on_where_it_stopped(broker: RunningBroker) -> None:
    topic = "kafka-python"
    expected = filled_topic(broker, topic)

    def consumer() -> Any:
        return KafkaConsumer(
            topic,
            bootstrap_servers=broker.address,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=500,
        )

    def read(members: list[Any], count: int) -> list[bytes]:
        values: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(values) < count:
            assert time.monotonic() < deadline, len(values)
            for member in members:
                for records in member.poll(100).values():
                    values += [record.value for record in records]
        return values

    first = consumer()
    assert sorted(read([first], RECORDS)) == sorted(expected)
    first.commit()
    second = consumer()
    deadline = time.monotonic() + DEADLINE_S
    while len(first.assignment()) != 3 or len(second.assignment()) != 3:
        assert time.monotonic() < deadline, (first.assignment(), second.assignment())
        first.poll(50)
        second.poll(50)
    expected = fill(broker, topic, RECORDS)
    assert sorted(read([first, second], RECORDS)) == sorted(expected)
    for member in (first, second):
        member.commit()
        member.close()
    expected = fill(broker, topic, 2 * RECORDS)
    third = consumer()
    assert sorted(read([third], RECORDS)) == sorted(expected)
    third.close()


@pytest.mark.slow
def test_acknowledged_commits_survive_kill_9(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    broker = start_broker(log_dir, properties=PROPERTIES)
    try:
        admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
        admin.create_topics([kafka_admin.NewTopic("t", 4, 1)])["t"].result(DEADLINE_S)
        committed: dict[tuple[str, int], int] = {}
        for round_number in range(3):
            committers = [
                Consumer({"log_level": 0, "bootstrap.servers": broker.address, "group.id": f"g{number}"})
                for number in range(3)
            ]
            for step in range(60):
                for number, consumer in enumerate(committers):
                    partition, offset = step % 4, 1000 * round_number + step
                    consumer.commit(offsets=[TopicPartition("t", partition, offset)], asynchronous=False)
                    committed[f"g{number}", partition] = offset
            port = broker.port
            broker.kill()
            broker = start_broker(log_dir, port=port, properties=PROPERTIES)
            for consumer in committers:
                consumer.close()
            for number in range(3):
                reader = Consumer({"log_level": 0, "bootstrap.servers": broker.address, "group.id": f"g{number}"})
                found = reader.committed([TopicPartition("t", partition) for partition in range(4)], DEADLINE_S)
                reader.close()
                assert {partition.partition: partition.offset for partition in found} == {
                    partition: offset for (group, partition), offset in committed.items() if group == f"g{number}"
                }
    finally:
        broker.kill()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_go_on_after_the_broker_was_killed(tmp_path: Path, protocol: str) -> None:
    log_dir = tmp_path / "log"
    broker = start_broker(log_dir, properties=PROPERTIES)
    try:
        expected = filled_topic(broker, "t")
        readers = [Reader(broker, "g", "t", group_protocol=protocol) for _ in range(2)]
        read_until(readers, lambda: share_all(readers) and sum(len(reader.values) for reader in readers) >= RECORDS)
        for reader in readers:
            reader.commit()
        port = broker.port
        broker.kill()
        broker = start_broker(log_dir, port=port, properties=PROPERTIES)
        expected += fill(broker, "t", RECORDS)
        read_until(readers, lambda: set(expected) == {value for reader in readers for value in reader.values})
        for reader in readers:
            reader.consumer.close()
    finally:
        broker.kill()


@pytest.mark.slow
def test_a_consumer_group_goes_on_while_brokers_are_killed_one_by_one(tmp_path: Path) -> None:
    with running_cluster(tmp_path, properties=(*PROPERTIES, "zookeeper.session.timeout.ms=6000")) as cluster:
        expected = filled_topic(cluster, "t", replicas=3)
        readers = [Reader(cluster, "g", "t", **CONSUMER) for _ in range(2)]

        def have_read_all() -> bool:
            return set(expected) == {value for reader in readers for value in reader.values}

        for broker_id in cluster.ports:
            read_until(readers, have_read_all)
            cluster.kill(broker_id)
            expected += fill(cluster, "t", broker_id * RECORDS)
            read_until(readers, have_read_all)
            cluster.start(broker_id)
        read_until(readers, lambda: share_all(readers))
        for reader in readers:
            reader.consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_change_their_protocol_and_back_while_coordinators_are_killed(tmp_path: Path, strategy: str) -> None:
    """One kill for each member that changes, just when it does."""
    often = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    # A classic group that loses its coordinator before it has a new assignment has the member that left for so long.
    classic = STRATEGIES[strategy] | {"session_timeout_ms": 6000}
    with running_cluster(tmp_path, properties=(*PROPERTIES, "zookeeper.session.timeout.ms=6000")) as cluster:
        expected = filled_topic(cluster, "t", replicas=3)
        readers = [Reader(cluster, "g", "t", **often, **classic) for _ in range(2)]
        everybody = [*readers]

        def have_read_all() -> bool:
            return share_all(readers) and set(expected) == {value for reader in everybody for value in reader.values}

        read_until(readers, have_read_all)
        for options in (CONSUMER, classic):
            for number in range(2):
                readers[number].consumer.close()
                readers[number] = Reader(cluster, "g", "t", **often, **options)
                everybody.append(readers[number])
                killed = coordinator_of(cluster, "g")
                cluster.kill(killed)
                expected += fill(cluster, "t", len(expected))
                read_until(readers, have_read_all)
                cluster.start(killed)
                kind = "CLASSIC" if options is classic and number == 1 else "CONSUMER"
                read_until(readers, partial(is_of_type, cluster, "g", kind))
        for reader in readers:
            reader.consumer.close()
