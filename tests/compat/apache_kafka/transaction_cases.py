"""Transactions by Kafka's own clients and tools."""

from __future__ import annotations

import time

from highwater.kafka.records.record import Record, encode_batch
from tests.broker.running import RunningBroker, running_broker
from tests.compat.apache_kafka.case import case, create_topic, produce, raw_produce, succeed
from tests.compat.apache_kafka.dump import assert_no_complaints

MESSAGES = 3000
MODES = {
    "assigned": (),
    "group-metadata": ("--use-group-metadata",),
    "subscribed": ("--group-mode", "--use-group-metadata"),
}


def _read(server: RunningBroker, topic: str, isolation_level: str) -> list[str]:
    return succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", server.address, "--topic", topic,
        "--from-beginning", "--isolation-level", isolation_level, "--timeout-ms", "3000",
    ).splitlines()  # fmt: skip


@case
def transactional_message_copier(broker: RunningBroker) -> None:
    """Every message is copied once, though every now and then a transaction is aborted and copied anew."""
    create_topic(broker, "input")
    lines = [f"{number}" for number in range(MESSAGES)]
    produce(broker, "input", lines, "batch.size=1000")
    for name, options in MODES.items():
        create_topic(broker, f"output-{name}")
        output = succeed(
            "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", broker.address,
            "--input-topic", "input", "--input-partition", "0", "--output-topic", f"output-{name}",
            "--transactional-id", f"copier-{name}", "--consumer-group", f"copiers-{name}",
            "--transaction-size", "100", "--enable-random-aborts", *options,
        )  # fmt: skip
        assert '"remaining":0' in output, output[-800:]
        copied = _read(broker, f"output-{name}", "read_committed")
        assert copied == lines, f"{len(copied)} are copied, {len(set(copied))} of them different"
        assert len(_read(broker, f"output-{name}", "read_uncommitted")) >= MESSAGES
    _check_tools(broker)
    assert broker.stop() == 0, broker.log_text()[-2000:]
    logs = sorted(broker.log_dir.glob("__transaction_state-*/*.log"))
    written = [path for path in logs if path.stat().st_size]
    dumped = succeed("kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", ",".join(map(str, written)))
    assert "transactionalId=copier-subscribed" in dumped, dumped[-800:]
    assert "state=CompleteCommit" in dumped, dumped[-800:]
    assert_no_complaints(broker.log_dir)


def _check_tools(broker: RunningBroker) -> None:
    tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.address)
    listed = succeed(*tool, "list")
    assert "copier-subscribed" in listed, listed
    described = succeed(*tool, "describe", "--transactional-id", "copier-subscribed")
    assert "CompleteCommit" in described, described
    producers = succeed(*tool, "describe-producers", "--topic", "output-subscribed", "--partition", "0")
    assert producers.splitlines()[1].split()[-1] == "None", producers


@case
def a_hanging_transaction_is_found_and_aborted(broker: RunningBroker) -> None:
    """A transaction that no coordinator knows of (KIP-664) holds readers back until kafka-transactions has ended it."""
    assert broker.stop() == 0, broker.log_text()[-2000:]
    properties = ("transaction.partition.verification.enable=false", "group.initial.rebalance.delay.ms=0")
    with running_broker(broker.log_dir, properties=properties) as trusting:
        create_topic(trusting, "hung")
        produce(trusting, "hung", ["before"])
        an_hour_ago_ms = time.time_ns() // 1_000_000 - 3_600_000
        batch = encode_batch(
            [Record(b"never ends", timestamp_ms=an_hour_ago_ms)],
            producer_id=4711,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        assert raw_produce(trusting, "hung", batch, "never-ends") == (0, 1)
        produce(trusting, "hung", ["after"])
        read = _read(trusting, "hung", "read_committed")
        assert read == ["before"], read
        tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", trusting.address)
        found = succeed(*tool, "find-hanging", "--topic", "hung", "--partition", "0", "--max-transaction-timeout", "5")
        assert [line.split()[:3] for line in found.splitlines()[1:]] == [["hung", "0", "4711"]], found
        succeed(*tool, "abort", "--topic", "hung", "--partition", "0", "--start-offset", "1")
        read = _read(trusting, "hung", "read_committed")
        assert read == ["before", "after"], read
        assert trusting.stop() == 0, trusting.log_text()[-2000:]
    assert_no_complaints(broker.log_dir)
