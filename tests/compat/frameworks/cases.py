"""The cases: what an application wrote or counted is right, also when the broker is killed under it."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.common.ports import free_ports
from tests.broker.running import start_broker
from tests.compat.frameworks.application import Application, running
from tests.waiting import wait_until

CASES: Final[dict[str, Callable[[], None]]] = {}
_RECORDS: Final = 3000
_DEADLINE_S: Final = 90.0
_FILE_STREAM: Final = "org.apache.kafka.connect.file.FileStream"


def case(check: Callable[[], None]) -> Callable[[], None]:
    CASES[check.__name__.replace("_", "-")] = check
    return check


class Stand:
    """A broker of ours, with what a test asks of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = start_broker(directory / "log")
        self.address = self.broker.address
        self._client = {"bootstrap.servers": self.address, "log_level": 0}
        self._admin = AdminClient(self._client)

    def kill_and_start_broker(self) -> None:
        """At the same address."""
        self.broker.kill()
        self.broker = start_broker(self.broker.log_dir, port=self.broker.port)

    def create(self, *topics: str, partitions: int = 6) -> None:
        created = self._admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
        for future in created.values():
            future.result(_DEADLINE_S)

    def produce(self, topic: str, values: list[str]) -> None:
        producer = Producer({**self._client, "enable.idempotence": True})
        for value in values:
            producer.produce(topic, value)
            producer.poll(0)
        assert producer.flush(_DEADLINE_S) == 0

    def read(self, topic: str, until: Callable[[list[tuple[str | None, str]]], bool]) -> list[tuple[str | None, str]]:
        """Keys and values of committed records, in the order of each partition, until they are what is waited for."""
        found: list[tuple[str | None, str]] = []
        consumer = Consumer({**self._client, "group.id": "reader", "isolation.level": "read_committed"})
        try:
            partitions = consumer.list_topics(topic, _DEADLINE_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])

            def enough() -> bool:
                found.extend(_text(message) for message in consumer.consume(1000, 0.1) if message.error() is None)
                return until(found)

            wait_until(enough, f"what {topic} is to have", _DEADLINE_S)
            found.extend(_text(message) for message in consumer.consume(1000, 0.5) if message.error() is None)
        finally:
            consumer.close()
        return found

    def group(self, name: str) -> Any:
        return self._admin.describe_consumer_groups([name])[name].result(_DEADLINE_S)

    def wait_for_group(self, name: str, members: int) -> Any:
        def is_there() -> bool:
            described = self.group(name)
            return bool(described.state is ConsumerGroupState.STABLE) and len(described.members) == members

        wait_until(is_there, f"{members} members of {name}", _DEADLINE_S)
        return self.group(name)

    def committed(self, group: str, topic: str, partitions: int = 6) -> int:
        """The sum of the group's committed offsets."""
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        consumer = Consumer({**self._client, "group.id": group})
        try:
            return sum(max(0, found.offset) for found in consumer.committed(wanted, _DEADLINE_S))
        finally:
            consumer.close()

    def close(self) -> None:
        self.broker.kill()


def _text(message: Message) -> tuple[str | None, str]:
    key, value = message.key(), message.value()
    assert isinstance(value, bytes), value
    return key.decode() if isinstance(key, bytes) else None, value.decode()


@contextmanager
def stand() -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="highwater-compat-", ignore_cleanup_errors=True) as directory:
        made = Stand(Path(directory))
        try:
            yield made
        finally:
            made.close()


def _wait(application: Application, holds: Callable[[], object], what: str) -> None:
    """Raises AssertionError with the application's last lines when it is not so in time."""
    try:
        wait_until(holds, what, _DEADLINE_S)
    except TimeoutError as error:
        raise AssertionError(f"{error}: {application.last_words()}") from None


@case
def streams_counts_exactly_once_over_a_kill() -> None:
    """Repartition and changelog topics, transactions, state: the last count of each word is the true one."""
    words = [f"word-{number % 17}" for number in range(_RECORDS)]
    with stand() as made:
        made.create("words", "counts")
        made.produce("words", words[:1000])
        state = str(made.directory / "state")
        with running("kafka", "StreamsApplication.java", made.address, state, "classic") as streams:
            _wait(streams, lambda: "RUNNING" in streams.said("^state (.*)"), "Streams runs")
            made.read("counts", lambda found: sum(int(count) for count in dict(found).values()) == 1000)
            made.produce("words", words[1000:2000])
            made.kill_and_start_broker()
            made.produce("words", words[2000:])
            counts = made.read("counts", lambda found: sum(int(count) for count in dict(found).values()) >= _RECORDS)
            assert {str(word): int(count) for word, count in dict(counts).items()} == Counter(words)
            streams.stop()


@case
def streams_with_its_own_protocol_fails_once_and_says_why() -> None:
    """Groups of KIP-1071 are not served: the application ends with an error that names the protocol."""
    with stand() as made:
        made.create("words", "counts")
        state = str(made.directory / "state")
        with running("kafka", "StreamsApplication.java", made.address, state, "streams") as streams:
            _wait(streams, lambda: "ERROR" in streams.said("^state (.*)"), "Streams gives up")
            causes = streams.said("^(?:uncaught|cause) (.*)")
            assert any("UnsupportedVersionException" in cause for cause in causes), streams.last_words()


@case
def spring_listeners_share_a_group_of_the_new_protocol() -> None:
    """Three listeners; every record is had, over a kill of the broker, and the group's commits reach the end."""
    values = [f"order {number}" for number in range(_RECORDS)]
    with stand() as made:
        made.create("orders")
        made.produce("orders", values[:1000])
        with running("kafka", "SpringApplication.java", made.address, "consumer") as spring:
            _wait(spring, lambda: len(set(spring.said("^had (.*)"))) == 1000, "the first orders")
            group = made.wait_for_group("spring", 3)
            assert group.type is ConsumerGroupType.CONSUMER, group.type
            assert sorted(len(member.assignment.topic_partitions) for member in group.members) == [2, 2, 2]
            made.kill_and_start_broker()
            made.produce("orders", values[1000:])
            _wait(spring, lambda: set(spring.said("^had (.*)")) == set(values), "all orders")
            spring.stop()
        assert made.committed("spring", "orders") == _RECORDS


@case
def spring_listeners_move_to_the_new_protocol_and_back() -> None:
    """A rolling upgrade and its way back: listeners of both protocols share the group meanwhile, none stops reading."""
    values = [f"order {number}" for number in range(_RECORDS)]
    with stand() as made, ExitStack() as stack:
        made.create("orders")

        def started(protocol: str) -> Application:
            return stack.enter_context(running("kafka", "SpringApplication.java", made.address, protocol))

        def had(*applications: Application) -> set[str]:
            return {value for application in applications for value in application.said("^had (.*)")}

        old = started("classic")
        made.wait_for_group("spring", 3)
        made.produce("orders", values[:1000])
        _wait(old, lambda: had(old) == set(values[:1000]), "the first orders")
        new = started("consumer")
        assert made.wait_for_group("spring", 6).type is ConsumerGroupType.CONSUMER
        made.produce("orders", values[1000:2000])
        _wait(new, lambda: had(old, new) == set(values[:2000]), "the orders while both are there")
        old.stop()
        assert made.wait_for_group("spring", 3).type is ConsumerGroupType.CONSUMER
        back = started("classic")
        made.wait_for_group("spring", 6)
        new.stop()
        assert made.wait_for_group("spring", 3).type is ConsumerGroupType.CLASSIC
        made.produce("orders", values[2000:])
        _wait(back, lambda: had(old, new, back) == set(values), "the last orders")
        back.stop()
        assert made.committed("spring", "orders") == _RECORDS


@case
def connect_workers_copy_files_with_consumers_of_the_new_protocol() -> None:
    """A distributed worker: file to topic, topic to file by a consumer of KIP-848, over a kill of the broker."""
    lines = [f"line {number}" for number in range(_RECORDS)]
    with stand() as made:
        (port,) = free_ports(1)
        source, sink = made.directory / "source.txt", made.directory / "sink.txt"
        source.write_text("".join(f"{line}\n" for line in lines[:1000]))
        worker = made.directory / "worker.properties"
        worker.write_text(_worker(made.address, port))
        with running("connect", "org.apache.kafka.connect.cli.ConnectDistributed", str(worker)) as connect:
            url = f"http://127.0.0.1:{port}"
            _wait(connect, lambda: _answers(url), "the worker answers")
            _put(
                f"{url}/connectors/source/config", connector=f"{_FILE_STREAM}SourceConnector", file=source, topic="copy"
            )
            _put(
                f"{url}/connectors/sink/config",
                **{"consumer.override.group.protocol": "consumer", "tasks.max": "2"},
                connector=f"{_FILE_STREAM}SinkConnector",
                file=sink,
                topics="copy",
            )

            def copied() -> set[str]:
                return set(sink.read_text().splitlines()) if sink.exists() else set()

            _wait(connect, lambda: copied() == set(lines[:1000]), "the first lines")
            assert made.wait_for_group("connect-sink", 2).type is ConsumerGroupType.CONSUMER
            made.kill_and_start_broker()
            with source.open("a") as file:
                file.writelines(f"{line}\n" for line in lines[1000:])
            _wait(connect, lambda: copied() == set(lines), "all lines")
            connect.stop()


def _worker(address: str, port: int) -> str:
    converter = "org.apache.kafka.connect.storage.StringConverter"
    storage = ("config", "offset", "status")
    settings = {
        "bootstrap.servers": address,
        "group.id": "workers",
        "key.converter": converter,
        "value.converter": converter,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.flush.interval.ms": 1000,
        **{f"{name}.storage.topic": f"connect-{name}" for name in storage},
        **{f"{name}.storage.replication.factor": 1 for name in storage},
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - http on loopback
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _put(url: str, *, connector: str, **config: object) -> None:
    """Make a connector; while the worker finds its place in the group it answers 409."""
    wanted = json.dumps({"connector.class": connector, **{name: str(value) for name, value in config.items()}})

    def made() -> bool:
        request = urllib.request.Request(  # noqa: S310 - http on loopback
            url, wanted.encode(), {"Content-Type": "application/json"}, method="PUT"
        )
        try:
            with urllib.request.urlopen(request, timeout=30):  # noqa: S310
                return True
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise AssertionError(f"{url}: {error.code}: {error.read()[:500]!r}") from None
            return False

    wait_until(made, f"the connector {url}", _DEADLINE_S)


@case
def flink_copies_exactly_once_over_a_kill() -> None:
    """A transaction for each checkpoint: each record is once in the copy, over a kill of the broker."""
    values = [f"value {number}" for number in range(_RECORDS)]
    with stand() as made:
        made.create("in", "out")
        made.produce("in", values[:1000])
        with running("flink", "FlinkApplication.java", made.address) as flink:
            first = made.read("out", lambda found: len(found) >= 1000)
            assert sorted(value for _, value in first) == sorted(values[:1000]), flink.last_words()
            made.kill_and_start_broker()
            made.produce("in", values[1000:])
            copied = made.read("out", lambda found: len(found) >= _RECORDS)
            assert sorted(value for _, value in copied) == sorted(values), flink.last_words()
            wait_until(lambda: made.committed("flink", "in") == _RECORDS, "the checkpoints' offsets", _DEADLINE_S)
