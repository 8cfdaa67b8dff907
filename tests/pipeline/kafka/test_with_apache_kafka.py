"""The client and the reader with Apache Kafka's brokers, and records that its Java producer wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.kafka.requests.fetch import Fetch
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import LATEST, Appended, CommittedOffset, ListedOffset, OutOfRange, Producer
from highwater.pipeline.kafka.reader import OffsetRange, read_range
from highwater.pipeline.kafka.settings import settings_of
from tests.compat.apache_kafka.tools import close_hosts, jars_4, kafka_tool
from tests.pipeline.kafka.asking import batch_at
from tests.pipeline.kafka.brokers import KAFKAS, SYSTEMS, bootstrap_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clients]

TOPIC = "t"


@pytest.fixture(scope="module", autouse=True)
def _no_jvm_stays() -> Iterator[None]:
    yield
    close_hosts()


def tool(name: str, *arguments: str, stdin: str = "") -> None:
    done = kafka_tool(f"org.apache.kafka.tools.{name}", *arguments, stdin=stdin, jars=jars_4())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_javas_producer_writes(system: str, tmp_path: Path) -> None:
    with bootstrap_of(system, tmp_path) as bootstrap, Client(settings_of({"bootstrap.servers": bootstrap})) as client:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            topic = f"java-{codec}"
            tool("TopicCommand", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "1")
            lines = [f"a:{n},b:ü\tk{n}\tv{n}{'x' * (n % 300)}" for n in range(2000)]
            tool(
                *("ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic),
                *("--compression-codec", codec, "--command-property", "batch.size=5000"),
                *("--reader-property", "parse.headers=true", "--reader-property", "parse.key=true"),
                stdin="\n".join(lines) + "\n",
            )
            end = client.list_offsets({(topic, 0): LATEST})[topic, 0]
            assert isinstance(end, ListedOffset)
            assert end.offset == 2000
            topic_id = client.cluster([topic]).topics[topic].topic_id
            assert topic_id is not None
            columns = ("offset", "key", "value", "headers", "codec")
            rows = [
                row
                for decoded in read_range(client, OffsetRange(topic, 0, 0, 2000, topic_id), columns=columns)
                for row in decoded.rows.to_pylist()
            ]
            assert {row["codec"] for row in rows} == {codec}
            assert [
                "\t".join(
                    (
                        ",".join(f"{each['key']}:{each['value'].decode()}" for each in row["headers"]),
                        row["key"].decode(),
                        row["value"].decode(),
                    )
                )
                for row in rows
            ] == lines


@pytest.mark.timeout(300)
@pytest.mark.parametrize("system", KAFKAS)
def test_offsets_and_transactions(system: str, tmp_path: Path) -> None:
    with bootstrap_of(system, tmp_path) as bootstrap, Client(settings_of({"bootstrap.servers": bootstrap})) as client:
        tool("TopicCommand", "--bootstrap-server", bootstrap, "--create", "--topic", TOPIC, "--partitions", "2")
        # Kafka 4 answers CreateTopics before its broker has read the controller's records of the new topic.
        wait_until(lambda: set(client.cluster([TOPIC]).topics[TOPIC].partitions) == {0, 1}, f"partitions of {TOPIC}")
        assert client.fetch(Fetch(TOPIC, 0, 9)) == OutOfRange(0, 0)
        producer = client.init_producer_id("tx-1")
        assert isinstance(producer, Producer)
        of = (TOPIC, 1)
        for commit in (False, True):
            assert client.add_partitions_to_transaction("tx-1", producer, [of]) == {}
            batch = batch_at(
                0,
                2,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=2 if commit else 0,
                is_transactional=True,
            )
            assert isinstance(client.produce(*of, batch, transactional_id="tx-1"), Appended)
            assert client.add_offsets_to_transaction("tx-1", producer, "g") is None
            offsets = {of: CommittedOffset(7 + commit, "batch 1")}
            assert client.commit_offsets_in_transaction("tx-1", producer, "g", offsets) == {}
            assert client.end_transaction("tx-1", producer, commit=commit) is None

            def is_over() -> bool:
                ends = [client.list_offsets({of: LATEST}, read_committed=each)[of] for each in (True, False)]
                return ends[0] == ends[1]

            wait_until(is_over, "the marker of the transaction")
        assert client.committed_offsets("g") == {of: CommittedOffset(8, "batch 1")}
        reading = read_range(client, OffsetRange(TOPIC, 1, 0, 6), columns=("offset",), read_committed=True)
        assert [row["offset"] for decoded in reading for row in decoded.rows.to_pylist()] == [3, 4]
        assert isinstance(client.init_producer_id("tx-1"), Producer)
        fenced = client.end_transaction("tx-1", producer, commit=True)
        assert fenced is not None
        assert fenced.name in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
