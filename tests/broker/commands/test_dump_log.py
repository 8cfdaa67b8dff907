"""dump-log against logs that the broker's own room wrote: what is sound, and every kind of damage."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from highwater.broker.commands.log_files import Options, Row, UnknownFile, inspect, log_files_below
from highwater.broker.log.config import LogConfig
from highwater.broker.log.files import RealFiles
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import Appended
from highwater.broker.log.producer_state import ProducerStates
from highwater.kafka.records.batch import BatchHeader, Codec, read_header, validate_produced
from highwater.kafka.records.record import Record, TransactionMarker, encode_batch
from tests.admin.calling import call
from tests.broker.manual_clock import ManualClock

VERIFY = Options(verify=True)
TIMESTAMP_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=7)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Five segments of batches in every codec, of an idempotent producer, with indexes, stopped cleanly."""
    directory = LogDirectory(
        RealFiles(),
        tmp_path / "log",
        LogConfig(segment_bytes=2000, index_interval_bytes=200),
        broker_id=0,
        clock=ManualClock(),
    )
    directory.load()
    log = directory.create_partition("t", 0, TOPIC_ID)
    for number in range(60):
        records = [
            Record(b"value %d" % number * 8, b"key", TIMESTAMP_MS + number, (("h", b"\xff"),)),
            Record(None, None, TIMESTAMP_MS + number),
        ]
        batch = encode_batch(
            records, codec=Codec(number % 5), producer_id=1, producer_epoch=0, base_sequence=2 * number
        )
        header = validate_produced(batch, max_message_bytes=1 << 20)
        assert isinstance(header, BatchHeader)
        assert isinstance(log.append(batch, header, leader_epoch=0, now_ms=TIMESTAMP_MS), Appended)
    directory.close()
    return directory.path


def segments(log_dir: Path) -> list[Path]:
    return sorted((log_dir / "t-0").glob("*.log"))


def rows_of(path: Path, options: Options = VERIFY) -> list[Row]:
    return list(inspect(path, options))


def problems_in(log_dir: Path, options: Options = VERIFY) -> list[str]:
    return [
        f"{path.name}: {row.fields['message']}"
        for path in log_files_below(log_dir)
        for row in inspect(path, options)
        if row.kind == "problem"
    ]


def patch(path: Path, position: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


def test_a_sound_log_has_no_problems_and_every_batch_and_record(log_dir: Path) -> None:
    assert problems_in(log_dir) == []
    assert len(segments(log_dir)) > 2
    rows = [row for path in segments(log_dir) for row in rows_of(path, Options(verify=True, records=True))]
    batches = [row.fields for row in rows if row.kind == "batch"]
    assert [(b["base_offset"], b["last_offset"], b["base_sequence"]) for b in batches] == [
        (2 * number, 2 * number + 1, 2 * number) for number in range(60)
    ]
    assert [b["codec"] for b in batches[:5]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    records = [row.fields for row in rows if row.kind == "record"]
    assert [record["offset"] for record in records] == list(range(120))
    assert records[118]["value"] == b"value 59" * 8
    assert records[118]["headers"] == [("h", b"\xff")]
    assert records[119]["value"] is None


def test_every_kind_of_file_is_read(log_dir: Path) -> None:
    kinds = {row.kind for path in log_files_below(log_dir) for row in rows_of(path)}
    assert kinds >= {"batch", "index_entry", "time_index_entry", "producer", "checkpoint_entry", "property", "summary"}


def test_nothing_is_written(log_dir: Path) -> None:
    def fingerprint() -> dict[Path, tuple[str, int]]:
        return {
            path: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in log_dir.rglob("*")
            if path.is_file()
        }

    before = fingerprint()
    assert call("dump-log", log_dir, "--verify", "--print-data").exit_code == 0
    assert fingerprint() == before


def flip_a_record(log_dir: Path) -> None:
    patch(segments(log_dir)[0], 70, b"\x55")


def cut_the_tail(log_dir: Path) -> None:
    path = segments(log_dir)[-1]
    path.write_bytes(path.read_bytes()[:-3])


def overwrite_a_header(log_dir: Path) -> None:
    patch(segments(log_dir)[0], 0, b"\x09" * 61)


def lose_a_batch(log_dir: Path) -> None:
    path = segments(log_dir)[0]
    second = [row.fields for row in rows_of(path) if row.kind == "batch"][1]
    data = path.read_bytes()
    path.write_bytes(data[: second["position"]] + data[second["position"] + second["bytes"] :])


def lose_a_segment(log_dir: Path) -> None:
    segments(log_dir)[1].unlink()


def repeat_a_batch(log_dir: Path) -> None:
    path = segments(log_dir)[0]
    first = next(row.fields for row in rows_of(path) if row.kind == "batch")
    data = path.read_bytes()
    path.write_bytes(data + data[: first["bytes"]])


def index_into_a_batch(log_dir: Path) -> None:
    path = segments(log_dir)[0].with_suffix(".index")
    offset, position = struct.unpack_from(">ii", path.read_bytes())
    patch(path, 0, struct.pack(">ii", offset, position + 1))


def index_that_falls(log_dir: Path) -> None:
    path = segments(log_dir)[0].with_suffix(".index")
    path.write_bytes(path.read_bytes() + path.read_bytes()[:8])


def index_cut_off(log_dir: Path) -> None:
    path = segments(log_dir)[0].with_suffix(".index")
    path.write_bytes(path.read_bytes() + b"\x01")


def time_index_with_another_time(log_dir: Path) -> None:
    path = segments(log_dir)[0].with_suffix(".timeindex")
    timestamp, offset = struct.unpack_from(">qi", path.read_bytes())
    patch(path, 0, struct.pack(">qi", timestamp - 1, offset))


def flip_a_snapshot(log_dir: Path) -> None:
    patch(min((log_dir / "t-0").glob("*.snapshot")), 12, b"\x77")


def spoil_a_checkpoint(log_dir: Path) -> None:
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 5\n")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (flip_a_record, "the CRC of the batch at 0 does not match"),
        (cut_the_tail, "is cut off"),
        (overwrite_a_header, "no batch at 0"),
        (lose_a_batch, "offsets 2 to 3 are missing"),
        (lose_a_segment, "are missing"),
        (repeat_a_batch, "has offset 0 after"),
        (index_into_a_batch, "where no batch begins"),
        (index_that_falls, "does not rise"),
        (index_cut_off, "no whole number of entries"),
        (time_index_with_another_time, "whose batch has"),
        (flip_a_snapshot, "CRC does not match"),
        (spoil_a_checkpoint, "promises 2 entries and has 1"),
    ],
)
def test_damage_is_found(log_dir: Path, spoil: Callable[[Path], None], expected: str) -> None:
    spoil(log_dir)
    found = problems_in(log_dir)
    assert any(expected in message for message in found), found
    result = call("dump-log", log_dir, "--verify", "--quiet")
    assert result.exit_code == 1
    assert expected in result.output
    assert result.errors == ""


def test_gaps_of_a_compacted_topic_are_no_damage(log_dir: Path) -> None:
    lose_a_segment(log_dir)
    assert problems_in(log_dir, Options(verify=True, gaps_are_damage=False)) == []


def test_padding_of_kafka_is_no_damage(log_dir: Path) -> None:
    for path in (segments(log_dir)[-1], *(segments(log_dir)[-1].with_suffix(s) for s in (".index", ".timeindex"))):
        path.write_bytes(path.read_bytes() + bytes(8 * 12 * 100))
    assert problems_in(log_dir) == []
    assert [row.kind for row in rows_of(segments(log_dir)[-1])][-2:] == ["note", "summary"]


def test_an_empty_snapshot_is_sound(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.snapshot"
    path.write_bytes(ProducerStates().encode())
    assert [row.kind for row in rows_of(path)] == ["summary"]


def test_json_is_one_object_a_line(log_dir: Path) -> None:
    result = call("dump-log", segments(log_dir)[0], "--json", "--print-data")
    assert result.exit_code == 0
    records = [line for line in result.json_lines if line["kind"] == "record"]
    assert records[0]["value"] == "value 0" * 8
    assert records[0]["headers"] == [{"key": "h", "value_base64": "/w=="}]
    assert records[1]["value"] is None


def test_what_is_no_file_of_a_log_is_refused(tmp_path: Path) -> None:
    stranger = tmp_path / "notes.log"
    stranger.write_text("hello")
    with pytest.raises(UnknownFile):
        inspect(stranger, VERIFY)
    for argument in (stranger, tmp_path, tmp_path / "missing"):
        result = call("dump-log", argument)
        assert (result.exit_code, result.output) == (2, "")
        assert result.errors.count("\n") == 1
        assert str(argument) in result.errors


def test_markers_of_transactions_are_told_as_such(tmp_path: Path) -> None:
    directory = LogDirectory(RealFiles(), tmp_path / "log", LogConfig(), broker_id=1, clock=ManualClock())
    directory.load()
    log = directory.create_partition("t", 0, TOPIC_ID)
    for producer_id, is_commit in ((1, True), (2, False)):
        batch = encode_batch(
            [Record(b"x")], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        log.append(batch, read_header(batch), leader_epoch=0, now_ms=0)
        log.append_marker(TransactionMarker(producer_id, 0, 7, is_commit), leader_epoch=0, now_ms=0)
    directory.close()
    path = tmp_path / "log" / "t-0" / f"{0:020d}.log"
    markers = [row.fields for row in inspect(path, Options(records=True)) if row.kind == "end_marker"]
    assert [(marker["offset"], marker["is_commit"], marker["coordinator_epoch"]) for marker in markers] == [
        (1, True, 7),
        (3, False, 7),
    ]
    printed = call("dump-log", "--print-data", "--verify", str(path.parent)).output
    assert "COMMIT coordinator epoch: 7" in printed
    assert "ABORT coordinator epoch: 7" in printed
    assert "producer 2 aborted 2..3" in printed
