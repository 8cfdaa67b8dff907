from __future__ import annotations

import json
import zlib
from pathlib import Path

import cramjam
import pytest

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.payload import FILE_BYTES_MAX, POOL_BYTES, body_pool, pool_start, read_payload_file
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.stamp import STAMP_BYTES

SIZES = [STAMP_BYTES, 25, 40, 100, 1024, 100_000]


@pytest.mark.parametrize("record_bytes", SIZES)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_generated_bodies_have_the_exact_size(record_bytes: int, share: float) -> None:
    pool = body_pool(GeneratedPayload(share), FixedSize(record_bytes), seed=1)
    assert {len(body) for body in pool} == {record_bytes - STAMP_BYTES}


def test_generated_bodies_are_json_log_lines() -> None:
    for body in body_pool(GeneratedPayload(0.5), FixedSize(1024), seed=1):
        assert {"time", "level", "service", "message", "trace"} == set(json.loads(body))


def test_the_seed_decides_everything() -> None:
    payload = GeneratedPayload(0.4)
    assert body_pool(payload, FixedSize(200), seed=5) == body_pool(payload, FixedSize(200), seed=5)
    assert body_pool(payload, FixedSize(200), seed=5) != body_pool(payload, FixedSize(200), seed=6)


@pytest.mark.parametrize("record_bytes", [100, 1024])
@pytest.mark.parametrize("codec", ["zlib", "zstd", "lz4"])
def test_compress_ratio_turns_what_compressors_achieve(record_bytes: int, codec: str) -> None:
    def achieved(share: float) -> float:
        batch = b"".join(body_pool(GeneratedPayload(share), FixedSize(record_bytes), seed=3))[:1_000_000]
        packed = zlib.compress(batch) if codec == "zlib" else bytes(getattr(cramjam, codec).compress(batch))
        return len(packed) / len(batch)

    ratios = [achieved(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert ratios == sorted(ratios)
    assert ratios[0] < 0.2
    assert ratios[-1] > (0.95 if codec == "lz4" else 0.7)


@pytest.mark.parametrize("record_bytes", [100, 1024])
def test_a_batch_does_not_meet_the_same_body_twice(record_bytes: int) -> None:
    pool = body_pool(GeneratedPayload(0.5), FixedSize(record_bytes), seed=1)
    assert len(pool) * record_bytes > 1_000_000  # librdkafka's default batch.size
    assert len(pool) * record_bytes < 2 * POOL_BYTES


def test_workers_start_at_different_places() -> None:
    pool = [b"x"] * 100
    assert [pool_start(worker, 4, pool) for worker in range(4)] == [0, 25, 50, 75]


def test_file_lines_are_taken_as_they_are_without_a_size(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\n\nzwei größer\nthree")
    assert body_pool(read_payload_file(str(path)), None, 0) == [b"one", "zwei größer".encode(), b"three"]


def test_file_text_is_packed_to_the_size(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {n}\n" for n in range(1000)))
    pool = body_pool(read_payload_file(str(path)), FixedSize(STAMP_BYTES + 50), 0)
    assert {len(body) for body in pool} == {50}
    assert path.read_bytes().startswith(b"".join(pool))


def test_a_file_smaller_than_a_record_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("ab\n")
    assert body_pool(read_payload_file(str(path)), FixedSize(STAMP_BYTES + 7), 0) == [b"ab\nab\na"]


def test_a_large_file_is_read_in_part_and_in_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text(("y" * 99 + "\n") * (FILE_BYTES_MAX // 100 + 10))
    text = read_payload_file(str(path))
    assert len(text) <= FILE_BYTES_MAX
    assert text.endswith(b"y\n")


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (" \n\n", "no text")])
def test_unusable_files_are_named(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "lines"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LoadSetupError, match=said) as caught:
        read_payload_file(str(path))
    assert str(path) in str(caught.value)
