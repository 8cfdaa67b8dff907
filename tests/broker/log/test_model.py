"""The log against a list: anything a broker does to it, in any order, with stops and crashes in between."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.broker.log.flush import FlushTicket
from highwater.kafka.records.batch import Codec, headers
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.log.building import NOW_MS, TOPIC_ID, append, log_after_power_cut, open_directory, read_all
from tests.broker.log.simulated_files import SimulatedFiles

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, segment_ms=5000)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.directory = open_directory(self.files, config=CONFIG, max_open_segments=2)
        self.log = self.directory.create_partition("t", 0, TOPIC_ID)
        self.records: list[Record] = []
        self.batch_starts: list[int] = []
        self.sequence = 0
        self.flushed = 0
        self.ticket: FlushTicket | None = None

    @rule(
        values=st.lists(st.none() | st.binary(max_size=120), min_size=1, max_size=6),
        times=st.lists(st.integers(0, 20_000), min_size=6, max_size=6),
        codec=st.sampled_from(list(Codec)),
        is_idempotent=st.booleans(),
    )
    def append(self, values: list[bytes | None], times: list[int], codec: Codec, is_idempotent: bool) -> None:
        records = [Record(value, b"key", time) for value, time in zip(values, times, strict=False)]
        identity = {"producer_id": 5, "producer_epoch": 0, "base_sequence": self.sequence} if is_idempotent else {}
        encoded = encode_batch(records, codec=codec, **identity)  # type: ignore[arg-type]
        again = bytearray(encoded)
        start = len(self.records)
        assert append(self.log, encoded)[:2] == (start, start + len(records) - 1)
        self.batch_starts.append(start)
        self.records += [record._replace(offset=start + i) for i, record in enumerate(records)]
        if is_idempotent:
            self.sequence += len(records)
            appended = append(self.log, again)
            assert (appended.base_offset, appended.duplicate) == (start, True)

    @rule(data=st.data(), max_bytes=st.integers(0, 3000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.log.log_start_offset, len(self.records)))
        end_offset = data.draw(st.integers(offset, len(self.records)))
        found = self.log.read(offset, max_bytes, end_offset=end_offset, at_least_one_batch=True)
        assert isinstance(found, bytes)
        decoded = [record for at, header in headers(found) for record in decode_batch(found[at:], header)]
        assert sum(header.size_bytes for _, header in headers(found)) == len(found)
        first = max((start for start in self.batch_starts if start <= offset), default=0)
        assert decoded == self.records[first : first + len(decoded)]
        ends = [*self.batch_starts[1:], len(self.records)] if self.batch_starts else []
        visible = [end for end in ends if offset < end <= end_offset]
        assert bool(decoded) == bool(visible)
        if decoded:
            assert decoded[-1].offset + 1 in visible

    @rule(timestamp_ms=st.integers(0, 20_001))
    def look_up_timestamp(self, timestamp_ms: int) -> None:
        readable = self.records[self.log.log_start_offset :]
        expected = next(((r.timestamp_ms, r.offset) for r in readable if r.timestamp_ms >= timestamp_ms), None)
        assert self.log.offset_for_timestamp(timestamp_ms, 10**9) == expected

    @rule()
    def begin_or_complete_flush(self) -> None:
        if self.ticket is None:
            self.ticket = self.log.begin_flush()
        else:
            self.ticket.sync()
            self.log.complete_flush(self.ticket)
            self.flushed = max(self.flushed, self.ticket.end_offset)
            self.ticket = None

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.advance_log_start_offset(data.draw(st.integers(0, len(self.records))))

    @rule(kept_bytes=st.integers(0, 8000), removes_files=st.booleans())
    def expire(self, kept_bytes: int, removes_files: bool) -> None:
        start_offset, size_bytes = self.log.log_start_offset, self.log.size_bytes
        hides_segments = any(base_offset <= start_offset for base_offset in self.log.segment_base_offsets[1:])
        self.log.config = replace(CONFIG, retention_bytes=kept_bytes, retention_ms=-1, file_delete_delay_ms=0)
        self.log.delete_expired(self.log.log_end_offset, NOW_MS)
        self.log.config = CONFIG
        assert self.log.log_start_offset >= start_offset
        assert hides_segments or self.log.size_bytes >= min(size_bytes, kept_bytes)
        if removes_files:
            for path in self.log.take_removable(NOW_MS):
                self.files.remove(path)

    @precondition(lambda self: self.ticket is None)
    @rule()
    def stop_and_start(self) -> None:
        start_offset = self.log.log_start_offset
        self.directory.close()
        assert self.files.open_descriptors == 0
        self.reopen()
        assert self.log.recovery_point == self.log.log_end_offset
        assert self.log.log_start_offset == start_offset

    @rule(torn=st.integers(0, 200))
    def kill_and_start(self, torn: int) -> None:
        self.directory.checkpoint()
        self.files = self.files.restarted()
        last = self.directory.logs["t", 0].directory / f"{self.log.segment_base_offsets[-1]:020d}.log"
        # Behind what is there, which a flush may have brought to the disk: a kill does not undo that.
        descriptor = self.files.open(last)
        self.files.pwrite(descriptor, random.Random(torn).randbytes(torn), len(self.files.read(last)))
        self.files.close(descriptor)
        self.reopen()

    @rule(seed=st.integers(0, 2**32))
    def lose_power_and_start(self, seed: int) -> None:
        self.files = self.files.after_power_cut(seed)
        self.reopen()
        end = self.log.log_end_offset
        assert self.flushed <= end
        # Records may be deleted, durably, before they were flushed: then the log goes on, empty, where it should start.
        assert end in (len(self.records), self.log.log_start_offset) or end in self.batch_starts
        del self.records[end:]
        self.batch_starts = [start for start in self.batch_starts if start < end]
        state = self.log.producer_states.get(5)
        self.sequence = 0 if state is None else state.last_sequence + 1

    def reopen(self) -> None:
        self.ticket = None
        self.directory = open_directory(self.files, config=CONFIG, max_open_segments=2)
        self.log = log_after_power_cut(self.directory)

    @invariant()
    def the_log_is_the_list(self) -> None:
        assert self.log.log_end_offset == len(self.records)
        assert self.log.recovery_point <= self.log.log_end_offset
        assert self.log.size_bytes == sum(
            entry.size_bytes for entry in self.files.list(self.log.directory) if entry.name.endswith(".log")
        )

    def teardown(self) -> None:
        expected = [(r.offset, r.value) for r in self.records[self.log.log_start_offset :]]
        assert read_all(self.log) == expected
        assert self.log.read(len(self.records) + 1, 1, end_offset=10**9) is ErrorCode.offset_out_of_range


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
