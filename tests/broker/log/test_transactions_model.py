"""Readers of committed records against a list of what was written: rolls, crashes, damaged indexes in between."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kio.schema.errors import ErrorCode

from highwater.broker.counters import TopicCounters
from highwater.broker.log.config import LogConfig
from highwater.broker.log.partition_log import Appended
from highwater.broker.replica.partition import Partition
from highwater.kafka.records.record import Record, TransactionMarker, encode_batch
from tests.broker.log.building import NOW_MS, TOPIC_ID, flush, log_after_power_cut, open_directory
from tests.broker.log.reading import visible_to_committed
from tests.broker.log.simulated_files import SimulatedFiles

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)
VALUES = st.lists(st.binary(max_size=10), min_size=1, max_size=3)
PRODUCERS = st.integers(1, 3)


class Written(NamedTuple):
    """A batch of one producer's transaction, or of no transaction (producer 0), or a marker."""

    first_offset: int
    values: list[bytes]
    producer_id: int
    is_commit: bool | None = None
    """How the marker ended it."""

    @property
    def next_offset(self) -> int:
        return self.first_offset + max(len(self.values), 1)


class TransactionsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.directory = open_directory(self.files, config=CONFIG, max_open_segments=3)
        self.directory.create_partition("t", 0, TOPIC_ID)
        self.written: list[Written] = []
        self.flushed = 0
        self.serve()

    def serve(self) -> None:
        self.log = log_after_power_cut(self.directory)
        self.partition = Partition(
            "t",
            TOPIC_ID,
            0,
            self.log,
            high_watermark=self.log.log_end_offset,
            leader_epoch=0,
            replicas=[1],
            min_in_sync_replicas=1,
            request_flush=lambda _: None,
            storage_failed=lambda *_: None,
            counters=TopicCounters(),
        )

    # What the list says

    @property
    def end_offset(self) -> int:
        return self.written[-1].next_offset if self.written else 0

    def open_transactions(self) -> dict[int, int]:
        """First offset by producer."""
        found: dict[int, int] = {}
        for entry in self.written:
            if entry.is_commit is not None:
                found.pop(entry.producer_id, None)
            elif entry.producer_id:
                found.setdefault(entry.producer_id, entry.first_offset)
        return found

    def last_stable_offset(self) -> int:
        return max(min([*self.open_transactions().values(), self.end_offset]), self.log.log_start_offset)

    def committed(self) -> dict[int, bytes]:
        """Value by offset of all that is decided well."""
        found: dict[int, bytes] = {}
        undecided: dict[int, dict[int, bytes]] = {}
        for entry in self.written:
            values = dict(enumerate(entry.values, entry.first_offset))
            if entry.is_commit is not None:
                found |= undecided.pop(entry.producer_id, {}) if entry.is_commit else {}
                undecided.pop(entry.producer_id, None)
            elif entry.producer_id:
                undecided.setdefault(entry.producer_id, {}).update(values)
            else:
                found |= values
        return found

    # What a broker does

    @rule(batches=st.lists(st.tuples(VALUES, st.just(0) | PRODUCERS), min_size=1, max_size=5))
    def append(self, batches: list[tuple[list[bytes], int]]) -> None:
        for values, producer_id in batches:
            self.append_batch(values, producer_id)

    def append_batch(self, values: list[bytes], producer_id: int) -> None:
        state = self.log.producer_states.get(producer_id)
        identity = {"producer_id": producer_id, "producer_epoch": 0} if producer_id else {}
        sequence = {"base_sequence": state.last_sequence + 1 if state else 0} if producer_id else {}
        batch = encode_batch(
            [Record(value, timestamp_ms=NOW_MS) for value in values],
            is_transactional=producer_id > 0,
            **identity,  # type: ignore[arg-type]
            **sequence,  # type: ignore[arg-type]
        )
        appended = self.partition.append(memoryview(batch), -1, NOW_MS, verify=lambda *_: ErrorCode.none)
        assert isinstance(appended, Appended), appended
        assert appended.base_offset == self.end_offset
        self.written.append(Written(self.end_offset, values, producer_id))

    @rule(endings=st.lists(st.tuples(PRODUCERS, st.booleans()), min_size=1, max_size=3))
    def end(self, endings: list[tuple[int, bool]]) -> None:
        for producer_id, is_commit in endings:
            appended = self.partition.append_marker(TransactionMarker(producer_id, 0, 0, is_commit), NOW_MS)
            assert isinstance(appended, Appended), appended
            self.written.append(Written(self.end_offset, [], producer_id, is_commit))

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.flushed = self.end_offset

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.advance_log_start_offset(data.draw(st.integers(0, self.end_offset)))

    @rule()
    def delete_segments(self) -> None:
        self.log.delete_expired(self.partition.high_watermark, NOW_MS, by_age=False)
        for path in self.log.take_removable(NOW_MS + self.log.config.file_delete_delay_ms):
            self.files.remove(path)

    @rule(is_damaged=st.booleans())
    def stop_and_start(self, is_damaged: bool) -> None:
        self.directory.close()
        self.flushed = self.end_offset
        if is_damaged:
            for entry in self.files.list(self.log.directory):
                if entry.name.endswith(".txnindex"):
                    path = self.log.directory / entry.name
                    self.files.overwrite(path, self.files.read(path)[:-1])
        self.reopen()

    @rule()
    def kill_and_start(self) -> None:
        self.files = self.files.restarted()
        self.reopen(loses_state=True)
        assert self.log.log_end_offset == self.end_offset

    @rule(seed=st.integers(0, 2**32))
    def lose_power_and_start(self, seed: int) -> None:
        self.files = self.files.after_power_cut(seed)
        self.reopen(loses_state=True)

    def reopen(self, *, loses_state: bool = False) -> None:
        self.directory = open_directory(self.files, config=CONFIG, max_open_segments=3)
        self.serve()
        end, start = self.log.log_end_offset, self.log.log_start_offset
        assert end >= self.flushed
        self.written = [entry for entry in self.written if entry.next_offset <= end]
        if self.end_offset < end:
            # Its start was kept, durably, before the records were: it goes on there, empty.
            assert end == start
            self.written = [Written(0, [b""] * end, 0)]
        if loses_state:
            # Transactions of which nothing is left to read may be forgotten.
            known = {producer_id for producer_id, _ in self.log.producer_states if self._is_open(producer_id)}
            for producer_id in set(self.open_transactions()) - known:
                of_producer = [entry for entry in self.written if entry.producer_id == producer_id]
                assert of_producer[-1].next_offset <= start

    def _is_open(self, producer_id: int) -> bool:
        return not self.log.producer_states.would_begin(producer_id, 0)

    # What readers see

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 300, 1500]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        start, end = self.log.log_start_offset, self.partition.last_stable_offset
        offset = data.draw(st.integers(start, end))
        expected = {at: value for at, value in self.committed().items() if at >= offset}
        while offset < end:
            found = self.log.read(offset, max_bytes, end_offset=end, at_least_one_batch=True)
            assert isinstance(found, bytes)
            assert found
            aborted = self.log.aborted_transactions(offset, len(found), end)
            assert not isinstance(aborted, ErrorCode)
            visible, next_offset = visible_to_committed(found, aborted, offset)
            assert visible == {at: value for at, value in expected.items() if offset <= at < next_offset}
            offset = next_offset
        assert offset == end

    @invariant()
    def the_last_stable_offset_is_the_lists(self) -> None:
        assert self.partition.high_watermark == self.end_offset
        if self.log.log_start_offset <= min([*self.open_transactions().values(), self.end_offset]):
            assert self.partition.last_stable_offset == self.last_stable_offset()
        else:
            # After a crash a transaction may seem to begin with the first of its records that is left, if one is.
            assert self.log.log_start_offset <= self.partition.last_stable_offset <= self.end_offset

    def teardown(self) -> None:
        self.directory.close()
        assert self.files.open_descriptors == 0


TestTransactionsModel = TransactionsMachine.TestCase
TestTransactionsModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
