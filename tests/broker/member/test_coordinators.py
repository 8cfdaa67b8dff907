"""Coordinators of groups and transactions over three brokers: found, moved, and asked by each other."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from highwater.broker.txn.transaction import Producer, TxnState
from tests.broker.member.asking import GROUP, TRANSACTION, AskedCluster, error_codes, log_of


class TestFinding:
    @pytest.mark.parametrize(("kind", "topic"), [(GROUP, OFFSETS_TOPIC), (TRANSACTION, TRANSACTIONS_TOPIC)])
    def test_who_asks_first_has_the_topic_made(self, kind: int, topic: str) -> None:
        cluster = AskedCluster()
        answer = cluster.ask(2, "find_coordinator", 3, key="x", key_type=kind)
        assert answer.error_code is ErrorCode.coordinator_not_available
        coordinator = cluster.coordinator("x", kind, of=2)
        cluster.wait(lambda: all(cluster.leader(of, (topic, 0)) == coordinator for of in (1, 2, 3)))
        assert [cluster.coordinator("x", kind, of=of) for of in (1, 2, 3)] == [coordinator] * 3
        view = cluster[1].node.cluster.partition(topic, 0)  # type: ignore[union-attr]
        assert view is not None
        assert sorted(view.replicas) == [1, 2, 3]

    def test_the_others_do_not_coordinate(self) -> None:
        cluster = AskedCluster()
        coordinator = cluster.coordinator("g", GROUP)
        for broker_id in {1, 2, 3} - {coordinator}:
            answer = cluster.ask(broker_id, "heartbeat", 3, group_id="g", generation_id=1, member_id="m")
            assert answer.error_code is ErrorCode.not_coordinator

    def test_too_few_brokers(self) -> None:
        cluster = AskedCluster(offsets_topic_replication_factor="4")
        for _ in range(3):
            answer = cluster.ask(1, "find_coordinator", 3, key="g", key_type=GROUP)
            assert answer.error_code is ErrorCode.coordinator_not_available
            cluster.let_pass(1000)


def _join(cluster: AskedCluster, broker_id: int, member_id: str = "", instance: str | None = "i") -> Any:
    return cluster.ask(
        broker_id,
        "join_group",
        5,
        group_id="g",
        session_timeout=10_000,
        rebalance_timeout=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"}],
    )


def _commit(cluster: AskedCluster, broker_id: int, offset: int, member_id: str, generation: int) -> ErrorCode:
    answer = cluster.ask(
        broker_id,
        "offset_commit",
        7,
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id="i",
        topics=[
            {
                "name": "t",
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": offset,
                        "committed_leader_epoch": 0,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    )
    return error_codes(answer.topics)["t", 0]


def _offset(cluster: AskedCluster, broker_id: int) -> Any:
    answer = cluster.ask(broker_id, "offset_fetch", 5, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}])
    return answer.error_code or answer.topics[0].partitions[0].committed_offset


def _describe(cluster: AskedCluster, broker_id: int) -> Any:
    return cluster.ask(broker_id, "describe_groups", 4, groups=["g"]).groups[0]


class TestGroups:
    @pytest.fixture
    def cluster(self) -> AskedCluster:
        cluster = AskedCluster()
        cluster.create_topic("t", [1, 2, 3])
        return cluster

    def test_a_group_moves_with_its_coordinator(self, cluster: AskedCluster) -> None:
        coordinator = cluster.coordinator("g", GROUP)
        joined = cluster.until(lambda: _join(cluster, coordinator), lambda answer: not answer.error_code)
        member_id, generation = joined.member_id, joined.generation_id
        synced = cluster.ask(
            coordinator,
            "sync_group",
            3,
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id="i",
            assignments=[{"member_id": member_id, "assignment": b"its partitions"}],
        )
        assert not synced.error_code
        assert not _commit(cluster, coordinator, 7, member_id, generation)
        before = _describe(cluster, coordinator)
        assert before.group_state == "Stable"

        cluster[coordinator].kill()
        cluster.wait(lambda: cluster.coordinator("g", GROUP) != coordinator)
        successor = cluster.coordinator("g", GROUP)
        after = cluster.until(lambda: _describe(cluster, successor), lambda answer: not answer.error_code)
        assert after == before
        beat = cluster.ask(
            successor,
            "heartbeat",
            3,
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id="i",
        )
        assert beat.error_code is ErrorCode.none
        assert _offset(cluster, successor) == 7
        assert not _commit(cluster, successor, 8, member_id, generation)

        cluster[coordinator].start()
        cluster.wait(lambda: cluster.cluster.is_whole)
        assert _offset(cluster, successor) == 8

    def test_who_waits_is_told_that_the_coordinator_went(self, cluster: AskedCluster) -> None:
        coordinator = cluster.coordinator("g", GROUP)
        first = cluster.until(lambda: _join(cluster, coordinator), lambda answer: not answer.error_code)
        # It does not sync, so whoever follows waits.
        waiting = cluster.send(
            coordinator,
            "join_group",
            5,
            group_id="g",
            session_timeout=10_000,
            rebalance_timeout=10_000,
            member_id="",
            group_instance_id="other",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}],
        )
        cluster.let_pass(500)
        assert waiting.waits
        assert first.generation_id == 1
        cluster[coordinator].stop()
        cluster.wait(lambda: not waiting.waits)
        assert waiting.answer.error_code is ErrorCode.not_coordinator

    def test_a_commit_whose_replicas_answer_late_counts_from_then_on(self, cluster: AskedCluster) -> None:
        """The client is told after `offsets.commit.timeout.ms`; whoever reads the log has the offset all the same."""
        coordinator = cluster.coordinator("g", GROUP)
        cluster.wait(lambda: _offset(cluster, coordinator) == -1)
        followers = {1, 2, 3} - {coordinator}
        for follower in followers:
            cluster.cluster.network.cut(cluster[follower].host, cluster[coordinator].host)
        assert _simple_commit(cluster, coordinator) is ErrorCode.request_timed_out
        assert _offset(cluster, coordinator) == -1
        cluster.mend()
        cluster.wait(lambda: _offset(cluster, coordinator) == 3)
        assert cluster.coordinator("g", GROUP) == coordinator

    def test_offsets_of_a_deleted_topic_are_forgotten(self, cluster: AskedCluster) -> None:
        coordinator = cluster.coordinator("g", GROUP)
        joined = cluster.until(lambda: _join(cluster, coordinator), lambda answer: not answer.error_code)
        cluster.let_pass(20_000)  # the session ends
        assert joined.member_id
        answer = cluster.until(lambda: _simple_commit(cluster, coordinator), lambda error: error is ErrorCode.none)
        assert answer is ErrorCode.none
        _delete_topic(cluster, "t")
        cluster.wait(lambda: _offset(cluster, coordinator) == -1)


def _delete_topic(cluster: AskedCluster, name: str) -> None:
    controller = next(
        broker.broker_id
        for broker in cluster.brokers
        if broker.node is not None and broker.node.administration.is_controller
    )
    answer = cluster.ask(controller, "delete_topics", 3, topic_names=[name], timeout=10_000)
    assert not answer.responses[0].error_code


def _simple_commit(cluster: AskedCluster, broker_id: int) -> ErrorCode:
    answer = cluster.ask(
        broker_id,
        "offset_commit",
        2,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            {
                "name": "t",
                "partitions": [{"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}],
            }
        ],
    )
    return error_codes(answer.topics)["t", 0]


class Transactional:
    """A producer of the transactional id "x", and what real ones do again until it is done."""

    def __init__(self, cluster: AskedCluster) -> None:
        self._cluster = cluster
        self.producer = Producer(-1, -1)
        self._sequences: dict[tuple[str, int], int] = {}

    def _ask(self, name: str, version: int, /, **fields: Any) -> Any:
        cluster = self._cluster
        return cluster.ask(cluster.coordinator("x", TRANSACTION), name, version, **fields)

    def init(self, timeout_ms: int = 30_000) -> None:
        answer = self._cluster.until(
            lambda: self._ask("init_producer_id", 2, transactional_id="x", transaction_timeout=timeout_ms),
            lambda answer: not answer.error_code,
        )
        self.producer = Producer(answer.producer_id, answer.producer_epoch)
        self._sequences.clear()

    def add(self, *keys: tuple[str, int]) -> None:
        def add() -> Any:
            return self._ask(
                "add_partitions_to_txn",
                3,
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=self.producer.producer_id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[{"name": topic, "partitions": [index]} for topic, index in keys],
            )

        def is_good(answer: Any) -> bool:
            return all(
                not entry.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for entry in topic.results_by_partition
            )

        self._cluster.until(add, is_good)

    def try_to_write(self, key: tuple[str, int], value: bytes, broker_id: int | None = None) -> Any:
        leader = broker_id or self._cluster.leader(self._cluster.brokers[0].broker_id, key)
        return self._cluster.produce(
            leader,
            key,
            value,
            transactional_id="x",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=self._sequences.get(key, 0),
            is_transactional=True,
        )

    def write(self, key: tuple[str, int], value: bytes) -> None:
        self._cluster.until(lambda: self.try_to_write(key, value), lambda error: error is ErrorCode.none)
        self._sequences[key] = self._sequences.get(key, 0) + 1

    def add_offsets(self, group_id: str) -> None:
        self._cluster.until(
            lambda: self._ask(
                "add_offsets_to_txn",
                1,
                transactional_id="x",
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                group_id=group_id,
            ),
            lambda answer: not answer.error_code,
        )

    def try_to_commit_offset(self, group_id: str, key: tuple[str, int], offset: int) -> ErrorCode:
        topic, index = key
        entry = {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = self._cluster.ask(
            self._cluster.coordinator(group_id, GROUP),
            "txn_offset_commit",
            2,
            transactional_id="x",
            group_id=group_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=[{"name": topic, "partitions": [entry]}],
        )
        return error_codes(answer.topics)[key]

    def commit_offset(self, group_id: str, key: tuple[str, int], offset: int) -> None:
        self._cluster.until(
            lambda: self.try_to_commit_offset(group_id, key, offset), lambda error: error is ErrorCode.none
        )

    def end(self, *, is_commit: bool) -> None:
        self._cluster.until(
            lambda: self._ask(
                "end_txn",
                1,
                transactional_id="x",
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                committed=is_commit,
            ),
            lambda answer: not answer.error_code,
        )


A, B = ("t", 0), ("t", 1)


class TestTransactions:
    @pytest.fixture
    def cluster(self) -> AskedCluster:
        cluster = AskedCluster()
        cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        return cluster

    @pytest.fixture
    def producer(self, cluster: AskedCluster) -> Transactional:
        producer = Transactional(cluster)
        producer.init()
        return producer

    @pytest.mark.parametrize("is_commit", [True, False])
    def test_markers_go_to_every_leader(self, cluster: AskedCluster, producer: Transactional, is_commit: bool) -> None:
        keys = [("t", index) for index in range(3)]
        producer.add(*keys)
        for key in keys:
            producer.write(key, b"v")
        producer.end(is_commit=is_commit)
        end = "commit" if is_commit else "abort"
        cluster.wait(lambda: all(log_of(broker, key) == ["v", end] for broker in cluster.brokers for key in keys))
        # The next one begins in the same partitions: the one before is over for its coordinator, too.
        producer.add(*keys)
        producer.write(keys[0], b"w")
        producer.end(is_commit=True)
        cluster.wait(lambda: log_of(cluster[1], keys[0]) == ["v", end, "w", "commit"])

    def test_a_coordinator_that_leads_a_partition_of_the_transaction_is_not_slower(
        self, cluster: AskedCluster, producer: Transactional
    ) -> None:
        """It writes as a follower's request moves the high watermark on, and that follower must hear of it at once."""
        coordinator = cluster.coordinator("x", TRANSACTION)
        key = ("t", coordinator - 1)
        assert cluster.leader(1, key) == coordinator
        producer.add(key)
        producer.write(key, b"v")
        producer.end(is_commit=True)
        node = cluster[coordinator].node
        assert node is not None
        before_ms = cluster.cluster.world.now_ms

        def is_complete() -> bool:
            described = node.transactions.describe("x")
            return not isinstance(described, ErrorCode) and described.state is TxnState.COMPLETE_COMMIT

        cluster.wait(is_complete)
        assert cluster.cluster.world.now_ms - before_ms < 100  # of simulated time

    def test_a_partition_that_is_not_in_the_transaction(self, cluster: AskedCluster, producer: Transactional) -> None:
        for leader in (1, 2, 3):
            key = ("t", leader - 1)
            assert cluster.leader(1, key) == leader
            assert producer.try_to_write(key, b"late") is ErrorCode.invalid_txn_state
            assert log_of(cluster[leader], key) == []

    def test_a_fenced_producer(self, cluster: AskedCluster, producer: Transactional) -> None:
        producer.add(A, B)
        Transactional(cluster).init()
        for key in (A, B):
            assert producer.try_to_write(key, b"late") is ErrorCode.invalid_producer_epoch

    def test_the_coordinator_dies_after_each_step(self, cluster: AskedCluster, producer: Transactional) -> None:
        """What was decided is carried out by who comes after it, and what was not is open still."""

        def move() -> None:
            coordinator = cluster.coordinator("x", TRANSACTION)
            cluster[coordinator].kill()
            cluster.wait(lambda: cluster.coordinator("x", TRANSACTION) != coordinator)
            cluster[coordinator].start()
            cluster.wait(lambda: cluster.cluster.is_whole)

        move()
        producer.add(A, B)
        move()
        producer.write(A, b"a")
        producer.write(B, b"b")
        move()
        producer.end(is_commit=True)
        coordinator = cluster.coordinator("x", TRANSACTION)
        cluster[coordinator].kill()  # before most of the markers are written
        cluster.wait(lambda: log_of(cluster[_other(coordinator)], A)[-1:] == ["commit"])
        cluster[coordinator].start()
        cluster.wait(lambda: cluster.cluster.is_whole)
        for broker in cluster.brokers:
            assert log_of(broker, A)[0] == "a"
            assert set(log_of(broker, A)[1:]) == {"commit"}
            assert log_of(broker, B)[0] == "b"
            assert set(log_of(broker, B)[1:]) == {"commit"}

    def test_markers_wait_for_a_leader(self, cluster: AskedCluster, producer: Transactional) -> None:
        """The leader of a partition dies before its marker: its successor gets it."""
        producer.add(A, B)
        producer.write(A, b"a")
        producer.write(B, b"b")
        coordinator = cluster.coordinator("x", TRANSACTION)
        key = A if coordinator != 1 else B
        leader = cluster.leader(coordinator, key)
        cluster[leader].pause()
        producer.end(is_commit=True)
        cluster[leader].kill()
        cluster.wait(lambda: log_of(cluster[coordinator], key)[-1:] == ["commit"])
        cluster[leader].start()
        cluster.wait(lambda: cluster.cluster.is_whole)
        assert log_of(cluster[leader], key)[-1] == "commit"

    def test_a_partition_that_the_coordinator_was_not_told_of_is_not_gone(self, cluster: AskedCluster) -> None:
        """A controller that takes over tells last of partitions of whose replicas none lives."""
        coordinator = cluster.coordinator("x", TRANSACTION)
        leader = _other(coordinator)
        cluster.create_topic("alone", [leader])
        alone = ("alone", 0)
        producer = Transactional(cluster)
        producer.init()
        producer.add(A, alone)
        producer.write(alone, b"b")
        node = cluster[coordinator].node
        assert node is not None
        assert isinstance(node.cluster, MetadataCache)
        del node.cluster._topics["alone"]
        producer.end(is_commit=True)
        cluster.wait(lambda: log_of(cluster[coordinator], A) == ["commit"])
        cluster.let_pass(1000)
        cluster[leader].kill()
        cluster[leader].start()
        cluster.wait(lambda: cluster.leader(coordinator, alone) == leader)
        cluster.wait(lambda: log_of(cluster[leader], alone) == ["b", "commit"])

    def test_a_topic_that_is_gone_needs_no_markers(self, cluster: AskedCluster, producer: Transactional) -> None:
        cluster.create_topic("gone", [1, 2, 3], [2, 3, 1])
        producer.add(A, ("gone", 0), ("gone", 1))
        producer.write(A, b"a")
        _delete_topic(cluster, "gone")
        producer.end(is_commit=True)
        producer.add(B)
        producer.write(B, b"b")
        producer.end(is_commit=True)
        cluster.wait(lambda: log_of(cluster[1], B) == ["b", "commit"])

    def test_nobody_ends_it(self, cluster: AskedCluster) -> None:
        producer = Transactional(cluster)
        producer.init(timeout_ms=3000)
        producer.add(A, B)
        producer.write(B, b"b")
        cluster.wait(lambda: log_of(cluster[2], B) == ["b", "abort"])

    def test_offsets_in_a_transaction(self, cluster: AskedCluster, producer: Transactional) -> None:
        coordinator = cluster.coordinator("g", GROUP)
        for offset, is_commit in ((5, True), (9, False)):
            producer.add_offsets("g")
            producer.commit_offset("g", ("t", 0), offset)
            assert _offset(cluster, coordinator) == (-1 if is_commit else 5)
            producer.end(is_commit=is_commit)
            cluster.until(lambda: _stable_offset(cluster, coordinator), lambda found: found == 5)

    def test_offsets_of_a_producer_whose_transaction_has_none(
        self, cluster: AskedCluster, producer: Transactional
    ) -> None:
        cluster.coordinator("g", GROUP)
        producer.add(A)
        assert producer.try_to_commit_offset("g", ("t", 0), 5) is ErrorCode.invalid_txn_state


def _other(broker_id: int) -> int:
    return broker_id % 3 + 1


def _stable_offset(cluster: AskedCluster, broker_id: int) -> Any:
    answer = cluster.ask(
        broker_id,
        "offset_fetch",
        7,
        group_id="g",
        topics=[{"name": "t", "partition_indexes": [0]}],
        require_stable=True,
    )
    entry = answer.topics[0].partitions[0]
    return entry.error_code or entry.committed_offset


class TestProducerIds:
    def test_no_two_brokers_give_out_the_same(self) -> None:
        cluster = AskedCluster()

        def take(broker_id: int) -> int:
            answer = cluster.until(
                lambda: cluster.ask(broker_id, "init_producer_id", 2, transactional_id=None, transaction_timeout=1000),
                lambda answer: answer.error_code is ErrorCode.none,
            )
            producer_id: int = answer.producer_id
            return producer_id

        first = cluster.ask(1, "init_producer_id", 2, transactional_id=None, transaction_timeout=1000)
        assert first.error_code is ErrorCode.coordinator_load_in_progress
        taken = [take(broker_id) for broker_id in (1, 2, 3) for _ in range(3)]
        assert taken == [0, 1, 2, 1000, 1001, 1002, 2000, 2001, 2002]

    def test_the_next_block_is_there_before_the_first_is_used_up(self) -> None:
        cluster = AskedCluster()
        node = cluster[1].node
        assert node is not None
        node.producer_ids.next()
        cluster.let_pass(1000)
        taken = []
        for _ in range(3000):
            taken.append(node.producer_ids.next())
            if len(taken) % 50 == 0:
                cluster.let_pass(100)
        assert taken == list(range(3000))


class TestCreation:
    def test_any_broker_has_topics_made_for_their_first_user(self) -> None:
        cluster = AskedCluster(num_partitions="2")
        for broker_id in (1, 2, 3):
            name = f"new{broker_id}"

            def ask(broker_id: int = broker_id, name: str = name) -> Any:
                return cluster.ask(
                    broker_id, "metadata", 7, topics=[{"name": name}], allow_auto_topic_creation=True
                ).topics[0]

            assert ask().error_code is ErrorCode.leader_not_available
            topic = cluster.until(ask, lambda answer: not answer.error_code)
            assert len(topic.partitions) == 2
            assert all(len(partition.replica_nodes) == 3 for partition in topic.partitions)

    def test_the_reason_why_not_is_told(self) -> None:
        cluster = AskedCluster(default_replication_factor="4")

        def ask() -> Any:
            return cluster.ask(2, "metadata", 7, topics=[{"name": "t"}], allow_auto_topic_creation=True).topics[0]

        assert ask().error_code is ErrorCode.leader_not_available
        cluster.until(ask, lambda answer: answer.error_code is ErrorCode.invalid_replication_factor)
