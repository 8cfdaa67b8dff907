"""Finding the batch of an offset: the same one whatever the index says first, and with few reads."""

from __future__ import annotations

import random

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.broker.log.partition_log import PartitionLog
from highwater.kafka.records.batch import headers
from tests.broker.log.building import ROOT, TOPIC_ID, append, batch, open_directory
from tests.broker.log.simulated_files import SimulatedFiles

LARGE = 20_000
CONFIG = LogConfig(segment_bytes=1 << 20, index_interval_bytes=4096)
LOG_FILE = ROOT / "t-0" / "00000000000000000000.log"


class CountingFiles(SimulatedFiles):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(descriptor, size, position)


def a_log(*sizes: int) -> tuple[CountingFiles, PartitionLog]:
    """A log of one segment with two records in each batch, and values of these sizes."""
    files = CountingFiles()
    log = open_directory(files, config=CONFIG).create_partition("t", 0, TOPIC_ID)
    for size in sizes:
        append(log, batch(bytes(size), b"second"))
    return files, log


@pytest.mark.parametrize("largest", [50, 3_000, 9_000, 30_000])
def test_each_offset_is_found_in_its_batch(largest: int) -> None:
    rng = random.Random(largest)
    _, log = a_log(*(rng.choice((1, rng.randint(1, 1_000), rng.randint(1, largest))) for _ in range(80)))
    segment = log._segments.active
    batches = list(segment.headers())
    assert len(batches) == 80
    for offset in range(log.log_end_offset):
        assert segment.find(offset) == batches[offset // 2]
    assert segment.find(log.log_end_offset) is None


def test_a_large_batch_after_another_takes_one_read() -> None:
    files, log = a_log(*[LARGE] * 10)
    files.reads = 0
    assert log._segments.active.find(8) is not None
    assert files.reads == 1


def test_offsets_that_compaction_removed_lead_to_the_batch_after_them() -> None:
    _, log = a_log(*[LARGE] * 10)
    segment = log._segments.active
    batches = list(segment.headers())
    # As if the batch of offsets 8 and 9 had gone, with its entry.
    index = segment.offset_index
    slot = index.entries.index((9, batches[4][0]))
    del index._offsets[slot], index._positions[slot]
    assert segment.find(8) == batches[4]
    assert segment.find(10) == batches[5]


@pytest.mark.parametrize("damaged", [0, 4, 16])
def test_damage_of_a_batch_is_no_matter_for_those_before_it(damaged: int) -> None:
    files, log = a_log(LARGE, 10, LARGE, LARGE)
    segment = log._segments.active
    batches = list(segment.headers())
    content = bytearray(files.read(LOG_FILE))
    position = batches[2][0]
    content[position + damaged] ^= 0x7F
    files.overwrite(LOG_FILE, bytes(content))
    assert segment.find(2) == batches[1]
    if damaged == 16:  # the magic; the offset is checked by nobody
        assert log.read(4, 1, end_offset=log.log_end_offset, at_least_one_batch=True) is ErrorCode.corrupt_message


def test_a_reader_that_goes_on_costs_one_read() -> None:
    files, log = a_log(*[100] * 100)
    segment = log._segments.active
    ends = [header.next_offset for _, header in segment.headers()]
    end = log.log_end_offset
    log.read(ends[9], 1 << 20, end_offset=ends[49])
    files.reads = 0
    assert log.read(ends[49], 1 << 20, end_offset=end) == segment._pread(
        segment.size_bytes - segment.position_of(ends[49]), segment.position_of(ends[49])
    )
    append(log, batch(b"more"))
    files.reads = 0
    assert log.read(end, 1 << 20, end_offset=log.log_end_offset) != b""
    assert files.reads == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_reader_that_goes_on_reads_what_one_that_begins_would(seed: int) -> None:
    """Whatever is appended, cut off and rolled in between."""
    rng = random.Random(seed)
    log = open_directory(SimulatedFiles(), config=LogConfig(segment_bytes=20_000)).create_partition("t", 0, TOPIC_ID)
    offset = 0
    for _ in range(400):
        act = rng.random()
        if act < 0.3:
            append(log, batch(*[bytes(rng.randint(1, 2_000))] * rng.randint(1, 3)))
        elif act < 0.33:
            log.truncate_to(rng.randint(max(log.log_end_offset - 5, 0), log.log_end_offset))
        elif act < 0.4:
            offset = rng.randint(0, log.log_end_offset)
        offset, max_bytes = min(offset, log.log_end_offset), rng.choice((50, 3_000, 10_000))
        end_offset, is_first = rng.randint(offset, log.log_end_offset), rng.random() < 0.7
        read = log.read(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
        for segment in log._segments.all:
            segment._ends_of_reads = None
        again = log.read(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
        assert read == again
        assert not isinstance(read, ErrorCode)
        offset = max([offset, *(header.next_offset for _, header in headers(read))])
