"""Captures of topics of a running broker, on the command line: what is read, what is refused, what stays untouched."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from typer.testing import CliRunner, Result

from highwater.bench.workload.trace_directory import read_trace
from highwater.common.spark_master import master_fault
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.studies.capture.pacing import ReadLimit
from highwater.studies.capture.statistics import Level
from highwater.studies.capture.topic import TopicRange, TopicReader
from highwater.studies.commands.capture import app
from tests.broker.running import RunningBroker, running_broker
from tests.studies.capture.logs import COMPRESSIONS, new_statistics

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    properties = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]
    with running_broker(tmp_path_factory.mktemp("capture") / "log", properties=properties) as running:
        yield running


def create(broker: RunningBroker, topic: str, partitions: int = 2, **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(60)


def produce(
    broker: RunningBroker, topic: str, count: int, first_ms: int, step_ms: int = 3, batch_records: int = 50
) -> None:
    settings = {"linger.ms": 20, "compression.type": "lz4", "batch.num.messages": batch_records}
    producer = Producer({"bootstrap.servers": broker.address, **settings})
    for number in range(count):
        producer.produce(
            topic, b"v" * (50 + number % 100), b"k%d" % (number % 9), timestamp=first_ms + step_ms * number
        )
    assert producer.flush(60) == 0


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(result: Result) -> str:
    """The last line on standard error."""
    return result.stderr.strip().splitlines()[-1]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_topic_and_parts_of_it(broker: RunningBroker, tmp_path: Path) -> None:
    create(broker, "orders")
    first_ms = now_ms() - 60_000
    produce(broker, "orders", 3000, first_ms)
    on = ("--bootstrap-servers", broker.address, "--read-rate", "100MiB/s", "--out")
    whole = call("orders", *on, tmp_path / "whole", "--name", "orders-of-today")
    assert whole.exit_code == 0, whole.output
    assert "3,000 records in 9" in whole.stdout
    trace = read_trace(tmp_path / "whole")
    assert (trace.manifest.records, trace.manifest.partitions) == (3000, 2)
    assert trace.distributions.codecs.keys() == {"lz4"}
    assert trace.distributions.records is not None
    assert trace.distributions.records.keys.distinct == 9
    assert "name: orders-of-today" in (tmp_path / "whole" / "workload.yaml").read_text()

    headers = call("orders", *on, tmp_path / "headers", "--level", "0")
    assert headers.exit_code == 0, headers.output
    assert read_trace(tmp_path / "headers").distributions.records is None

    parts = call("orders", *on, tmp_path / "parts", "--offsets", "100:200")
    assert parts.exit_code == 0, parts.output
    assert 0 < read_trace(tmp_path / "parts").manifest.records < 3000

    late = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((first_ms + 6000) / 1000))
    timed = call("orders", *on, tmp_path / "timed", "--from", late)
    assert timed.exit_code == 0, timed.output
    assert 500 < read_trace(tmp_path / "timed").manifest.records < 1600


def test_nothing_is_committed_and_no_group_is_joined(broker: RunningBroker, tmp_path: Path) -> None:
    create(broker, "watched", 1)
    # Batches belong to a capture as a whole: of one record each, so that none reaches over the offset of the group.
    produce(broker, "watched", 500, now_ms(), batch_records=1)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("watched", 0, 200)], asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": broker.address})
    on = ("--bootstrap-servers", broker.address, "--out")
    found = call("watched", *on, tmp_path / "rest", "--group", "readers")
    assert found.exit_code == 0, found.output
    assert read_trace(tmp_path / "rest").manifest.records == 300
    assert [group.group_id for group in admin.list_consumer_groups().result(60).valid] == ["readers"]
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("readers")])["readers"].result(60)
    assert [(each.partition, each.offset) for each in asked.topic_partitions] == [(0, 200)]
    described = admin.describe_consumer_groups(["readers"])["readers"].result(60)
    assert list(described.members) == []
    refused = call("watched", *on, tmp_path / "none", "--group", "nobody")
    assert (refused.exit_code, told(refused)) == (
        2,
        "error: group nobody has committed no offset of topic watched; leave --group out",
    )


def test_live_with_the_pace_of_a_group(broker: RunningBroker) -> None:
    """In steps of a clock of the test: records and commits come while the capture sleeps."""
    create(broker, "live", 1)
    produce(broker, "live", 100, now_ms())
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "live-readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("live", 0, 100)], asynchronous=False)
    clock_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal clock_s
        if int(clock_s) != int(clock_s + seconds):
            second = int(clock_s + seconds)
            produce(broker, "live", 50, now_ms())
            consumer.commit(offsets=[TopicPartition("live", 0, 100 + 30 * second)], asynchronous=False)
        clock_s += seconds

    with Client(settings_of({"bootstrap.servers": broker.address})) as client:
        limit = ReadLimit(None, clock=lambda: clock_s, sleep=sleep)
        wanted = TopicRange("live", for_s=4, group="live-readers")
        reader = TopicReader(client, wanted, new_statistics(), COMPRESSIONS, limit, clock=lambda: clock_s, sleep=sleep)
        reader.read()
    consumer.close()
    assert reader.statistics.records in (150, 200)
    assert reader.pace.consumed == [30, 30, 30]
    assert all(lag > 0 for lag in reader.pace.lag)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("batch_records", [1, 7, 50, 1000])
def test_retention_that_is_faster_than_the_capture(broker: RunningBroker, level: Level, batch_records: int) -> None:
    """Wherever batches end: one that reaches over the start of the log has records that are deleted."""
    topic = f"cut-{level}-{batch_records}"
    create(broker, topic, 1)
    produce(broker, topic, 1000, now_ms(), batch_records=batch_records)
    admin = AdminClient({"bootstrap.servers": broker.address})

    class Overtaken(TopicReader):
        """Records are deleted between the offsets' listing and the first fetch."""

        def _starts(self, partitions, first):  # type: ignore[no-untyped-def]
            found = super()._starts(partitions, first)
            for future in admin.delete_records([TopicPartition(topic, 0, 400)]).values():
                future.result(60)
            return found

    with Client(settings_of({"bootstrap.servers": broker.address})) as client:
        reader = Overtaken(client, TopicRange(topic), new_statistics(level), COMPRESSIONS, ReadLimit(None))
        reader.read()
        again = TopicReader(client, TopicRange(topic), new_statistics(level), COMPRESSIONS, ReadLimit(None))
        again.read()
    assert (reader.statistics.lost_offsets, reader.statistics.records) == (400, 600)
    assert (again.statistics.lost_offsets, again.statistics.records) == (0, 600)
    assert sum(again.statistics.value_bytes.values()) == (600 if level else 0)


def test_what_cannot_be_captured(broker: RunningBroker, tmp_path: Path) -> None:
    create(broker, "empty", 1)
    on = ("--bootstrap-servers", broker.address, "--out", tmp_path / "out")
    refusals = {
        ("empty",): "topic empty has no record in the range; its log has 0 offsets",
        ("none",): "topic none does not exist there, or this user may not see it; highwater broker topics --list names "
        "those that do",
        (
            "empty",
            "--read-rate",
            "fast",
        ): "--read-rate: 'fast' is not bytes per second with their unit, for example 40MB/s or 512KiB/s",
        (
            "empty",
            "--from",
            "tomorrow",
        ): "--from: 'tomorrow' is neither a time like 2026-11-27T14:00 nor an age like 2h",
        ("empty", "--from", "1h", "--to", "2h"): "--from 1h is not before --to 2h",
        ("empty", "--offsets", "9:3"): "--offsets: '9:3' is not a range A:B with A below B, for example 1000:2000",
        ("empty", "--for", "10s", "--from", "1h"): "--for is of what is written from now on; leave --from, --to and "
        "--offsets out",
        ("empty", "other"): "name one topic as SOURCE; several sources and --topic are for log directories",
        (
            "empty",
            "--for",
            "10s",
            "--engine",
            "spark",
        ): "--for reads what is written now, which one process does; leave --engine spark out",
        ("empty", "--master", "local[2]"): "--master is for --engine spark",
        ("empty", "--engine", "spark", "--master", "nonsense"): master_fault("nonsense"),
        ("empty", "--conf", "a=b"): "--conf is for --engine spark",
        ("empty", "--name", "a b"): "--name: 'a b' is not a name of a workload; use letters, digits, '.', '_' and '-'",
    }
    for arguments, says in refusals.items():
        refused = call(*arguments, *on)
        assert (refused.exit_code, told(refused)) == (2, f"error: {says}")
        assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    refused = call("empty", *on)
    assert told(refused) == f"error: {tmp_path / 'out'} exists already; name a new directory with --out"
    assert list((tmp_path / "out").iterdir()) == []


def test_java_does_not_start_for_a_topic_without_records(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker, "hollow", 1)
    monkeypatch.setattr("highwater.studies.spark_session.spark_session", None)
    refused = call("hollow", "--bootstrap-servers", broker.address, "--out", tmp_path / "out", "--engine", "spark")
    assert told(refused) == "error: topic hollow has no record in the range; its log has 0 offsets"


def test_a_user_without_authority(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        create(broker, "secret", 1)
        produce(broker, "secret", 10, now_ms())
        broker.stop()
    properties = ["authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:admin"]
    with running_broker(tmp_path / "log", properties=properties) as broker:
        refused = call("secret", "--bootstrap-servers", broker.address, "--out", tmp_path / "out")
    assert (refused.exit_code, told(refused)) == (
        2,
        "error: secret may not be read by this user; a capture needs DESCRIBE and READ on the topic secret",
    )


def test_no_broker(tmp_path: Path) -> None:
    refused = call("orders", "--out", tmp_path / "out")
    assert told(refused) == (
        "error: orders is not on this disk; to capture a topic, name its cluster: --bootstrap-servers"
    )
    refused = call("orders", "--out", tmp_path / "out", "--for", "10s")
    assert told(refused) == "error: --for needs a running cluster; name it with --bootstrap-servers"


def test_json_of_a_comparison_and_its_exit_status(broker: RunningBroker, tmp_path: Path) -> None:
    create(broker, "one", 1)
    create(broker, "two", 1)
    produce(broker, "one", 400, now_ms())
    produce(broker, "two", 400, now_ms(), step_ms=5)
    for topic in ("one", "two"):
        assert call(topic, "--bootstrap-servers", broker.address, "--out", tmp_path / topic).exit_code == 0
    same = call("compare", tmp_path / "one", tmp_path / "one")
    assert (same.exit_code, "outside" in same.stdout) == (0, False)
    other = call("compare", tmp_path / "one", tmp_path / "two", "--json")
    assert other.exit_code == 1
    assert next(each["name"] for each in json.loads(other.stdout) if not each["within"]) == "records each second"
    refused = call("compare", tmp_path / "one", tmp_path)
    assert (refused.exit_code, told(refused)) == (
        2,
        f"error: {tmp_path} is not a trace: it has no manifest.json; highwater capture makes one",
    )
