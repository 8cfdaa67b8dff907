"""Captures of log directories: Apache Kafka's own files, logs that a broker is writing, and what is no log."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.bench.workload.trace_directory import read_trace
from highwater.studies.commands.capture import app
from tests.studies.capture.logs import batch, partition_folder, record

KAFKA = Path(__file__).parents[2] / "golden" / "kafka-3.9" / "log"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refusal(*arguments: str | Path) -> str:
    refused = call(*arguments)
    assert refused.exit_code == 2, refused.output
    return refused.stderr.strip().removeprefix("error: ")


def test_files_of_apache_kafka(tmp_path: Path) -> None:
    found = call(KAFKA, "--topic", "codecs", "--out", tmp_path / "codecs")
    assert found.exit_code == 0, found.output
    trace = read_trace(tmp_path / "codecs")
    assert (trace.manifest.source, trace.manifest.records) == ("files", 300)
    assert trace.distributions.codecs.keys() == {"gzip", "lz4", "snappy", "zstd", "none"}


def test_markers_and_compaction_are_told(tmp_path: Path) -> None:
    found = call(KAFKA / "transactional-0", "--out", tmp_path / "transactional")
    assert "note: 11 markers of transactions are not records, and are not counted" in found.stderr
    found = call(KAFKA / "compacted-0", "--out", tmp_path / "compacted")
    assert "71 offsets of the range have no record any more" in found.stderr
    assert "when those records arrived, their sizes and their keys cannot be known" in found.stderr


def test_a_log_that_a_broker_is_writing(tmp_path: Path) -> None:
    """Segments of Kafka can have reserved space, and a batch that is not whole yet."""
    whole = [batch(0, [record(0)] * 3), batch(3, [record(20)] * 4)]
    reserved = b"".join(whole) + bytes(5 << 20)
    partition_folder(tmp_path / "log", "orders-0", b"".join(whole), batch(1000, [record(30)] * 5)[:-3])
    partition_folder(tmp_path / "log", "orders-1", reserved)
    found = call(tmp_path / "log", "--out", tmp_path / "trace")
    assert found.exit_code == 0, found.output
    trace = read_trace(tmp_path / "trace")
    assert [each.records for each in trace.distributions.partitions] == [7, 7]
    assert trace.distributions.vanished_offsets == 0


def test_batches_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    data = b"".join(batch(number, [record(number, value=os.urandom(3 << 20))]) for number in range(5))
    larger = batch(5, [record(9, value=os.urandom(9 << 20))])
    partition_folder(tmp_path, "big-0", data + larger)
    found = call(tmp_path / "big-0", "--offsets", "1:", "--out", tmp_path / "trace", "--level", "0")
    assert found.exit_code == 0, found.output
    assert read_trace(tmp_path / "trace").manifest.records == 5


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    out = ("--out", tmp_path / "trace")
    assert refusal(tmp_path / "empty", *out) == (
        f"{tmp_path / 'empty'} is not a log: it has no folder TOPIC-PARTITION with files like 00000000000000000000.log"
    )
    (tmp_path / "file").write_text("text")
    assert refusal(tmp_path / "file", *out).endswith(
        "is not a directory; name a log directory, or the folder of a partition"
    )
    assert refusal(KAFKA, *out).startswith(f"{KAFKA} has 10 topics (__consumer_offsets, __transaction_state, ")
    assert refusal(KAFKA, "--topic", "none", *out).startswith(f"{KAFKA} has no partition of topic none; it has ")
    partition_folder(tmp_path / "one", "orders-0", batch(0, [record(0)]))
    partition_folder(tmp_path / "two", "orders-0", batch(0, [record(0)]))
    assert refusal(tmp_path / "one", tmp_path / "two", *out) == (
        f"{tmp_path / 'one' / 'orders-0'} and {tmp_path / 'two' / 'orders-0'} are replicas of one partition; "
        "name one of them"
    )
    partition_folder(tmp_path / "old", "orders-0", b"")
    assert refusal(tmp_path / "old", *out) == "the range has no records; markers of transactions are not records"
    damaged = bytearray(batch(0, [record(0)]))
    damaged[-5] ^= 1
    partition_folder(tmp_path / "damaged", "orders-0", bytes(damaged))
    assert refusal(tmp_path / "damaged", *out).startswith("orders-0 at offset 0: the CRC of a batch")
    assert not (tmp_path / "trace").exists()


def test_times_that_reach_too_far(tmp_path: Path) -> None:
    days_ms = 20 * 86_400_000
    partition_folder(tmp_path / "log", "orders-0", batch(0, [record(0)]) + batch(1, [record(days_ms)]))
    told = refusal(tmp_path / "log", "--out", tmp_path / "trace")
    assert told.startswith("the times of the records reach from 2026-09-21T")
    assert told.endswith("more than a trace can hold; name a part of it with --from and --to")


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, as which tests may run, may read every file."""
    folder = partition_folder(tmp_path / "log", "orders-0", batch(0, [record(0)]))
    segment = folder / f"{0:020}.log"

    def refuse(path: Path, *arguments: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(tmp_path / "log", "--out", tmp_path / "trace") == f"{segment}: Permission denied"
