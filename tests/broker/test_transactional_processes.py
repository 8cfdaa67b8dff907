"""Transactions of versions 1 and 2 beside each other on a broker of two processes, which are killed in turn."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.broker.running_processes import children_of, free_ports_in_a_row, start
from tests.broker.test_processes import DEADLINE_S, command
from tests.broker.txn.wire_producer import WireProducer
from tests.reading import read_to_end
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
PARTITIONS = 4
KILLS = 6


class Life:
    """The transactions of one transactional id, one after another; every third is aborted."""

    def __init__(self, address: str, name: str, versions: tuple[int, ...]) -> None:
        self.name = name
        self.ended = 0
        self.failure: BaseException | None = None
        self._address = address
        self._versions = versions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name=name)
        self._thread.start()

    @staticmethod
    def is_commit(number: int) -> bool:
        return number % 3 != 1

    def _live(self) -> None:
        try:
            while not self._stopping.is_set():
                for version in self._versions:
                    self._some_transactions(WireProducer(self._address, self.name, version))
        except BaseException as error:
            self.failure = error

    def _some_transactions(self, producer: WireProducer) -> None:
        """An instance that fences the one before."""
        producer.init()
        for _ in range(20):
            if self._stopping.is_set():
                break
            for partition in range(PARTITIONS):
                producer.write("t", partition, f"{self.name}-{self.ended}".encode())
            producer.commit_offsets(self.name, {("t", 0): self.ended + 1})
            producer.end(is_commit=self.is_commit(self.ended))
            self.ended += 1
        producer.close()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def committed(self) -> list[int]:
        return [number for number in range(self.ended) if self.is_commit(number)]


def read_committed(address: str, count: int) -> Counter[tuple[int, str]]:
    found = read_to_end(address, "t", PARTITIONS, at_least=count)
    return Counter((each.partition, each.value.decode()) for each in found)


def committed_offset(address: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        (at,) = consumer.committed([TopicPartition("t", 0)], DEADLINE_S)
        return int(at.offset)
    finally:
        consumer.close()


def test_each_transaction_counts_once_or_not_at_all_whoever_is_killed(tmp_path: Path) -> None:
    broker = start(tmp_path / "home", free_ports_in_a_row(4), 2)
    lives: list[Life] = []
    try:
        address = broker.address
        command(address, "topics", "--create", "--topic", "t", "--partitions", str(PARTITIONS))
        lives += [
            Life(address, "new", (2,)),
            Life(address, "newer", (2,)),
            Life(address, "old", (1,)),
            Life(address, "in-turn", (2, 1)),
        ]
        for kill in range(KILLS):
            before = [life.ended for life in lives]

            def go_on(before: list[int] = before) -> bool:
                return all(life.failure or life.ended > ended + 5 for life, ended in zip(lives, before, strict=True))

            wait_until(go_on, "all go on", DEADLINE_S)
            os.kill(children_of(broker)[kill % 2], signal.SIGKILL)
            wait_until(lambda: set(children_of(broker)) == {0, 1}, "both processes run", DEADLINE_S)
        for life in lives:
            life.finish()
        assert [life.failure for life in lives] == [None] * len(lives)
        wanted = {
            (partition, f"{life.name}-{number}")
            for life in lives
            for number in life.committed
            for partition in range(PARTITIONS)
        }
        found = read_committed(address, len(wanted))
        assert set(found) == wanted
        assert set(found.values()) == {1}
        assert [committed_offset(address, life.name) for life in lives] == [life.committed[-1] + 1 for life in lives]
        assert broker.stop() == 0
    finally:
        for life in lives:
            life.finish()
        broker.kill()
