"""Kafka's tools, one by one: AssertionError when one does not do its work on our broker."""

from __future__ import annotations

import json
import re

from highwater.broker.commands.log_files import Options, inspect
from tests.broker.running import RunningBroker
from tests.compat.apache_kafka.case import CODECS, case, consume, create_topic, produce, succeed
from tests.compat.apache_kafka.dump import assert_no_complaints
from tests.compat.apache_kafka.tools import kafka_tool
from tests.waiting import wait_until


@case
def api_versions(broker: RunningBroker) -> None:
    output = succeed("kafka.admin.BrokerApiVersionsCommand", "--bootstrap-server", broker.address)
    assert "Produce(0):" in output, output
    assert "Fetch(1):" in output, output


@case
def topics_create_list_describe_alter_delete(broker: RunningBroker) -> None:
    create_topic(broker, "orders", 3)
    command = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.address)
    assert succeed(*command, "--list").split() == ["orders"]
    described = succeed(*command, "--describe", "--topic", "orders")
    assert "PartitionCount: 3" in described, described
    assert described.count("Leader: 0") == 3, described
    succeed(*command, "--alter", "--topic", "orders", "--partitions", "5")
    assert "PartitionCount: 5" in succeed(*command, "--describe", "--topic", "orders")
    succeed(*command, "--delete", "--topic", "orders")
    assert succeed(*command, "--list").split() == []


@case
def console_producer_to_console_consumer_in_every_codec(broker: RunningBroker) -> None:
    for codec in CODECS:
        topic = f"console-{codec}"
        create_topic(broker, topic)
        lines = [f"{codec} line {number} " + "x" * (number % 50) for number in range(500)]
        produce(broker, topic, lines, f"compression.type={codec}", "acks=all")
        assert consume(broker, topic, 500) == lines, f"{codec}: not what was produced"
    assert_no_complaints(broker.log_dir)


@case
def consume_from_the_middle(broker: RunningBroker) -> None:
    create_topic(broker, "middle")
    lines = [f"line {number}" for number in range(300)]
    produce(broker, "middle", lines, "batch.size=65536")
    assert consume(broker, "middle", 100, offset="200") == lines[200:]


@case
def get_offsets(broker: RunningBroker) -> None:
    create_topic(broker, "offsets")
    produce(broker, "offsets", ["a", "b", "c"])
    tool = ("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", broker.address, "--topic", "offsets")
    assert succeed(*tool, "--time", "earliest").strip() == "offsets:0:0"
    assert succeed(*tool, "--time", "latest").strip() == "offsets:0:3"
    # Records that share the greatest timestamp are told apart by nothing, so any of their offsets is right.
    topic, partition, offset = succeed(*tool, "--time", "max-timestamp").strip().split(":")
    assert (topic, partition) == ("offsets", "0")
    assert 0 <= int(offset) <= 2


@case
def describe_configs(broker: RunningBroker) -> None:
    create_topic(broker, "configured")
    output = succeed(
        "kafka.admin.ConfigCommand", "--bootstrap-server", broker.address,
        "--describe", "--all", "--entity-type", "topics", "--entity-name", "configured",
    )  # fmt: skip
    assert "segment.bytes=1073741824" in output, output


@case
def alter_configs(broker: RunningBroker) -> None:
    create_topic(broker, "altered")
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.address)
    topic = ("--entity-type", "topics", "--entity-name", "altered")
    succeed(*tool, *topic, "--alter", "--add-config", "flush.messages=3,cleanup.policy=[compact,delete]")
    assert "flush.messages=3" in succeed(*tool, *topic, "--describe")
    succeed(*tool, *topic, "--alter", "--delete-config", "flush.messages")
    output = succeed(*tool, *topic, "--describe")
    assert "flush.messages" not in output, output
    assert "cleanup.policy=compact,delete" in output, output
    for entity in (("--entity-default",), ("--entity-name", "0")):
        brokers = ("--entity-type", "brokers", *entity)
        succeed(*tool, *brokers, "--alter", "--add-config", "log.roll.ms=70000000")
        assert "log.roll.ms=70000000" in succeed(*tool, *brokers, "--describe")
        succeed(*tool, *brokers, "--alter", "--delete-config", "log.roll.ms")
        assert "log.roll.ms=70000000" not in succeed(*tool, *brokers, "--describe")


@case
def client_quotas(broker: RunningBroker) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.address)
    limits = "producer_byte_rate=1024,consumer_byte_rate=2048"
    succeed(*tool, "--alter", "--entity-type", "clients", "--entity-name", "a b", "--add-config", limits)
    succeed(*tool, "--alter", "--entity-type", "clients", "--entity-default", "--add-config", "producer_byte_rate=7")
    output = succeed(*tool, "--describe", "--entity-type", "clients")
    assert "client-id 'a b' are consumer_byte_rate=2048.0, producer_byte_rate=1024.0" in output, output
    assert "the default client-id are producer_byte_rate=7.0" in output, output
    succeed(*tool, "--alter", "--entity-type", "clients", "--entity-default", "--delete-config", "producer_byte_rate")
    assert "default" not in succeed(*tool, "--describe", "--entity-type", "clients")


@case
def quotas_of_addresses(broker: RunningBroker) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.address)
    for whose, rate in (("--entity-name", "192.0.2.1"), 20), (("--entity-default",), 100):
        limit = f"connection_creation_rate={rate}"
        succeed(*tool, "--alter", "--entity-type", "ips", *whose, "--add-config", limit)
    output = succeed(*tool, "--describe", "--entity-type", "ips")
    assert "ip '192.0.2.1' are connection_creation_rate=20.0" in output, output
    assert "the default ip are connection_creation_rate=100.0" in output, output
    succeed(*tool, "--alter", "--entity-type", "ips", "--entity-default", "--delete-config", "connection_creation_rate")
    assert "default" not in succeed(*tool, "--describe", "--entity-type", "ips")


@case
def changes_of_topics_have_a_rate(broker: RunningBroker) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.address, "--entity-type", "users")
    succeed(*tool, "--alter", "--entity-default", "--add-config", "controller_mutation_rate=2,request_percentage=99.5")
    told = "the default user-principal are "
    assert f"{told}controller_mutation_rate=2.0, request_percentage=99.5" in succeed(*tool, "--describe")
    create_topic(broker, "rated", 42)  # 22 were saved: the rest is ten seconds' worth
    create = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.address, "--create", "--topic")
    # It does not try again by itself (retryOnQuotaViolation is false).
    refused = kafka_tool(*create, "rated-later")
    assert refused.returncode == 1, refused.stdout
    assert "The throttling quota has been exceeded." in refused.stdout + refused.stderr
    wait_until(lambda: kafka_tool(*create, "rated-later").returncode == 0, "the rate allows another topic")
    succeed(*tool, "--alter", "--entity-default", "--delete-config", "controller_mutation_rate,request_percentage")
    assert told not in succeed(*tool, "--describe")


@case
def elect_leaders(broker: RunningBroker) -> None:
    create_topic(broker, "elected", 2)
    output = succeed(
        "org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", broker.address,
        "--election-type", "preferred", "--topic", "elected", "--partition", "1",
    )  # fmt: skip
    assert "Valid replica already elected for partitions elected-1" in output, output


@case
def many_partitions_through_fetch_sessions(broker: RunningBroker) -> None:
    """The Java consumer follows a hundred partitions by an incremental session, and misses nothing in any of them."""
    create_topic(broker, "many", 100)
    lines = [f"{number}" for number in range(5000)]
    produce(broker, "many", lines, "batch.size=200", "partitioner.ignore.keys=true", "partitioner.class="
             "org.apache.kafka.clients.producer.RoundRobinPartitioner")  # fmt: skip
    output = succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.address,
        "--topic", "many", "--from-beginning", "--max-messages", "5000", "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(output.split()) == sorted(lines)


@case
def describe_log_dirs(broker: RunningBroker) -> None:
    create_topic(broker, "measured", 2)
    produce(broker, "measured", ["x" * 1000] * 10)
    output = succeed("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.address, "--describe")
    answer = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    partitions = answer["brokers"][0]["logDirs"][0]["partitions"]
    assert {p["partition"] for p in partitions} == {"measured-0", "measured-1"}, answer
    assert sum(p["size"] for p in partitions) > 10_000, answer


@case
def delete_records(broker: RunningBroker) -> None:
    create_topic(broker, "shortened")
    produce(broker, "shortened", ["a", "b", "c"])
    path = broker.log_dir.with_name("delete-records.json")
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": "shortened", "partition": 0, "offset": 2}]}))
    output = succeed(
        "org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", broker.address,
        "--offset-json-file", str(path),
    )  # fmt: skip
    assert "low_watermark: 2" in output, output
    assert consume(broker, "shortened", 1) == ["c"]


@case
def compacted_files_are_kafkas(broker: RunningBroker) -> None:
    succeed(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.address, "--create", "--topic", "compacted",
        "--config", "cleanup.policy=compact", "--config", "segment.bytes=20000",
        "--config", "min.cleanable.dirty.ratio=0", "--config", "delete.retention.ms=0",
    )  # fmt: skip
    command = (
        "kafka.tools.ConsoleProducer", "--bootstrap-server", broker.address, "--topic", "compacted",
        "--property", "parse.key=true", "--property", "key.separator=:", "--property", "null.marker=NULL",
    )  # fmt: skip
    for codec in CODECS:
        lines = [f"{i % 20}:{'NULL' if i % 60 == 7 else f'value {i} of {codec}'}" for i in range(2000)]
        succeed(*command, "--producer-property", f"compression.type={codec}", "--producer-property", "batch.size=2000",
                 stdin="\n".join(lines) + "\n")  # fmt: skip
    # Passes may come before all is written, and sizes are wrong while a pass puts its files in place.
    wait_until(lambda: _compacted_up_to(broker) == _active_segment_offset(broker), "the topic is compacted")
    assert broker.stop() == 0, broker.log_text()[-2000:]
    size_bytes = sum(path.stat().st_size for path in (broker.log_dir / "compacted-0").glob("*.log"))
    assert size_bytes < 60_000, f"{size_bytes} bytes remain"
    assert_no_complaints(broker.log_dir)


def _compacted_up_to(broker: RunningBroker) -> int:
    """The offset that the newest pass of the cleaner reports; 0 before the first."""
    return max((int(offset) for offset in re.findall(r"compacted up to offset (\d+)", broker.log_text())), default=0)


def _active_segment_offset(broker: RunningBroker) -> int:
    return max(int(path.stem) for path in (broker.log_dir / "compacted-0").glob("*.log"))


@case
def console_consumers_share_a_group(broker: RunningBroker) -> None:
    """One after the other: each goes on where the one before stopped."""
    create_topic(broker, "grouped", 3)
    produce(broker, "grouped", [f"{number}" for number in range(300)])
    seen: list[str] = []
    for _ in range(3):
        seen += succeed(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.address,
            "--topic", "grouped", "--group", "readers", "--from-beginning", "--max-messages", "100",
            "--timeout-ms", "20000",
        ).splitlines()  # fmt: skip
    assert sorted(seen, key=int) == [f"{number}" for number in range(300)], len(seen)


def _consume_as(broker: RunningBroker, group: str, topic: str, count: int) -> None:
    succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.address, "--topic", topic,
        "--group", group, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000",
    )  # fmt: skip


@case
def consumer_groups_list_describe_reset_delete(broker: RunningBroker) -> None:
    create_topic(broker, "administered", 1)
    produce(broker, "administered", ["x"] * 50)
    _consume_as(broker, "readers", "administered", 50)
    command = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", broker.address)

    def described() -> list[str]:
        output = succeed(*command, "--describe", "--group", "readers")
        return next(line.split() for line in output.splitlines() if line.startswith("readers"))

    assert succeed(*command, "--list").split() == ["readers"]
    states = succeed(*command, "--list", "--state", "Empty", "--type", "classic")
    assert "readers" in states, states
    assert described()[:6] == ["readers", "administered", "0", "50", "50", "0"]
    assert "Empty" in succeed(*command, "--describe", "--group", "readers", "--state")
    succeed(*command, "--describe", "--group", "readers", "--members", "--verbose")
    reset = ("--reset-offsets", "--group", "readers", "--topic", "administered", "--execute")
    succeed(*command, *reset, "--to-offset", "7")
    assert described()[3:6] == ["7", "50", "43"]
    succeed(*command, *reset, "--shift-by", "3")
    assert described()[3:6] == ["10", "50", "40"]
    succeed(*command, *reset, "--to-latest")
    assert described()[3:6] == ["50", "50", "0"]
    succeed(*command, *reset, "--by-duration", "PT1H")
    assert described()[3:6] == ["0", "50", "50"]
    succeed(*command, *reset, "--to-datetime", "2100-01-01T00:00:00.000")
    assert described()[3:6] == ["50", "50", "0"]
    succeed(*command, *reset, "--to-current")
    assert described()[3:6] == ["50", "50", "0"]
    plan = broker.log_dir.with_name("offsets.csv")
    plan.write_text("administered,0,33\n")
    succeed(*command, "--reset-offsets", "--group", "readers", "--from-file", str(plan), "--execute")
    assert described()[3:6] == ["33", "50", "17"]
    exported = succeed(*command, "--reset-offsets", "--group", "readers", "--all-topics", "--to-current", "--export",
                       "--dry-run")  # fmt: skip
    assert "administered,0,33" in exported.replace('"', ""), exported
    succeed(*command, "--delete-offsets", "--group", "readers", "--topic", "administered")
    succeed(*command, *reset, "--to-earliest")
    assert described()[3:6] == ["0", "50", "50"]
    succeed(*command, "--delete", "--group", "readers")
    assert succeed(*command, "--list").split() == []


@case
def offsets_topic_read_by_formatters_and_dump(broker: RunningBroker) -> None:
    """What the broker keeps of a group is read by Kafka's own tools."""
    create_topic(broker, "kept", 1)
    produce(broker, "kept", ["x"] * 20)
    _consume_as(broker, "keepers", "kept", 20)

    def formatted(formatter: str, partition: int) -> str:
        return succeed(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.address,
            "--topic", "__consumer_offsets", "--partition", str(partition), "--offset", "earliest",
            "--max-messages", "3", "--timeout-ms", "20000", "--formatter", formatter,
        )  # fmt: skip

    # Java's hash of "keepers" is -833096767.
    partition = 833096767 % 50
    offsets = formatted("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter", partition)
    assert "[keepers,kept,0]::OffsetAndMetadata(offset=20" in offsets, offsets
    groups = formatted("kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter", partition)
    assert "keepers::GroupMetadata(groupId=keepers, generation=1, protocolType=Some(consumer)" in groups, groups
    segment = broker.log_dir / f"__consumer_offsets-{partition}" / f"{0:020}.log"
    dumped = succeed("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    assert '"group":"keepers","topic":"kept","partition":0' in dumped.replace(" ", ""), dumped
    assert_no_complaints(broker.log_dir)


@case
def dump_after_kill(broker: RunningBroker) -> None:
    """What a broker leaves behind when killed is read by Kafka's tool after our recovery."""
    create_topic(broker, "killed", 2)
    produce(broker, "killed", [f"{number}" for number in range(2000)], "compression.type=lz4", "batch.size=500")
    broker.kill()
    log_directory = broker.log_dir
    again = RunningBroker(log_directory, "--port", "0")
    try:
        assert again.stop() == 0
    finally:
        again.kill()
    assert_no_complaints(log_directory)


@case
def dump_log_prints_the_batches_that_kafka_prints(broker: RunningBroker) -> None:
    create_topic(broker, "dumped")
    for codec in CODECS:
        produce(broker, "dumped", [f"{number}" for number in range(500)], f"compression.type={codec}", "batch.size=700")
    assert broker.stop() == 0
    path = broker.log_dir / "dumped-0" / f"{0:020d}.log"
    printed = succeed("kafka.tools.DumpLogSegments", "--files", str(path))
    kafka = [
        {name: fields[name] for name in _DUMPED_FIELDS}
        for line in printed.splitlines()
        if line.startswith("baseOffset: ")
        for fields in [dict(zip(*[iter(line.replace(":", "").split())] * 2, strict=False))]
    ]
    ours = [
        {name: str(row.fields[field]).lower() for name, field in _DUMPED_FIELDS.items()}
        for row in inspect(path, Options(verify=True))
        if row.kind == "batch"
    ]
    assert len(ours) > 20
    assert ours == [{name: text.lower() for name, text in batch.items()} for batch in kafka]


_DUMPED_FIELDS = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "count": "records",
    "baseSequence": "base_sequence",
    "lastSequence": "last_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "leader_epoch",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
    "position": "position",
    "CreateTime": "max_timestamp_ms",
    "size": "bytes",
    "compresscodec": "codec",
    "crc": "crc",
}
"""Names of Kafka's tool, and ours."""


@case
def broker_loggers(broker: RunningBroker) -> None:
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.address)
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "0")
    name = "highwater.broker.server.broker"
    assert f"{name}=INFO" in succeed(*tool, *loggers, "--describe")
    succeed(*tool, *loggers, "--alter", "--add-config", f"{name}=DEBUG")
    assert f"{name}=DEBUG" in succeed(*tool, *loggers, "--describe")
    succeed(*tool, *loggers, "--alter", "--delete-config", name)
    assert f"{name}=INFO" in succeed(*tool, *loggers, "--describe")
    refused = kafka_tool(*tool, *loggers, "--alter", "--add-config", f"{name}=LOUD")
    assert refused.returncode == 1, refused.stdout
    assert "it is not a supported log level" in refused.stdout + refused.stderr
