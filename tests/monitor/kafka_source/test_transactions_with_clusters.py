"""Open transactions on real clusters, with kafka-transactions as the oracle: one that waits, and one that hangs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from highwater.kafka.client.settings import settings_of
from highwater.kafka.records.record import Record, encode_batch
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.rows import FindingKind, TransactionVerdict
from highwater.monitor.kafka_source.source import KafkaSource
from highwater.monitor.model import OpenTransaction, Snapshot
from tests.broker.handlers.harness import decode_answer, request_frame
from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.connection import Connection
from tests.compat.apache_kafka.scripts import pasted
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper
from tests.compat.apache_kafka.tools import jars_3_9, jars_4
from tests.monitor.kafka_source.oracle import PATIENT_TICK_S, is_committed
from tests.pipeline.kafka.brokers import SYSTEMS, bootstrap_of
from tests.topics import create_topics, done_by_some_client
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clients]
DEADLINE_S = 120
HOUR_MS = 3_600_000
TIMEOUT_MS = 600_000
HUNG_PRODUCER = 4711
# It begins a transaction, says so, and waits to be killed.
_PRODUCER = f"""
import sys, time
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": sys.argv[1], "transactional.id": "billing 7",
                     "transaction.timeout.ms": {TIMEOUT_MS}}})
producer.init_transactions(100)
producer.begin_transaction()
producer.produce("orders", b"x", partition=1)
producer.flush(100)
print("open", flush=True)
time.sleep(1000)
"""


@contextmanager
def killed_producer(bootstrap: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", _PRODUCER, bootstrap], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.kill()
        yield
    finally:
        process.kill()
        process.communicate()


def hang(bootstrap: str) -> None:
    """A batch of a transaction that no coordinator knows, an hour old by its record."""
    batch = encode_batch(
        [Record(b"never ends", timestamp_ms=time.time_ns() // 1_000_000 - HOUR_MS)],
        producer_id=HUNG_PRODUCER,
        producer_epoch=2,
        base_sequence=0,
        is_transactional=True,
    )
    data = [{"name": "hung", "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    connection = Connection(int(bootstrap.rpartition(":")[2]))
    fields: dict[str, Any] = {"acks": -1, "timeout": 30_000, "topic_data": data}
    answer = connection.exchange(request_frame("produce", 9, transactional_id="never-ends", **fields))
    connection.close()
    (produced,) = decode_answer("produce", 9, [answer]).responses[0].partition_responses
    assert int(produced.error_code) == 0


def taken(bootstrap: str) -> list[Snapshot]:
    async def collecting() -> list[Snapshot]:
        source = KafkaSource("c", settings_of({"bootstrap.servers": bootstrap}), PATIENT_TICK_S, standing_ms=0)
        try:
            return [await source.snapshot(number) for number in range(2)]
        finally:
            await source.close()

    return asyncio.run(collecting())


def seen(bootstrap: str) -> tuple[Snapshot, Figures]:
    snapshots = taken(bootstrap)
    assert {state.error for state in snapshots[-1].sources.values()} == {""}
    return snapshots[-1], derive(snapshots)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_stays_open_is_what_kafkas_tool_says(system: str, tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    jars = jars_4() if system == "4" else jars_3_9()
    config = {"transaction.partition.verification.enable": "false"}
    with bootstrap_of(system, tmp_path / "brokers", config=config) as bootstrap:

        def tool(*arguments: str) -> list[list[str]]:
            base = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap)
            return [line.split() for line in succeed(*base, *arguments, jars=jars).splitlines()[1:]]

        create_topics(bootstrap, [NewTopic("orders", 2, 1), NewTopic("hung", 1, 1)])
        with killed_producer(bootstrap):
            hang(bootstrap)
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit"})
            wait_until(lambda: is_committed(consumer, [TopicPartition("hung", 0, 0)]), "a commit", DEADLINE_S)
            consumer.close()
            snapshot, figures = seen(bootstrap)
            hung, waits = figures.transactions
            check_producers(snapshot.transactions[0], tool("describe-producers", "--topic", "hung", "--partition", "0"))
            check_producers(
                snapshot.transactions[1], tool("describe-producers", "--topic", "orders", "--partition", "1")
            )
            # TransactionalId with a space in it, Coordinator, ProducerId, TransactionState.
            assert tool("list") == [["billing", "7", str(waits.coordinator), str(waits.producer_id), "Ongoing"]]
            assert (waits.transactional_id, waits.state) == ("billing 7", "Ongoing")
            assert (waits.timeout_ms, waits.verdict) == (TIMEOUT_MS, TransactionVerdict.OPEN)
            assert (hung.transactional_id, hung.verdict) == ("", TransactionVerdict.HANGING)
            assert hung.groups == ("audit",)
            hangs = ("find-hanging", "--max-transaction-timeout", "15", "--topic")
            assert [row[:3] for row in tool(*hangs, "hung")] == [["hung", "0", str(HUNG_PRODUCER)]]
            assert tool(*hangs, "orders") == []
            (finding,) = [each for each in figures.findings if each.kind is FindingKind.HANGING_TRANSACTION]
            assert finding.sentence.endswith(f"This ends it in hung-0: {hung.command}")
            pasted(hung.command, tmp_path / "bin", jars)
            assert tool(*hangs, "hung") == []
            snapshot, figures = seen(bootstrap)
            assert [each.transactional_id for each in snapshot.transactions] == ["billing 7"]
            assert FindingKind.HANGING_TRANSACTION not in {each.kind for each in figures.findings}


@pytest.mark.compat
@pytest.mark.timeout(900)
def test_a_transaction_that_is_hidden_from_the_monitor_is_not_called_hanging(tmp_path: Path) -> None:
    """Coordinators leave it out of their lists without a word."""
    rules = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with running_zookeeper(tmp_path) as zookeeper, running_kafka(tmp_path / "log", zookeeper, rules) as kafka:
        bootstrap = kafka.address
        create_topics(bootstrap, [NewTopic("orders", 2, 1)])
        with killed_producer(bootstrap):
            others = AclBinding(
                ResourceType.TRANSACTIONAL_ID,
                "*",
                ResourcePatternType.LITERAL,
                "User:other",
                "*",
                AclOperation.DESCRIBE,
                AclPermissionType.ALLOW,
            )
            done_by_some_client(bootstrap, "the ACL", lambda admin: admin.create_acls([others], request_timeout=10))
            wait_until(lambda: not taken(bootstrap)[-1].transactions[0].transactional_id, "the rule", DEADLINE_S)
            snapshots = taken(bootstrap)
            assert [each.is_known for each in snapshots[-1].transactions] == [None]
            error = snapshots[-1].sources["kafka transactions"].error
            assert "give the monitor's user Describe on all transactional ids" in error
            assert "a part of kafka transactions" in derive(snapshots).sentence


def check_producers(ours: OpenTransaction, rows: list[list[str]]) -> None:
    """ProducerId, ProducerEpoch, LatestCoordinatorEpoch, LastSequence, LastTimestamp, CurrentTransactionStartOffset."""
    (row,) = rows
    found = [ours.producer_id, ours.producer_epoch, ours.last_written_ms, ours.start_offset]
    assert [int(row[0]), int(row[1]), int(row[4]), int(row[5])] == found
