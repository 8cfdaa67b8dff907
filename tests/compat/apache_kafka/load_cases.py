"""Kafka's tools that put load on a broker and check what comes back, also while the broker is killed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from subprocess import Popen
from typing import Any

from tests.broker.running import RunningBroker, start_broker
from tests.compat.apache_kafka.case import case, create_topic, produce, succeed
from tests.compat.apache_kafka.dump import assert_no_complaints
from tests.compat.apache_kafka.tools import started_tool
from tests.waiting import wait_until


@case
def producer_performance(broker: RunningBroker) -> None:
    create_topic(broker, "performance", 4)
    output = succeed(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", "performance", "--num-records", "50000",
        "--record-size", "100", "--throughput", "-1", "--producer-props",
        f"bootstrap.servers={broker.address}", "acks=all",
    )  # fmt: skip
    assert "50000 records sent" in output, output
    offsets = succeed(
        "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", broker.address, "--topic", "performance"
    )
    assert sum(int(line.rpartition(":")[2]) for line in offsets.split()) == 50_000, offsets
    output = succeed(
        "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", broker.address,
        "--topic", "performance", "--messages", "50000", "--hide-header",
    )  # fmt: skip
    assert output.split(", ")[4] == "50000", output
    assert_no_complaints(broker.log_dir)


@case
def end_to_end_latency(broker: RunningBroker) -> None:
    create_topic(broker, "latency")
    output = succeed("org.apache.kafka.tools.EndToEndLatency", broker.address, "latency", "1000", "all", "100")
    assert "Percentiles: 50th" in output, output


@case
def verifiable_producer(broker: RunningBroker) -> None:
    create_topic(broker, "verified")
    output = succeed(
        "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", broker.address,
        "--topic", "verified", "--max-messages", "2000", "--acks", "-1",
    )  # fmt: skip
    acknowledged = [event for event in _events(output.splitlines()) if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in acknowledged] == list(range(2000))


@case
def verifiable_consumer(broker: RunningBroker) -> None:
    create_topic(broker, "verified", 2)
    produce(broker, "verified", ["x"] * 500)
    for strategy in ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"):
        output = succeed(
            "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", broker.address, "--topic", "verified",
            "--group-id", strategy, "--max-messages", "500", "--reset-policy", "earliest", "--enable-autocommit",
            "--assignment-strategy", f"org.apache.kafka.clients.consumer.{strategy}",
        )  # fmt: skip
        consumed = [event["count"] for event in _events(output.splitlines()) if event["name"] == "records_consumed"]
        assert sum(consumed) == 500, output[-800:]


@case
def verifiable_clients_across_kill_9(broker: RunningBroker) -> None:
    """The producer does not retry: a record is acknowledged or not. The group's consumer sees all that are."""
    create_topic(broker, "verified", 3)
    producer = ("--topic", "verified", "--throughput", "1000", "--acks", "-1")
    consumer = ("--topic", "verified", "--group-id", "verifiers", "--reset-policy", "earliest", "--verbose")
    tools = "org.apache.kafka.tools"
    with (
        started_tool(f"{tools}.VerifiableConsumer", "--bootstrap-server", broker.address, *consumer) as reading,
        started_tool(f"{tools}.VerifiableProducer", "--bootstrap-server", broker.address, *producer) as writing,
    ):
        consumed, acknowledged = Listener(reading, "record_data"), Listener(writing, "producer_send_success")
        server = broker
        for _ in range(3):
            acknowledged.wait_for_more(500)
            server.kill()
            server = start_broker(broker.log_dir, port=broker.port)
        try:
            acknowledged.wait_for_more(500)
            writing.terminate()
            writing.wait(60)
            acknowledged.thread.join(60)
            wait_until(lambda: set(acknowledged.values) <= set(consumed.values), "the group sees what is acknowledged")
            assert server.stop() == 0, server.log_text()[-2000:]
        finally:
            server.kill()
    assert_no_complaints(broker.log_dir)


class Listener:
    """Takes down the values of one kind of event as a tool tells them."""

    def __init__(self, tool: Popen[str], name: str) -> None:
        self.values: list[str] = []
        self._tool, self._name = tool, name
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        assert self._tool.stdout is not None
        for event in _events(self._tool.stdout):
            if event["name"] == self._name:
                self.values.append(event["value"])

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.values) + count
        wait_until(lambda: len(self.values) >= wanted, f"{count} more of {self._name}")


def _events(lines: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in lines if line.startswith("{"))


@case
def log_compaction_tester(broker: RunningBroker) -> None:
    """Writes keys over and over, has the topic compacted meanwhile, and compares what is left with what it wrote."""
    configs = "log.segment.bytes=200000,log.cleaner.min.cleanable.ratio=0.01"
    succeed(
        "kafka.admin.ConfigCommand", "--bootstrap-server", broker.address, "--alter", "--entity-type", "brokers",
        "--entity-default", "--add-config", configs,
    )  # fmt: skip
    output = succeed(
        "kafka.tools.LogCompactionTester", "--bootstrap-server", broker.address, "--messages", "20000",
        "--duplicates", "20", "--percent-deletes", "10", "--topics", "2", "--sleep", "5", timeout_s=300,
    )  # fmt: skip
    assert "Data verification is completed" in output, output[-800:]
    assert "compacted up to offset" in broker.log_text(), "nothing was compacted while it looked"
    assert broker.stop() == 0
    assert_no_complaints(broker.log_dir, compacted=True)


@case
def client_compatibility_test(broker: RunningBroker) -> None:
    supported = (
        "offsets-for-times-supported", "cluster-id-supported", "create-topics-supported", "describe-acls-supported",
        "describe-configs-supported", "idempotent-producer-supported",
    )  # fmt: skip
    create_topic(broker, "compatible")
    output = succeed(
        "org.apache.kafka.tools.ClientCompatibilityTest", "--bootstrap-server", broker.address,
        "--topic", "compatible", "--expect-record-too-large-exception", "False", "--num-cluster-nodes", "1",
        *(word for name in supported for word in (f"--{name}", "True")),
    )  # fmt: skip
    assert "SUCCESS" in output, output
