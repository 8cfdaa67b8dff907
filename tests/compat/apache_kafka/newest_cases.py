"""The newest tools and clients of Apache Kafka, which have dropped what brokers before 2.1 needed (KIP-896)."""

from __future__ import annotations

import re
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

from confluent_kafka import Consumer, TopicPartition
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from tests.broker.running import RunningBroker, running_broker, start_broker
from tests.broker.telemetry.payloads import headers_of
from tests.compat.apache_kafka.case import CODECS, case, succeed
from tests.compat.apache_kafka.dump import assert_no_complaints
from tests.compat.apache_kafka.load_cases import Listener
from tests.compat.apache_kafka.tools import jars_4, started_tool
from tests.waiting import wait_until

TOOLS = "org.apache.kafka.tools"


def _succeed(broker: RunningBroker, tool: str, *arguments: str, stdin: str = "") -> str:
    return succeed(f"{TOOLS}.{tool}", "--bootstrap-server", broker.address, *arguments, stdin=stdin, jars=jars_4())


def _codecs_in(log_dir: Path, topic: str) -> set[str]:
    """By the attributes of the first batch of each partition: a tool may ignore the codec that it is given."""
    logs = [file.read_bytes() for file in log_dir.glob(f"{topic}-*/*.log")]
    return {CODECS[log[22] & 7] for log in logs if log}


@case
def newest_topics_produce_consume_groups(broker: RunningBroker) -> None:
    for codec in CODECS:
        topic = f"newest-{codec}"
        _succeed(broker, "TopicCommand", "--create", "--topic", topic, "--partitions", "2")
        lines = [f"{codec} line {number}" for number in range(300)]
        produce = ("ConsoleProducer", "--topic", topic, "--compression-codec", codec)
        _succeed(broker, *produce, stdin="\n".join(lines) + "\n")
        consume = ("consumer.ConsoleConsumer", "--topic", topic, "--group", "newest", "--from-beginning")
        read = _succeed(broker, *consume, "--max-messages", "300", "--timeout-ms", "20000")
        assert sorted(read.splitlines()) == sorted(lines), codec
        assert _codecs_in(broker.log_dir, topic) == {codec}
    described = _succeed(broker, "TopicCommand", "--describe", "--topic", "newest-zstd")
    assert "PartitionCount: 2" in described, described
    groups = _succeed(broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "newest")
    assert sum(int(line.split()[5]) for line in groups.splitlines() if line.startswith("newest")) == 0, groups
    offsets = _succeed(broker, "GetOffsetShell", "--topic", "newest-none")
    assert sum(int(line.rpartition(":")[2]) for line in offsets.split()) == 300, offsets
    assert "newest-none" in _succeed(broker, "LogDirsCommand", "--describe")
    endpoints = ("list-endpoints", "--include-fenced-brokers", "--bootstrap-server", broker.address)
    listed = succeed(f"{TOOLS}.ClusterTool", *endpoints, jars=jars_4())
    assert [line.split()[-2:] for line in listed.splitlines()[1:]] == [["unfenced", "broker"]], listed
    _succeed(broker, "TopicCommand", "--delete", "--topic", "newest-.*")
    # A running broker still takes the files of the deleted topics away, under the eyes of whoever lists them.
    assert broker.stop() == 0
    assert_no_complaints(broker.log_dir)


@case
def newest_producers_name_topics_by_id(broker: RunningBroker) -> None:
    """Records for a topic that is deleted and made again do not come into the new one."""
    producer = (f"{TOOLS}.VerifiableProducer", "--bootstrap-server", broker.address, "--topic", "ids")
    with started_tool(*producer, "--throughput", "50", jars=jars_4()) as writing:
        acknowledged = Listener(writing, "producer_send_success")
        acknowledged.wait_for_more(20)
        consume = ("consumer.ConsoleConsumer", "--topic", "ids", "--group", "g", "--from-beginning")
        _succeed(broker, *consume, "--max-messages", "10", "--timeout-ms", "20000")
        _succeed(broker, "TopicCommand", "--delete", "--topic", "ids")
        wait_until(
            lambda: "UNKNOWN_TOPIC_ID" in _asked(broker, "errors", "error", "Produce"), "a request has the old id"
        )
        # The producer goes on, in the topic that its request for metadata makes.
        acknowledged.wait_for_more(20)
    values = _succeed(broker, *consume, "--max-messages", "1", "--timeout-ms", "20000").split()
    (first,) = map(int, values)
    assert first > 20, "the offset of the deleted topic, or its records"
    assert set(_asked(broker, "requests", "version", "Produce")) == {"13"}


def _asked(broker: RunningBroker, metric: str, label: str, request: str) -> dict[str, int]:
    """How many requests of an API there were, by version or error."""
    page = re.search(r"metrics at (http://\S+)", broker.log_text())
    assert page is not None
    with urllib.request.urlopen(page[1], timeout=10) as answer:  # noqa: S310 - the URL is http on loopback
        text = answer.read().decode()
    wanted = rf'^kafka_network_requestmetrics_{metric}_total{{request="{request}",{label}="(\w+)"}} (\d+)$'
    return {value: int(count) for value, count in re.findall(wanted, text, re.MULTILINE)}


@case
def newest_topics_are_described_page_by_page(broker: RunningBroker) -> None:
    """The Java client asks DescribeTopicPartitions where it is served, and goes on at the cursor."""
    for name, partitions in (("first", 3), ("second", 4)):
        _succeed(broker, "TopicCommand", "--create", "--topic", name, "--partitions", str(partitions))
    described = _succeed(broker, "TopicCommand", "--describe", "--partition-size-limit-per-response", "2")
    assert re.findall(r"^Topic: (\w+)", described, re.MULTILINE) == ["first", "second"], described
    assert re.findall(r"\tPartition: (\d)", described) == [*"012", *"0123"], described
    assert _asked(broker, "requests", "version", "DescribeTopicPartitions") == {"0": 4}, "seven partitions by two"


@case
def newest_resources_with_settings_are_listed(broker: RunningBroker) -> None:
    assert _succeed(broker, "ClientMetricsCommand", "--list").split() == []


@case
def newest_producer_adds_no_partitions(broker: RunningBroker) -> None:
    """Version 2 of transactions: records and offsets add their partitions, and each end raises the epoch."""
    assert broker.stop() == 0
    properties = ("metrics.listener=HTTP://127.0.0.1:0", "group.initial.rebalance.delay.ms=0")
    with running_broker(broker.log_dir, properties=properties) as told:
        _succeed(told, "TopicCommand", "--create", "--topic", "input")
        _succeed(told, "ConsoleProducer", "--topic", "input", stdin="".join(f"{number}\n" for number in range(1000)))
        _succeed(told, "TopicCommand", "--create", "--topic", "output")
        succeed(
            f"{TOOLS}.TransactionalMessageCopier", "--broker-list", told.address, "--input-topic", "input",
            "--input-partition", "0", "--output-topic", "output", "--transactional-id", "copier", "--consumer-group",
            "g", "--transaction-size", "50", "--enable-random-aborts", jars=jars_4(),
        )  # fmt: skip
        consume = ("consumer.ConsoleConsumer", "--topic", "output", "--from-beginning", "--timeout-ms", "3000")
        copied = _succeed(told, *consume, "--isolation-level", "read_committed").splitlines()
        assert copied == [f"{number}" for number in range(1000)]
        described = _succeed(told, "TransactionsCommand", "describe", "--transactional-id", "copier").splitlines()
        columns = dict(zip(described[0].split(), described[1].split(), strict=False))
        assert int(columns["ProducerEpoch"]) >= 20, described
        requests = _requests(told)
        assert not [each for each in requests if each[0] in ("AddPartitionsToTxn", "AddOffsetsToTxn")], requests
        assert {("EndTxn", 5), ("TxnOffsetCommit", 6)} <= requests, requests
        assert told.stop() == 0
    assert_no_complaints(broker.log_dir)


def _requests(broker: RunningBroker) -> set[tuple[str, int]]:
    """The APIs and versions that the broker was asked for."""
    url = re.findall(r"metrics at (http://\S+)", broker.log_text())[-1]
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - the URL is http on loopback
        page = answer.read().decode()
    line = r'^kafka_network_requestmetrics_requests_total\{request="(\w+)",version="(\d+)"\} (\S+)'
    return {(api, int(version)) for api, version, count in re.findall(line, page, re.MULTILINE) if float(count)}


@case
def newest_transactional_message_copier(broker: RunningBroker) -> None:
    lines = [f"{number}" for number in range(1000)]
    _succeed(broker, "TopicCommand", "--create", "--topic", "input")
    _succeed(broker, "ConsoleProducer", "--topic", "input", stdin="\n".join(lines) + "\n")
    _succeed(broker, "TopicCommand", "--create", "--topic", "output")
    succeed(
        f"{TOOLS}.TransactionalMessageCopier", "--broker-list", broker.address, "--input-topic", "input",
        "--input-partition", "0", "--output-topic", "output", "--transactional-id", "copier", "--consumer-group", "g",
        "--transaction-size", "50", "--enable-random-aborts", "--use-group-metadata", jars=jars_4(),
    )  # fmt: skip
    consume = ("consumer.ConsoleConsumer", "--topic", "output", "--from-beginning", "--timeout-ms", "3000")
    isolation = ("--isolation-level", "read_committed")
    assert _succeed(broker, *consume, *isolation).splitlines() == lines
    assert "CompleteCommit" in _succeed(broker, "TransactionsCommand", "describe", "--transactional-id", "copier")
    for pattern, is_listed in (("cop[a-z]{3}", True), ("cop", False)):
        listed = _succeed(broker, "TransactionsCommand", "list", "--transactional-id-pattern", pattern)
        assert ("copier" in listed) is is_listed, listed
    assert broker.stop() == 0
    assert_no_complaints(broker.log_dir)


@case
def newest_client_metrics(broker: RunningBroker) -> None:
    """Subscriptions by the tools of Kafka, and pushes of the Java clients, which know the same metrics by name."""
    interval, metrics = "1000", "org.apache.kafka."
    _succeed(broker, "ClientMetricsCommand", "--alter", "--name", "all", "--metrics", metrics, "--interval", interval)
    match = "client_software_name=apache-kafka-java,client_id=.*"
    _succeed(broker, "ClientMetricsCommand", "--alter", "--name", "java", "--match", match, "--interval", "5000")
    assert _succeed(broker, "ClientMetricsCommand", "--list").split() == ["all", "java"]
    described = _succeed(broker, "ClientMetricsCommand", "--describe", "--name", "all")
    assert {f"interval.ms={interval}", f"metrics={metrics}"} <= set(described.split()), described
    of_type = ("ConfigCommand", "--entity-type", "client-metrics")
    described = _succeed(broker, *of_type, "--describe")
    assert "client_software_name=apache-kafka-java" in described, described
    _succeed(broker, *of_type, "--alter", "--entity-name", "java", "--delete-config", "match,interval.ms")
    assert _succeed(broker, "ClientMetricsCommand", "--list").split() == ["all"]
    producer = (f"{TOOLS}.VerifiableProducer", "--bootstrap-server", broker.address, "--topic", "pushed")
    consumer = (f"{TOOLS}.VerifiableConsumer", "--bootstrap-server", broker.address, "--topic", "pushed")
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "none", "enable.metrics.push": False})
    reader.assign([TopicPartition("_highwater_client_metrics", 0, 0)])
    wanted = {"producer": "producer.request.latency.avg", "consumer": "consumer.fetch.manager.fetch.latency.avg"}
    named: dict[str, set[str]] = {kind: set() for kind in wanted}

    def all_pushed() -> bool:
        for message in reader.consume(100, timeout=0.5):
            if message.error() is None:
                headers = headers_of(message)
                assert headers["client_software_name"] == "apache-kafka-java", headers
                found = MetricsData.FromString(message.value())
                kind = "producer" if "producer" in headers["client_id"] else "consumer"
                named[kind] |= {
                    metric.name for resource in found.resource_metrics for scope in resource.scope_metrics
                    for metric in scope.metrics
                }  # fmt: skip
        return all(f"org.apache.kafka.{name}" in named[kind] for kind, name in wanted.items())

    with (
        started_tool(*producer, "--throughput", "50", jars=jars_4()),
        started_tool(*consumer, "--group-id", "g", jars=jars_4()),
    ):
        wait_until(all_pushed, f"pushes of both; there are {named}")
    reader.close()
    _succeed(broker, "ClientMetricsCommand", "--delete", "--name", "all")
    assert _succeed(broker, "ClientMetricsCommand", "--list").split() == []
    assert broker.stop() == 0
    assert_no_complaints(broker.log_dir)


@case
def newest_group_configs(broker: RunningBroker) -> None:
    """Settings of groups by Kafka's tools: what was set is described and listed, and gone when it is deleted."""
    of_groups = ("ConfigCommand", "--entity-type", "groups")
    heartbeat, session = "consumer.heartbeat.interval.ms=6000", "consumer.session.timeout.ms=50000"
    _succeed(broker, *of_groups, "--alter", "--entity-name", "a group", "--add-config", f"{heartbeat},{session}")
    for named in ((), ("--entity-name", "a group")):
        described = _succeed(broker, *of_groups, "--describe", *named)
        assert "a group" in described, described
        assert {heartbeat, session} <= set(described.split()), described
    every = _succeed(broker, *of_groups, "--describe", "--all", "--entity-name", "a group")
    assert "consumer.assignment.interval.ms=1000" in every.split(), every
    of_a_group = (*of_groups, "--alter", "--entity-name", "a group")
    _succeed(broker, *of_a_group, "--delete-config", "consumer.heartbeat.interval.ms")
    described = _succeed(broker, *of_groups, "--describe", "--entity-name", "a group")
    assert heartbeat not in described.split(), described
    _succeed(broker, *of_a_group, "--delete-config", "consumer.session.timeout.ms")
    assert "a group" not in _succeed(broker, *of_groups, "--describe")


@case
def newest_consumer_groups(broker: RunningBroker) -> None:
    """Groups of KIP-848: two members share a topic over a kill of the broker, and Kafka can read their records."""
    _succeed(broker, "TopicCommand", "--create", "--topic", "shared", "--partitions", "4")
    group = ("--group-id", "sharing", "--group-protocol", "consumer", "--reset-policy", "earliest", "--verbose")
    member = (f"{TOOLS}.VerifiableConsumer", "--bootstrap-server", broker.address, "--topic", "shared", *group)
    producer = (f"{TOOLS}.VerifiableProducer", "--bootstrap-server", broker.address, "--topic", "shared")
    describe = ("consumer.group.ConsumerGroupCommand", "--describe", "--group", "sharing")
    with (
        started_tool(*member, jars=jars_4()) as first,
        started_tool(*member, jars=jars_4()) as second,
        started_tool(*producer, "--throughput", "200", "--acks", "-1", jars=jars_4()) as writing,
    ):
        reading = [Listener(tool, "record_data") for tool in (first, second)]
        acknowledged = Listener(writing, "producer_send_success")
        for listener in reading:
            listener.wait_for_more(50)
        members = re.findall(r"^sharing .*", _succeed(broker, *describe, "--members", "--verbose"), re.MULTILINE)
        assert ["shared" in member for member in members] == [True, True], members
        state = _succeed(broker, *describe, "--state")
        assert re.search(r"^sharing .* uniform +Stable +2$", state, re.MULTILINE), state
        listed = _succeed(broker, describe[0], "--list", "--type", "consumer")
        assert re.search(r"^sharing +Consumer", listed, re.MULTILINE), listed
        broker.kill()
        again = start_broker(broker.log_dir, port=broker.port)
        try:
            for listener in reading:
                listener.wait_for_more(50)
            writing.terminate()
            writing.wait(60)
            acknowledged.thread.join(60)
            first_read, second_read = (listener.values for listener in reading)
            wait_until(
                lambda: set(acknowledged.values) <= {*first_read, *second_read}, "the group sees what is acknowledged"
            )
            for tool in (first, second):
                tool.terminate()
                tool.wait(60)
            state = _succeed(again, *describe, "--state")
            assert re.search(r"^sharing .* Empty +0$", state, re.MULTILINE), state
            assert "successful" in _succeed(again, describe[0], "--delete", "--group", "sharing")
            assert again.stop() == 0, again.log_text()[-2000:]
        finally:
            again.kill()
    assert_no_complaints(broker.log_dir)
    logs = [str(file) for file in sorted(broker.log_dir.glob("__consumer_offsets-*/*.log")) if file.stat().st_size]
    dumped = succeed("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(logs))
    for kind in (3, 5, 6, 7, 8):
        assert f'"type":"{kind}"' in dumped, (kind, dumped[:3000])
    assert "nvalid" not in dumped, dumped


@case
def newest_groups_change_their_protocol(broker: RunningBroker) -> None:
    """The members of a group are started anew one by one with the other protocol, and back: nothing is lost."""
    _succeed(broker, "TopicCommand", "--create", "--topic", "rolling", "--partitions", "4")
    topic = ("--bootstrap-server", broker.address, "--topic", "rolling")
    group = ("--group-id", "rolling", "--reset-policy", "earliest", "--verbose", "--group-protocol")
    groups = "consumer.group.ConsumerGroupCommand"
    read: list[list[str]] = []
    with ExitStack() as tools:

        def member(protocol: str) -> tuple[Popen[str], Listener]:
            command = (f"{TOOLS}.VerifiableConsumer", *topic, *group, protocol)
            tool = tools.enter_context(started_tool(*command, jars=jars_4()))
            listener = Listener(tool, "record_data")
            read.append(listener.values)
            return tool, listener

        producer = (f"{TOOLS}.VerifiableProducer", *topic, "--throughput", "200", "--acks", "-1")
        writing = tools.enter_context(started_tool(*producer, jars=jars_4()))
        acknowledged = Listener(writing, "producer_send_success")
        members = [member("classic") for _ in range(2)]
        kinds = []
        for protocol in ("consumer", "classic"):
            for number in range(2):
                for _, listener in members:
                    listener.wait_for_more(50)
                members[number][0].terminate()
                members[number][0].wait(60)
                members[number] = member(protocol)
                for _, listener in members:
                    listener.wait_for_more(50)
                listed = _succeed(broker, groups, "--list", "--type")
                kinds += re.findall(r"^rolling +(\w+)", listed, re.MULTILINE)
        assert kinds == ["Consumer"] * 3 + ["Classic"], kinds
        writing.terminate()
        writing.wait(60)
        acknowledged.thread.join(60)
        wait_until(
            lambda: set(acknowledged.values) <= {value for values in read for value in values},
            "the group sees what is acknowledged",
        )
        for tool, _ in members:
            tool.terminate()
            tool.wait(60)
    described = _succeed(broker, groups, "--describe", "--group", "rolling")
    assert sum(int(line.split()[5]) for line in described.splitlines() if line.startswith("rolling")) == 0, described
    assert broker.stop() == 0
    assert_no_complaints(broker.log_dir)
