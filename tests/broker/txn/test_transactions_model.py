"""Transactional producers in any order, with zombies, crashes and full disks, against a model: whole or not at all.

The broker is whole: coordinator, two partitions and a group's offsets, through the APIs. The model is a list of records
for each partition and what became of the transaction of each. It lives twice: with clients of version 1 of transactions
and of version 2.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode

from highwater.broker.log.files import RealFiles
from highwater.broker.txn.transaction import Producer
from highwater.kafka.records.batch import ReadableBuffer
from tests.broker.log.reading import visible_to_committed
from tests.broker.txn.asking import TransactionHarness

NAMES = ("x", "y")
TIMEOUT_MS = 60_000
PARTITIONS = (0, 1)
COMMITTED = ("t", 0)
"""What the offsets of the group are of."""


@dataclass(eq=False)
class Transaction:
    outcome: bool | None = None
    partitions: set[int] = field(default_factory=set)
    offset: int | None = None


@dataclass(eq=False)
class Instance:
    """A producer as it was given its id and epoch: a zombie, once there is a newer one."""

    name: str
    producer: Producer
    sequences: dict[int, int] = field(default_factory=dict)
    transaction: Transaction | None = None


class Transactions(RuleBasedStateMachine):
    instances = Bundle("instances")
    version = 1

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self._start()
        for key_type in (0, 1):
            self.node.find(key_type=key_type)
        self.current: dict[str, Instance | None] = dict.fromkeys(NAMES)
        self.ongoing: dict[str, Transaction] = {}
        self.logs: dict[int, list[tuple[bytes, Transaction]]] = {partition: [] for partition in PARTITIONS}
        self.offset: int | None = None
        self.serial = 0

    def _start(self) -> None:
        self.node = TransactionHarness(self.directory / "log")
        if self.version == 2:
            self.node.finalise(2)

    def teardown(self) -> None:
        self.node.close(clean=False)
        shutil.rmtree(self.directory)

    # What happens

    @initialize(target=instances, name=st.sampled_from(NAMES))
    def begin_first(self, name: str) -> Instance:
        return self._begin(name)

    @rule(target=instances, name=st.sampled_from(NAMES))
    def begin(self, name: str) -> Instance:
        return self._begin(name)

    def _begin(self, name: str) -> Instance:
        answer = self.node.init(name, timeout=TIMEOUT_MS)
        if name in self.ongoing:
            assert answer == ErrorCode.concurrent_transactions
            self._ended(name, is_commit=False)
            answer = self.node.init(name, timeout=TIMEOUT_MS)
        assert isinstance(answer, Producer)
        instance = self.current[name] = Instance(name, answer)
        return instance

    @rule(instance=instances, partition=st.sampled_from(PARTITIONS))
    def write(self, instance: Instance, partition: int) -> None:
        is_current = self.current[instance.name] is instance
        if self.version == 1:
            added = self.node.add(instance.producer, ("t", partition), name=instance.name)[("t", partition)]
            assert (added is ErrorCode.none) == is_current, added
        if is_current:
            self._transaction(instance.name).partitions.add(partition)
        self.serial += 1
        value = b"%d" % self.serial
        error = self._produce(instance, partition, value)
        assert (error is ErrorCode.none) == is_current, error
        if is_current:
            self.logs[partition].append((value, self.ongoing[instance.name]))

    @rule(instance=instances, partition=st.sampled_from(PARTITIONS))
    def write_without_adding(self, instance: Instance, partition: int) -> None:
        transaction = self.ongoing.get(instance.name)
        may_write = (
            self.current[instance.name] is instance and transaction is not None and partition in transaction.partitions
        )
        self.serial += 1
        value = b"%d" % self.serial
        assert (self._produce(instance, partition, value, version=9) is ErrorCode.none) == may_write
        if transaction is not None and may_write:
            self.logs[partition].append((value, transaction))

    @rule(partition=st.sampled_from(PARTITIONS))
    def write_outside_of_transactions(self, partition: int) -> None:
        self.serial += 1
        value = b"%d" % self.serial
        assert self.node.produce("t", value, partition=partition).error_code is ErrorCode.none
        self.logs[partition].append((value, Transaction(outcome=True)))

    @rule(instance=instances)
    def commit_offset(self, instance: Instance) -> None:
        is_current = self.current[instance.name] is instance
        if self.version == 1:
            assert (self.node.add_offsets(instance.producer, name=instance.name) is ErrorCode.none) == is_current
        self.serial += 1
        answer = self.node.ask(
            "txn_offset_commit",
            3 if self.version == 1 else 5,
            transactional_id=instance.name,
            group_id="g",
            producer_id=instance.producer.producer_id,
            producer_epoch=instance.producer.epoch,
            topics=[
                {
                    "name": COMMITTED[0],
                    "partitions": [{"partition_index": COMMITTED[1], "committed_offset": self.serial}],
                }
            ],
        )
        error = answer.topics[0].partitions[0].error_code
        assert (error is ErrorCode.none) == is_current, error
        if is_current:
            self._transaction(instance.name).offset = self.serial

    @rule(instance=instances, is_commit=st.booleans(), writes_until_full=st.none() | st.integers(0, 6))
    def end(self, instance: Instance, is_commit: bool, writes_until_full: int | None) -> None:
        is_current = self.current[instance.name] is instance
        was_ongoing = instance.name in self.ongoing
        with disk_full_after(writes_until_full):
            error = self._end(instance, is_commit)
        if error is ErrorCode.none and was_ongoing:
            assert is_current
            self._ended(instance.name, is_commit)
        elif is_current and was_ongoing:
            assert writes_until_full is not None, error
        elif error is ErrorCode.none and self.current[instance.name] is None:
            # It learns that its transaction was aborted, and goes on.
            assert self.version == 2
            assert not is_commit
            self.current[instance.name] = instance
        elif not is_current:
            told = {1: (), 2: (ErrorCode.invalid_txn_state,)}[self.version]  # a retry of what ended otherwise
            assert error in (ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping, *told)
        # There is space again: what markers are missing are written.
        self._pass(1000)

    def _end(self, instance: Instance, is_commit: bool) -> ErrorCode:
        if self.version == 1:
            error: ErrorCode = self.node.end(instance.producer, commit=is_commit, name=instance.name)
            return error
        answer = self.node.end_raising(instance.producer, commit=is_commit, name=instance.name)
        if not isinstance(answer, Producer):
            assert isinstance(answer, ErrorCode)
            return answer
        assert answer > instance.producer
        instance.producer = answer
        instance.sequences.clear()
        return ErrorCode.none

    @rule()
    def time_passes(self) -> None:
        self._pass(TIMEOUT_MS + 10_000)
        for name in tuple(self.ongoing):
            self._ended(name, is_commit=False)
            self.current[name] = None

    @rule()
    def crash(self) -> None:
        now_ms = self.node.clock.now_ms()
        self.node.close(clean=False)
        self._start()
        self.node.clock.advance_ms(now_ms - self.node.clock.now_ms())

    # What holds

    @invariant()
    def readers_of_committed_records_see_whole_transactions(self) -> None:
        for partition, log in self.logs.items():
            answer = self.node.fetch("t", 0, partition=partition, isolation_level=1)
            (found,) = answer.responses[0].partitions
            assert found.error_code is ErrorCode.none
            aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions]
            values, _ = visible_to_committed(bytes(found.records), aborted)
            expected = []
            for value, transaction in log:
                if transaction.outcome is None:
                    break
                if transaction.outcome:
                    expected.append(value)
            assert list(values.values()) == expected

    @invariant()
    def other_readers_see_everything(self) -> None:
        for partition, log in self.logs.items():
            (found,) = self.node.fetch("t", 0, partition=partition).responses[0].partitions
            values, _ = visible_to_committed(bytes(found.records), [])
            assert list(values.values()) == [value for value, _ in log]

    @invariant()
    def offsets_are_those_of_committed_transactions(self) -> None:
        # One that was written before what is committed will change nothing, however its transaction ends.
        committed = -1 if self.offset is None else self.offset
        offsets = [transaction.offset for transaction in self.ongoing.values()]
        is_unstable = any(offset is not None and offset > committed for offset in offsets)
        for require_stable in (False, True):
            answer = self.node.ask(
                "offset_fetch",
                7,
                group_id="g",
                topics=[{"name": COMMITTED[0], "partition_indexes": [COMMITTED[1]]}],
                require_stable=require_stable,
            )
            if not answer.topics:
                assert answer.error_code is ErrorCode.not_coordinator  # Nobody looked for it yet.
                return
            (found,) = answer.topics[0].partitions
            if require_stable and is_unstable:
                assert found.error_code is ErrorCode.unstable_offset_commit
            else:
                assert (found.error_code, found.committed_offset) == (ErrorCode.none, committed)

    @invariant()
    def the_coordinator_knows_what_is_open(self) -> None:
        listed = self.node.list()
        assert {name for name, state in listed.items() if state == "Ongoing"} == set(self.ongoing)
        assert not {"PrepareCommit", "PrepareAbort"} & set(listed.values())

    # In between

    def _transaction(self, name: str) -> Transaction:
        return self.ongoing.setdefault(name, Transaction())

    def _ended(self, name: str, is_commit: bool) -> None:
        transaction = self.ongoing.pop(name)
        transaction.outcome = is_commit
        if is_commit and transaction.offset is not None:
            self.offset = transaction.offset if self.offset is None else max(self.offset, transaction.offset)

    def _produce(self, instance: Instance, partition: int, value: bytes, version: int | None = None) -> ErrorCode:
        sequence = instance.sequences.get(partition, 0)
        version = version or (9 if self.version == 1 else 12)
        error: ErrorCode = self.node.write(
            instance.producer, value, partition=partition, sequence=sequence, name=instance.name, version=version
        )
        if error is ErrorCode.none:
            instance.sequences[partition] = sequence + 1
        return error

    def _pass(self, duration_ms: int) -> None:
        self.node.advance(duration_ms)


@contextmanager
def disk_full_after(write_count: int | None) -> Iterator[None]:
    if write_count is None:
        yield
        return
    pwrite = RealFiles.pwrite
    left = write_count

    def write(files: RealFiles, descriptor: int, data: ReadableBuffer, position: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        pwrite(files, descriptor, data, position)

    with patch.object(RealFiles, "pwrite", write):
        yield


class Transactions2(Transactions):
    version = 2


TestTransactions = Transactions.TestCase
TestTransactions2 = Transactions2.TestCase
TestTransactions.settings = TestTransactions2.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None
)
