"""`highwater broker mirror` between two brokers: what arrives, over crashes too, and what it refuses."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.admin.calling import COMMAND, Result, call
from tests.broker.running import RunningBroker, running_broker
from tests.reading import read_to_end
from tests.waiting import wait_until

DEADLINE_S: Final = 120.0

pytestmark = pytest.mark.clients


class Clusters(NamedTuple):
    source: RunningBroker
    target: RunningBroker


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    directory = tmp_path_factory.mktemp("clusters")
    properties = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=2"]
    with (
        running_broker(directory / "source", properties=properties) as source,
        running_broker(directory / "target", properties=properties) as target,
    ):
        yield Clusters(source, target)
        for broker in (source, target):
            assert broker.stop() == 0
            for word in ("Traceback", "ERROR", "CRITICAL"):
                assert word not in broker.log_text()


def mirror(clusters: Clusters, *arguments: str) -> Result:
    return call("mirror", "--source", clusters.source.address, "--target", clusters.target.address, *arguments)


def create(broker: RunningBroker, topic: str, partitions: int = 2, **config: str) -> None:
    # The records are of 2020, and some tests take longer than the first look for what is too old.
    overrides = {"retention.ms": "-1"} | {name.replace("_", "."): text for name, text in config.items()}
    admin = AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, partitions, 1, config=overrides)])[topic].result(DEADLINE_S)


def fill(broker: RunningBroker, topic: str, count: int, *, first: int = 0, partitions: int = 2) -> None:
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=None if number % 3 == 0 else b"k%d" % number,
            value=(None, b"", b"v%d" % number)[number % 3],
            partition=number % partitions,
            timestamp=1_600_000_000_000 + number,
            headers=[("a", b"%d" % number), ("a", None)] if number % 2 else None,
        )
    assert producer.flush(DEADLINE_S) == 0


Seen = tuple[Any, ...]


def read(broker: RunningBroker, topic: str, partitions: int = 2) -> list[list[Seen]]:
    """All committed records by partition, with everything but their offsets."""
    found: list[list[Seen]] = [[] for _ in range(partitions)]
    for each in read_to_end(broker.address, topic, partitions):
        found[each.partition].append((each.key, each.value, each.timestamp, each.headers))
    return found


def start_mirror(clusters: Clusters, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "mirror", "--source", clusters.source.address, "--target", clusters.target.address, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def has_topic(broker: RunningBroker, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=60).topics


def wait_until_it_has(clusters: Clusters, topic: str, records: int) -> None:
    """The target."""
    target = clusters.target
    has_them = lambda: has_topic(target, topic) and end_of(target, topic) >= records  # noqa: E731
    wait_until(has_them, f"{records} records of {topic}", DEADLINE_S)


def end_of(broker: RunningBroker, topic: str, partitions: int = 2) -> int:
    consumer = Consumer({"log_level": 0, "bootstrap.servers": broker.address, "group.id": "watcher"})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, partition), DEADLINE_S)[1]
            for partition in range(partitions)
        )
    finally:
        consumer.close()


def test_records_arrive_with_all_that_they_are(clusters: Clusters) -> None:
    create(clusters.source, "whole", retention_ms="1234567890000", cleanup_policy="compact,delete")
    producer = Producer({"log_level": 0, "bootstrap.servers": clusters.source.address})
    for number in range(30):
        producer.produce("whole", key=b"k%d" % number, value=b"v", partition=number % 2, timestamp=1_600_000_000_000)
    assert producer.flush(DEADLINE_S) == 0
    result = mirror(clusters, "--topic", "whole", "--name", "whole", "--once")
    assert (result.exit_code, result.errors) == (0, "created whole with 2 partitions\n")
    assert read(clusters.target, "whole") == read(clusters.source, "whole")
    described = call("topics", "-b", clusters.target.address, "--describe", "--topic", "whole", "--json").json
    assert described[0]["config"]["retention.ms"] == "1234567890000"
    assert described[0]["config"]["cleanup.policy"] == "compact,delete"


def test_keys_values_and_headers_may_be_nothing(clusters: Clusters) -> None:
    create(clusters.source, "plain")
    fill(clusters.source, "plain", 300)
    assert mirror(clusters, "--topic", "plain", "--name", "plain", "--once").exit_code == 0
    assert read(clusters.target, "plain") == read(clusters.source, "plain")


def test_a_second_run_goes_on_and_takes_changes_of_the_topic_along(clusters: Clusters) -> None:
    create(clusters.source, "grown")
    fill(clusters.source, "grown", 10)
    assert mirror(clusters, "--topic", "gro.*", "--name", "grown", "--once").exit_code == 0
    source = clusters.source.address
    assert call("topics", "-b", source, "--alter", "--topic", "grown", "--partitions", "3").exit_code == 0
    retention = "retention.ms=1000000000000"
    assert call("configs", "-b", source, "--alter", "--topic", "grown", "--add-config", retention).exit_code == 0
    fill(clusters.source, "grown", 30, first=10, partitions=3)
    result = mirror(clusters, "--topic", "gro.*", "--name", "grown", "--once")
    assert result.exit_code == 0
    assert result.errors == "grown has 3 partitions now\nset retention.ms of grown\n"
    assert read(clusters.target, "grown", 3) == read(clusters.source, "grown", 3)


def test_only_what_was_committed_is_copied(clusters: Clusters) -> None:
    create(clusters.source, "decided", 1)
    producer = Producer({"log_level": 0, "bootstrap.servers": clusters.source.address, "transactional.id": "t"})
    producer.init_transactions(DEADLINE_S)
    for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce("decided", value, partition=0)
        producer.flush(DEADLINE_S)
        producer.commit_transaction(DEADLINE_S) if commits else producer.abort_transaction(DEADLINE_S)
    assert mirror(clusters, "--topic", "decided", "--name", "decided", "--once").exit_code == 0
    assert [value for _, value, _, _ in read(clusters.target, "decided", 1)[0]] == [b"a", b"c"]


@pytest.mark.slow
def test_kills_lose_and_double_nothing(clusters: Clusters) -> None:
    create(clusters.source, "killed")
    fill(clusters.source, "killed", 40_000)
    for round_number in range(4):
        process = start_mirror(clusters, "--topic", "killed", "--name", "killed")
        try:
            before = end_of(clusters.target, "killed") if round_number else 0
            fill(clusters.source, "killed", 5000, first=100_000 * round_number)
            # Some records are there, in a transaction that may never end.
            wait_until_it_has(clusters, "killed", before + 1)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
    assert mirror(clusters, "--topic", "killed", "--name", "killed", "--once").exit_code == 0
    assert read(clusters.target, "killed") == read(clusters.source, "killed")


def test_sigterm_commits_and_ends(clusters: Clusters) -> None:
    create(clusters.source, "stopped")
    fill(clusters.source, "stopped", 100)
    process = start_mirror(clusters, "--topic", "stopped", "--name", "stopped")
    try:
        wait_until_it_has(clusters, "stopped", 100)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
    assert read(clusters.target, "stopped") == read(clusters.source, "stopped")


def test_groups_go_on_in_the_target_where_they_were(clusters: Clusters) -> None:
    create(clusters.source, "grouped", 1)
    producer = Producer({"log_level": 0, "bootstrap.servers": clusters.source.address, "transactional.id": "holes"})
    producer.init_transactions(DEADLINE_S)
    for number in range(10):  # each followed by a marker: offsets of the two clusters drift apart
        producer.begin_transaction()
        producer.produce("grouped", b"%d" % number, partition=0)
        producer.commit_transaction(DEADLINE_S)
    source = AdminClient({"log_level": 0, "bootstrap.servers": clusters.source.address})
    wanted = [ConsumerGroupTopicPartitions("readers", [TopicPartition("grouped", 0, 8)])]  # read: 0 to 3
    source.alter_consumer_group_offsets(wanted)["readers"].result(DEADLINE_S)
    result = mirror(clusters, "--topic", "grouped", "--name", "grouped", "--group", "readers", "--once")
    assert (result.exit_code, "group readers: offsets of 1 partitions" in result.errors) == (0, True)
    consumer = Consumer(
        {
            "log_level": 0,
            "bootstrap.servers": clusters.target.address,
            "group.id": "readers",
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.subscribe(["grouped"])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        assert message.value() == b"4"
    finally:
        consumer.close()


@pytest.mark.slow
def test_of_two_mirrors_of_a_name_the_older_gives_way(clusters: Clusters) -> None:
    create(clusters.source, "twice")
    fill(clusters.source, "twice", 10)
    first = start_mirror(clusters, "--topic", "twice", "--name", "twice")
    try:
        wait_until_it_has(clusters, "twice", 10)
        assert mirror(clusters, "--topic", "twice", "--name", "twice", "--once").exit_code == 0
        numbers = count(10)

        def has_ended() -> bool:
            fill(clusters.source, "twice", 1, first=next(numbers))
            return first.poll() is not None

        wait_until(has_ended, "the end of the older one", DEADLINE_S)
        assert first.returncode == 1
    finally:
        first.kill()
        first.wait()
    assert mirror(clusters, "--topic", "twice", "--name", "twice", "--once").exit_code == 0
    assert read(clusters.target, "twice") == read(clusters.source, "twice")


def test_mistakes_are_one_line(clusters: Clusters) -> None:
    create(clusters.source, "mistaken")
    fill(clusters.source, "mistaken", 1)
    fill(clusters.target, "mistaken", 1)
    source = clusters.source.address
    both = ("--source", source, "--target", clusters.target.address)
    cases = [
        (("--source", source, "--target", source, "--topic", "mistaken"), 2, "both are the same cluster"),
        ((*both, "--topic", "mistakn"), 1, "did you mean mistaken?"),
        ((*both, "--topic", "("), 2, "--topic (: not a regular expression"),
        (("--source", source, "--target", "127.0.0.1:1", "--topic", "mistaken"), 2, "no broker can be reached"),
        ((*both, "--topic", "mistaken", "--name", "a b"), 2, "--name a b: "),
        ((*both, "--topic", "mistaken", "--compression", "lzo"), 2, "--compression lzo"),
        ((*both, "--topic", "mistaken"), 1, "another producer or a mirror of another --name wrote them"),
    ]
    for arguments, exit_code, text in cases:
        result = call("mirror", *arguments, "--once")
        last_line = result.errors.splitlines()[-1]
        assert (result.exit_code, last_line.startswith("error: "), text in last_line) == (exit_code, True, True), result
