"""Transactions over three simulated brokers that die, pause and lose each other at random: all or nothing, once.

The producers are clients of version 1 of transactions, of version 2 (KIP-890), or of both, a transaction at a time. The
epochs of a producer id end early, so that version 2 goes through several ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure
from highwater.broker.features import Features
from highwater.broker.txn import transaction
from tests.broker.member.asking import TRANSACTION, AskedCluster, check_epochs, read_committed

KEYS = [("t", index) for index in range(3)]
_FENCED = (ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping)
_LOST = (ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable, *_FENCED)


class Lost(Exception):  # noqa: N818 - what happened to it
    """The transaction is not this producer's any more."""


class Producer:
    """Writes transactions as real producers do: what may have happened it asks for again, the same way."""

    def __init__(self, cluster: AskedCluster) -> None:
        self._cluster = cluster
        self.version = 1
        self._id = self._epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def _until_done(self, name: str, version: int, *, error_of: Any, **fields: Any) -> Any:
        while True:
            coordinator = self._cluster.coordinator("x", TRANSACTION)
            answer = self._cluster.ask(coordinator, name, version, **fields)
            if not isinstance(answer, PeerFailure):
                error = error_of(answer)
                if not error:
                    return answer
                if error in _LOST:
                    raise Lost(error)
            self._cluster.let_pass(50)

    def init(self) -> None:
        answer = self._until_done(
            "init_producer_id",
            2,
            error_of=lambda answer: answer.error_code,
            transactional_id="x",
            transaction_timeout=60_000,
        )
        self._become(answer)

    def _become(self, answer: Any) -> None:
        assert (answer.producer_id, answer.producer_epoch) > (self._id, self._epoch)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def write(self, values: dict[tuple[str, int], list[bytes]]) -> None:
        if self.version == 1:
            self._add(*values)
        for key, wanted in values.items():
            for value in wanted:
                self._write(key, value)

    def _add(self, *keys: tuple[str, int]) -> None:
        self._until_done(
            "add_partitions_to_txn",
            3,
            error_of=lambda answer: max(
                entry.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for entry in topic.results_by_partition
            ),
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[{"name": topic, "partitions": [index]} for topic, index in keys],
        )

    def _write(self, key: tuple[str, int], value: bytes) -> None:
        while True:
            leader = self._cluster.known_leader(key)
            outcome = None if leader is None else self._try(leader, key, value)
            if outcome in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                self._sequences[key] = self._sequences.get(key, 0) + 1
                return
            if outcome in _LOST or outcome is ErrorCode.out_of_order_sequence_number:
                raise Lost(outcome)
            self._cluster.let_pass(50)

    def _try(self, leader: int, key: tuple[str, int], value: bytes) -> ErrorCode | PeerFailure:
        return self._cluster.produce(
            leader,
            key,
            value,
            transactional_id="x",
            version=9 if self.version == 1 else 12,
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(key, 0),
            is_transactional=True,
        )

    def end(self, *, is_commit: bool) -> None:
        answer = self._until_done(
            "end_txn",
            1 if self.version == 1 else 5,
            error_of=lambda answer: answer.error_code,
            transactional_id="x",
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        if self.version == 2:
            self._become(answer)


@contextmanager
def trouble(cluster: AskedCluster, random: Random) -> Iterator[None]:
    """One broker at a time dies, stops or pauses, or loses another, and comes back."""
    world = cluster.cluster.world
    is_over = False

    def begin() -> None:
        if is_over:
            return
        broker = random.choice(cluster.brokers)
        other = random.choice([one for one in cluster.brokers if one is not broker])
        what = random.choice(("kill", "kill", "stop", "pause", "cut", "break"))
        for_ms = random.choice((200, 1000, 6000))
        if what == "kill":
            broker.kill()
        elif what == "stop":
            broker.stop()
        elif what == "pause" and broker.is_running:
            broker.pause()
        elif what == "cut":
            cluster.cluster.network.cut(broker.host, other.host)
            cluster.cluster.network.cut(other.host, broker.host)
        else:
            cluster.cluster.network.break_some(0.5)
        world.call_later(for_ms, mend)

    def mend() -> None:
        cluster.mend()
        world.call_later(random.choice((100, 1000, 3000)), begin)

    world.call_later(random.randrange(1000), begin)
    yield
    is_over = True
    cluster.mend()


def history(seed: int, versions: tuple[int, ...], transactions: int = 12) -> None:
    random = Random(seed)
    cluster = AskedCluster(seed)
    cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    producer = Producer(cluster)
    producer.init()
    committed: dict[tuple[str, int], list[bytes]] = {key: [] for key in KEYS}
    with trouble(cluster, random):
        for number in range(transactions):
            producer.version = random.choice(versions)
            keys = random.sample(KEYS, random.randint(1, 3))
            values = {key: [b"%d-%d" % (number, count) for count in range(random.randint(1, 3))] for key in keys}
            is_commit = random.random() < 0.7
            try:
                producer.write(values)
                cluster.let_pass(random.choice((0, 0, 500)))
                producer.end(is_commit=is_commit)
            except Lost:
                # It was aborted: a new instance begins after it.
                producer.init()
                continue
            for key in keys if is_commit else ():
                committed[key] += values[key]
    cluster.wait(lambda: cluster.cluster.is_whole)
    producer.init()  # whatever was open is over, and its markers are written
    cluster.wait(lambda: all(read_committed(cluster[1], key) == committed[key] for key in KEYS))
    for broker in cluster.brokers:
        for key in KEYS:
            assert read_committed(broker, key) == committed[key]
            check_epochs(broker, key)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("level", "versions"), [(0, (1,)), (2, (2,)), (2, (1, 2)), (0, (1, 2))])
def test_all_or_nothing_and_once(seed: int, level: int, versions: tuple[int, ...]) -> None:
    with patch.object(Features, "level", lambda self, name: level), patch.object(transaction, "LAST_EPOCH", 4):
        history(seed, versions)
