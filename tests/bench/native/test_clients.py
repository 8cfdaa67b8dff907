"""A load is believed only when it adds up, and prepared requests are what a broker takes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from highwater.bench.native import clients
from highwater.bench.native.clients import Connections, PreparedRequests, consume, fetch, produce, record_batch
from highwater.bench.systems.bare_loop import start_bare_loop
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.highwater import start_highwater
from highwater.bench.systems.running import StartedSystem
from highwater.common.errors import TrialError
from highwater.kafka.records.batch import BatchHeader, is_credible, read_header, validate_produced
from highwater.kafka.records.record import decode_batch

compiled = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here to compile bench/native")


@pytest.fixture
def printing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a program stand in for rdkafka_performance that prints this and nothing else."""

    def stand_in(text: str) -> None:
        program = tmp_path / "rdkafka_performance"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        program.chmod(0o755)
        monkeypatch.setattr(clients, "rdkafka_performance", lambda: program)

    return stand_in


PRODUCED = (
    "% 7 backpressures for 1000 produce calls: 0.700% backpressure rate\n"
    "% 1000 messages produced (1024000 bytes), {delivered} delivered (offset 999, {failed} failed) in 500ms: "
    "2000 msgs/s and 2.04 MB/s, 7 produce failures, 0 in queue, no compression"
)
CONSUMED = "% {count} messages ({size} bytes) consumed in 250ms: 4000 msgs/s (4.09 MB/s)"


def go_on() -> None:
    """Never asks for an end."""


def test_a_producers_figures_are_read(printing: Callable[[str], None]) -> None:
    printing(PRODUCED.format(delivered=1000, failed=0))
    load = produce("localhost:1", "t", 1, 1000, 1024, {})
    assert (load.records, load.seconds, load.bytes_per_s, load.latencies) == (1000, 0.5, 2_048_000, None)


@pytest.mark.parametrize(("delivered", "failed"), [(999, 0), (999, 1), (1000, 1)])
def test_a_producer_that_lost_a_record_is_not_believed(
    printing: Callable[[str], None], delivered: int, failed: int
) -> None:
    printing(PRODUCED.format(delivered=delivered, failed=failed))
    with pytest.raises(TrialError, match="was to deliver 1000 records"):
        produce("localhost:1", "t", 1, 1000, 1024, {})


def test_a_consumers_figures_are_read(printing: Callable[[str], None]) -> None:
    printing(CONSUMED.format(count=1000, size=1024000))
    assert consume("localhost:1", "t", 1, 1000, 1024, {}).records_per_s == 4000


@pytest.mark.parametrize(("count", "size"), [(999, 999 * 1024), (1000, 1000 * 1023)])
def test_a_consumer_that_missed_a_record_or_a_byte_is_not_believed(
    printing: Callable[[str], None], count: int, size: int
) -> None:
    printing(CONSUMED.format(count=count, size=size))
    with pytest.raises(TrialError, match="was to read 1000 records"):
        consume("localhost:1", "t", 1, 1000, 1024, {})


def test_a_client_without_figures_is_told_by_its_last_line(printing: Callable[[str], None]) -> None:
    printing("% Unknown topic")
    with pytest.raises(TrialError, match="gave no figures: % Unknown topic"):
        produce("localhost:1", "t", 1, 1000, 1024, {})


def test_a_client_is_killed_when_the_user_asks_for_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "rdkafka_performance"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(clients, "rdkafka_performance", lambda: program)

    def asked() -> None:
        raise TrialError("the end is asked for")

    began_s = time.monotonic()
    with pytest.raises(TrialError, match="the end is asked for"):
        produce("localhost:1", "t", 1, 1000, 1024, {}, asked)
    assert time.monotonic() - began_s < 30


def test_the_prepared_batch_is_a_record_batch() -> None:
    batch = record_batch(15, 1024)
    header = validate_produced(batch, max_message_bytes=1 << 20)
    assert isinstance(header, BatchHeader)
    assert header.size_bytes == len(batch)
    assert [record.value for record in decode_batch(batch, read_header(batch))] == [bytes(1024)] * 15


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[StartedSystem]:
    log, files = tmp_path / "log", tmp_path / "files"
    log.mkdir()
    files.mkdir()
    with start_highwater(1, {}, [log], files, go_on, ready_within_s=60) as running:
        yield running


def ports(system: StartedSystem) -> list[int]:
    return [int(process.address.rpartition(":")[2]) for process in system.brokers]


@compiled
@pytest.mark.clients
@pytest.mark.parametrize("records_per_s", [0.0, 20_000.0])
def test_every_prepared_request_stands_in_the_log(tmp_path: Path, broker: StartedSystem, records_per_s: float) -> None:
    client = BrokerClient(broker.bootstrap_servers)
    client.create_topic("bench", 3, {"flush.messages": "1"})
    requests = PreparedRequests(tmp_path, "bench", acks=-1, records=2, record_bytes=100)
    load = requests.send(ports(broker), 2001, Connections(8, 4), partitions=3, records_per_s=records_per_s)
    assert load.records == 2002, "whole requests"
    assert sum(client.records_by_partition("bench", 3)) == 2002
    assert load.latencies is not None
    latencies_ns = np.fromfile(load.latencies, np.int64)
    assert len(latencies_ns) == 1001, "one of each request"
    assert 0 < latencies_ns.min() <= latencies_ns.max() < load.seconds * 1e9
    assert load.cpu_s > 0


@compiled
@pytest.mark.clients
def test_an_error_in_an_answer_is_a_failed_load(tmp_path: Path, broker: StartedSystem) -> None:
    requests = PreparedRequests(tmp_path, "missing", acks=1, records=1, record_bytes=100)
    with pytest.raises(TrialError, match="error code 3"):
        requests.send(ports(broker), 10, Connections(1, 1))


@compiled
@pytest.mark.clients
def test_a_fetch_reads_to_the_end(tmp_path: Path, broker: StartedSystem) -> None:
    BrokerClient(broker.bootstrap_servers).create_topic("bench", 1, {})
    requests = PreparedRequests(tmp_path, "bench", acks=1, records=100, record_bytes=1024)
    requests.send(ports(broker), 5000, Connections(2, 4))
    assert fetch(ports(broker)[0], "bench", 5000, 1024).size_bytes == 5000 * 1024


@compiled
@pytest.mark.clients
def test_the_bare_loop_writes_what_it_is_sent_and_its_batches_are_counted(tmp_path: Path) -> None:
    log, files = tmp_path / "log", tmp_path / "files"
    log.mkdir()
    files.mkdir()
    with start_bare_loop(log, files, go_on, ready_within_s=60) as loop:
        loop.client.create_topic("bench", 2, {})
        requests = PreparedRequests(tmp_path, "bench", acks=1, records=3, record_bytes=1024)
        requests.send(ports(loop), 300, Connections(4, 8), partitions=2)
        batch = record_batch(3, 1024)
        written = [(log / name).read_bytes() for name in ("0.log", "1.log")]
        counted = loop.client.records_by_partition("bench", 2)
        loop.client.delete_topic("bench")
        assert loop.client.records_by_partition("bench", 2) == [0, 0]
    assert len(written[0]) + len(written[1]) == 100 * len(batch)
    for at in range(0, len(written[0]), len(batch)):
        header = validate_produced(written[0][at : at + len(batch)], max_message_bytes=1 << 20)
        assert isinstance(header, BatchHeader)
        assert is_credible(header, time.time_ns() // 1_000_000), "it has the time of the clock"
    assert counted == [3 * len(part) // len(batch) for part in written]
