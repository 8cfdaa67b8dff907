"""Transactions cut off at any file operation, by a kill or a disk that fails: afterwards each is whole or not there."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.txn.transaction import Producer
from tests.broker.handlers.harness import Pending, one_batch
from tests.broker.log.reading import visible_to_committed
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.txn.asking import T0, T1, TransactionHarness

ROOT = Path("/logs")
STRIDE = 3


class Interrupted(Exception):  # noqa: N818 - as Killed
    """The disk failed, and what the client asked for is not done; the broker stops."""


class FlushingHarness(TransactionHarness):
    """Has everything on the disk before it is answered."""

    def __init__(self, files: SimulatedFiles) -> None:
        super().__init__(ROOT, files, log_flush_interval_messages="1")
        self.wanted_flushes += self.node.partitions.live()  # as a start does before it serves
        self._settle()

    def ask(self, name: str, version: int, /, **fields: Any) -> Any:
        answer = super().ask(name, version, **fields)
        if not isinstance(answer, Pending):
            return answer
        self._settle()
        assert not answer.waits, f"{name} is not answered"
        return answer.answer

    def advance(self, duration_ms: int) -> None:
        super().advance(duration_ms)
        self._settle()

    def _settle(self) -> None:
        for _ in range(10):
            self.flush()
            self.scheduler.run()


class Client:
    """Writes its number, an offset too, in three transactions, of which it aborts the second."""

    def __init__(self) -> None:
        self.committed: set[int] = set()
        self.aborted: set[int] = set()

    def live(self, node: TransactionHarness) -> None:
        node.ask("find_coordinator", 3, key="g", key_type=0)
        node.find()
        node.scheduler.run()
        producer = node.init()
        if not isinstance(producer, Producer):
            raise Interrupted
        for number in range(3):
            self._transact(node, producer, number)

    def _transact(self, node: TransactionHarness, producer: Producer, number: int) -> None:
        def expect_none(error: object) -> None:
            if error is not ErrorCode.none:
                raise Interrupted

        for error in node.add(producer, T0, T1).values():
            expect_none(error)
        for partition in (0, 1):
            records = one_batch(
                b"%d" % number,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=number,
                is_transactional=True,
            )
            answer = node.ask(
                "produce",
                9,
                transactional_id="x",
                acks=-1,
                timeout=1000,
                topic_data=[{"name": "t", "partition_data": [{"index": partition, "records": records}]}],
            )
            expect_none(answer.responses[0].partition_responses[0].error_code)
        expect_none(node.add_offsets(producer))
        answer = node.ask(
            "txn_offset_commit",
            3,
            transactional_id="x",
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": number}]}],
        )
        expect_none(answer.topics[0].partitions[0].error_code)
        expect_none(node.end(producer, commit=number != 1))
        (self.aborted if number == 1 else self.committed).add(number)
        node.scheduler.run()

    def check(self, node: TransactionHarness, files: SimulatedFiles) -> None:
        node.ask("find_coordinator", 3, key="g", key_type=0)
        node.find()
        node.advance(1000)
        if (answer := node.init()) is ErrorCode.concurrent_transactions:
            node.advance(1000)  # what was left open is aborted first
            answer = node.init()
        assert isinstance(answer, Producer), answer
        first, second = (self._visible(node, partition) for partition in (0, 1))
        assert first == second
        assert self.committed <= set(first)
        assert not self.aborted & set(first)
        assert first == sorted(first)
        offsets = node.ask(
            "offset_fetch", 7, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}], require_stable=True
        )
        (found,) = offsets.topics[0].partitions
        assert (found.error_code, found.committed_offset) == (ErrorCode.none, max(first, default=-1))
        node.close()
        assert files.open_descriptors == 0

    def _visible(self, node: TransactionHarness, index: int) -> list[int]:
        partition = node.node.partitions.find("t", index)
        assert partition is not None
        assert partition.last_stable_offset == partition.high_watermark, "nothing is undecided"
        (answer,) = node.fetch("t", 0, partition=index, isolation_level=1).responses[0].partitions
        aborted = [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions or ()]
        values, _ = visible_to_committed(bytes(answer.records), aborted)
        return [int(value or b"-1") for value in values.values()]


@pytest.mark.parametrize("how", ["killed", "broken", "full"])
def test_a_transaction_is_whole_or_not_there(how: str) -> None:
    for operation in range(0, 10_000, STRIDE):
        files = SimulatedFiles()
        node = TransactionHarness(ROOT, files)
        at = files.changes_made + operation
        if how == "killed":
            files.kill_at = at
        else:
            files.fail_at = {at: errno.EIO if how == "broken" else errno.ENOSPC}
        client = Client()
        with suppress(Killed, Interrupted):
            client.live(node)
        survivor = files.restarted()
        client.check(TransactionHarness(ROOT, survivor), survivor)
        if files.changes_made <= at:
            assert client.committed == {0, 2}
            assert client.aborted == {1}
            return
    raise AssertionError("not all operations were tried")


def test_with_flushed_topics_a_transaction_outlives_a_power_cut() -> None:
    for operation in range(0, 10_000, STRIDE):
        files = SimulatedFiles()
        node = FlushingHarness(files)
        at = files.kill_at = files.changes_made + operation
        client = Client()
        with suppress(Killed):
            client.live(node)
        for seed in range(3):
            survivor = files.after_power_cut(seed)
            client.check(FlushingHarness(survivor), survivor)
        if files.changes_made <= at:
            assert client.committed == {0, 2}
            return
    raise AssertionError("not all operations were tried")
