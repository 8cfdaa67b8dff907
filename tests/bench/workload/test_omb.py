"""OpenMessaging Benchmark's files become workloads that load, and nothing of them gets lost without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import highwater.bench.cli
from highwater.bench.workload.model import Workload
from highwater.bench.workload.omb import TASKS_MAX, as_text, import_omb
from highwater.bench.workload.specification import load_specification
from highwater.bench.workload.system import ClusterUnderTest, HighwaterUnderTest
from highwater.bench.workload.values import AfterBacklog
from highwater.common.errors import UsageError

WORKLOAD = """
name: two topics, read twice
topics: 2
partitionsPerTopic: 8
messageSize: 512
useRandomizedPayloads: true
randomBytesRatio: 0.25
randomizedPayloadPoolSize: 1000
subscriptionsPerTopic: 2
consumerPerSubscription: 1
producersPerTopic: 2
producerRate: 20000
consumerBacklogSizeGB: 0
testDurationMinutes: 2
"""
DRIVER = """
name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 3
topicConfig: |
  min.insync.replicas=2
commonConfig: |
  bootstrap.servers=one:9092,two:9092
  request.timeout.ms=30000
producerConfig: |
  acks=all
  linger.ms=1
  batch.size=131072
  max.request.size=4194304
  key.serializer=java.lang.String
consumerConfig: |
  auto.offset.reset=earliest
  enable.auto.commit=false
  max.partition.fetch.bytes=10485760
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    (tmp_path / "driver.yaml").write_text(DRIVER)
    return tmp_path / "workload.yaml", tmp_path / "driver.yaml"


def loaded(workload_file: Path, driver_file: Path | None = None, *, own_broker: bool = False) -> Workload:
    translation = import_omb(workload_file, driver_file, own_broker=own_broker)
    target = workload_file.with_name("imported.yaml")
    target.write_text(as_text(translation, workload_file))
    return load_specification(target).workload


def test_a_workload_says_the_same_in_our_words(files: tuple[Path, Path]) -> None:
    workload = loaded(files[0])
    assert (workload.topics.count, workload.topics.partitions) == (2, 8)
    assert workload.producers.count == 4, "OMB counts producers of each topic"
    assert (workload.consumers.groups, workload.consumers.per_group) == (2, 2)
    assert workload.records.compress_ratio == 0.25
    assert workload.load.steps[0][0] == 20_000
    assert (workload.phases.warmup_max_s, workload.phases.measure_s) == (60, 120)


def test_a_driver_names_the_cluster_and_the_clients(files: tuple[Path, Path]) -> None:
    workload = loaded(*files)
    assert workload.system == ClusterUnderTest(bootstrap_servers="one:9092,two:9092")
    assert workload.topics.replication == 3
    assert workload.topics.config == {"min.insync.replicas": "2"}
    assert workload.producers.client == {
        "request.timeout.ms": "30000",
        "acks": "all",
        "linger.ms": "1",
        "batch.size": "128KiB",
        "message.max.bytes": "4194304",
    }
    assert workload.consumers.client == {"max.partition.fetch.bytes": "10485760"}


def test_how_clients_connect_is_left_out_and_no_secret_told(files: tuple[Path, Path]) -> None:
    secured = (
        "  security.protocol=SASL_SSL\n"
        "  sasl.jaas.config=PlainLoginModule required \\\n    username=u \\\n    password=geheim;\n"
        "  schema.registry.basic.auth.user.info=u:geheim\n"
    )
    files[1].write_text(DRIVER.replace("  request.timeout", f"{secured}  request.timeout"))
    text = as_text(import_omb(*files), files[0])
    assert "driver.yaml: security.protocol, sasl.jaas.config: left out" in text
    assert "geheim" not in text
    assert "sasl" not in str(loaded(*files).as_document())


def test_with_a_broker_of_our_own_there_are_as_many_as_copies(files: tuple[Path, Path]) -> None:
    workload = loaded(*files, own_broker=True)
    assert workload.system == HighwaterUnderTest(nodes=3)


def test_what_librdkafka_does_not_have_is_named(files: tuple[Path, Path]) -> None:
    notes = import_omb(*files).notes
    assert any("producerConfig of driver.yaml: key.serializer is left out" in note for note in notes)
    assert all(note in as_text(import_omb(*files), files[0]) for note in notes)


def changed(files: tuple[Path, Path], before: str, after: str) -> Path:
    text = files[0].read_text()
    assert before in text
    files[0].write_text(text.replace(before, after))
    return files[0]


def test_a_search_for_the_highest_rate_becomes_a_closed_loop(files: tuple[Path, Path]) -> None:
    workload = loaded(changed(files, "producerRate: 20000", "producerRate: 0"))
    assert workload.load.model == "closed"


def test_a_backlog_holds_the_consumers_back(files: tuple[Path, Path]) -> None:
    workload = loaded(changed(files, "consumerBacklogSizeGB: 0", "consumerBacklogSizeGB: 3"))
    assert isinstance(workload.consumers.start, AfterBacklog)
    assert workload.consumers.start.backlog_bytes == 3 << 30


def test_more_clients_than_tasks_are_said_to_be_fewer(files: tuple[Path, Path]) -> None:
    file = changed(files, "topics: 2", "topics: 500")
    assert loaded(file).producers.count == TASKS_MAX
    assert any("OMB creates 1000 producers" in note for note in import_omb(file).notes)


def test_keys_are_drawn_as_theirs_are(files: tuple[Path, Path]) -> None:
    file = changed(files, "messageSize: 512", "messageSize: 512\nkeyDistributor: KEY_ROUND_ROBIN")
    assert yaml.safe_load(as_text(import_omb(file), file))["records"]["keys"] == {"round_robin": 10_000}
    assert loaded(file)


def test_a_payload_file_is_found_from_the_folder_that_omb_is_started_in(files: tuple[Path, Path]) -> None:
    file = changed(files, "useRandomizedPayloads: true", "payloadFile: payload/payload.data")
    assert any("payload/payload.data was not found" in note for note in import_omb(file).notes)
    (file.parent / "payload").mkdir()
    (file.parent / "payload" / "payload.data").write_bytes(b"x" * 512)
    assert loaded(file).records.payload_file == str(file.parent / "payload" / "payload.data")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("producerRate", "producerRates", 'did you mean "producerRate"?'),
        ("messageSize: 512", "messageSize: 10", "messageSize: 10 bytes are too few for the stamp"),
        ("topics: 2", "topics: many", "topics: 'many' is not a number"),
        ("messageSize: 512", "messageSize: 512\nkeyDistributor: ZIPF", "keyDistributor: 'ZIPF' is not one of"),
    ],
)
def test_a_mistake_is_one_line(files: tuple[Path, Path], before: str, after: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        import_omb(changed(files, before, after))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_without_a_name_is_told_by_its_number(files: tuple[Path, Path]) -> None:
    files[1].write_text(DRIVER.replace("  linger.ms=1", "  linger.ms=1\n  MIIEvQIBADANBg"))
    with pytest.raises(UsageError, match=r"producerConfig: line 3 of its value is not of the form name=value$"):
        import_omb(*files)


def test_another_broker_s_driver_is_refused(files: tuple[Path, Path]) -> None:
    files[1].write_text(DRIVER.replace("kafka.KafkaBenchmarkDriver", "pulsar.PulsarBenchmarkDriver"))
    with pytest.raises(UsageError, match="is not the Kafka driver"):
        import_omb(*files)


def test_the_verb_writes_a_file_once(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "ours.yaml"
    arguments = ["import", "omb", str(files[0]), "--driver", str(files[1]), "--out", str(out)]
    assert CliRunner().invoke(highwater.bench.cli.app, arguments).exit_code == 0
    before = out.read_text()
    again = CliRunner().invoke(highwater.bench.cli.app, arguments)
    assert again.exit_code == 2
    assert "exists already" in again.output
    assert out.read_text() == before
