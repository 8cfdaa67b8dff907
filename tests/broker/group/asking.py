"""Requests of consumer groups, for tests on a node without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from tests.broker.handlers.harness import NodeHarness, Pending


class GroupHarness(NodeHarness):
    """A node that is asked about groups. It has a topic `t` of four partitions, and a small topic of offsets."""

    def __init__(self, log_dir: Path, **properties: str) -> None:
        defaults = {"offsets_topic_num_partitions": "3", "group_initial_rebalance_delay_ms": "0"}
        super().__init__(log_dir, **(defaults | properties))
        if self.node.partitions.topic("t") is None:
            self.create_topic("t", 4)
        self.scheduler.run()

    def find(self, version: int = 3, key_type: int = 0) -> Any:
        wanted: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
        answer = self.ask("find_coordinator", version, **wanted, **({"key_type": key_type} if version else {}))
        return answer.coordinators[0] if version >= 4 else answer

    def advance(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.scheduler.run(duration_ms)

    def join(self, member_id: str = "", *, group: str = "g", version: int = 5, **fields: Any) -> Any:
        defaults = {
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}],
        }
        if version == 0:
            del defaults["rebalance_timeout"]
        return self.ask("join_group", version, group_id=group, member_id=member_id, **(defaults | fields))

    def sync(
        self, member_id: str, generation: int = 1, *, group: str = "g", version: int = 3, **assigned: bytes
    ) -> Any:
        assignments = [{"member_id": member, "assignment": data} for member, data in assigned.items()]
        names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        return self.ask(
            "sync_group", version, group_id=group, generation_id=generation, member_id=member_id,
            assignments=assignments, **names,
        )  # fmt: skip

    def become_stable(self, *, group: str = "g") -> str:
        """A group of one member; its id."""
        given = self.join(group=group)
        joined = self.join(given.member_id, group=group)
        self.scheduler.run()
        synced = self.sync(given.member_id, joined.answer.generation_id, group=group)
        assert synced.error_code == ErrorCode.none
        return str(given.member_id)

    def beat(self, member_id: str, epoch: int = 0, *, group: str = "g", version: int = 1, **fields: Any) -> Any:
        """A heartbeat of a member of a consumer group. With the epoch 0 it joins and reads `t`."""
        joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        told = (joining if epoch == 0 else {"topic_partitions": None}) | fields
        if isinstance(owned := told["topic_partitions"], set):
            told["topic_partitions"] = [{"topic_id": self.topic_id("t"), "partitions": sorted(owned)}]
        return self.ask(
            "consumer_group_heartbeat", version, group_id=group, member_id=member_id, member_epoch=epoch, **told
        )

    def topic_id(self, name: str) -> UUID:
        topic = self.node.partitions.topic(name)
        assert topic is not None
        return topic.topic_id

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        metadata: str | None = None,
        version: int = 8,
        **fields: Any,
    ) -> Any:
        """The outcomes by partition, or Pending."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            topics.setdefault(topic, []).append(entry)
        by_id = version >= 10
        answer = self.ask(
            "offset_commit", version, group_id=group, member_id=member_id, generation_id_or_member_epoch=generation,
            topics=[
                self.topic_key(name, is_by_id=by_id) | {"partitions": partitions} for name, partitions in topics.items()
            ],
            **fields,
        )  # fmt: skip
        if isinstance(answer, Pending):
            return answer
        return {
            (self.name_in(topic, topics, is_by_id=by_id), p.partition_index): p.error_code
            for topic in answer.topics
            for p in topic.partitions
        }

    def name_in(self, answered: Any, asked: Iterable[str], *, is_by_id: bool) -> str:
        """The name of a topic in an answer, by the id that it has, or had when it was asked for."""
        if not is_by_id:
            return str(answered.name)
        names = {self.topic_key(name, is_by_id=True)["topic_id"]: name for name in (*asked, "t")}
        return names[answered.topic_id]

    def commit_in_transaction(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        producer_id: int = 1,
        producer_epoch: int = 0,
        group: str = "g",
        version: int = 3,
        transactional_id: str = "x",
        **fields: Any,
    ) -> Any:
        """The outcomes by partition, or Pending."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": None}
            topics.setdefault(topic, []).append(entry)
        by_id = version >= 6
        answer = self.ask(
            "txn_offset_commit", version, group_id=group, transactional_id=transactional_id, producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[
                self.topic_key(name, is_by_id=by_id) | {"partitions": partitions} for name, partitions in topics.items()
            ],
            **fields,
        )  # fmt: skip
        if isinstance(answer, Pending):
            return answer
        return {
            (self.name_in(topic, topics, is_by_id=by_id), p.partition_index): p.error_code
            for topic in answer.topics
            for p in topic.partitions
        }

    def begin(self, transactional_id: str = "x") -> dict[str, Any]:
        """The fields of a producer that may commit in a transaction."""
        self.ask("find_coordinator", 3, key=transactional_id, key_type=1)
        self.scheduler.run()
        begun = self.ask("init_producer_id", 4, transactional_id=transactional_id, transaction_timeout=60_000)
        return {
            "transactional_id": transactional_id,
            "producer_id": begun.producer_id,
            "producer_epoch": begun.producer_epoch,
        }

    def end_transaction(self, is_commit: bool, *, producer_id: int = 1, producer_epoch: int = 0) -> set[ErrorCode]:
        """Write markers into all partitions of the topic of offsets; what comes of it."""
        marker = {
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "transaction_result": is_commit,
            "topics": [{"name": OFFSETS_TOPIC, "partition_indexes": [0, 1, 2]}],
            "coordinator_epoch": 0,
        }
        answer = self.ask("write_txn_markers", 1, markers=[marker])
        return {partition.error_code for partition in answer.markers[0].topics[0].partitions}

    def fetch_offsets(self, *partitions: tuple[str, int], group: str = "g", version: int = 7, **fields: Any) -> Any:
        """(offset, metadata) by partition of those that have an offset, or the error; of all when none is named."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        by_id = version >= 10
        wanted = [
            self.topic_key(name, is_by_id=by_id) | {"partition_indexes": indexes} for name, indexes in topics.items()
        ] or None
        if version >= 8:
            answer = self.ask("offset_fetch", version, groups=[{"group_id": group, "topics": wanted}], **fields)
            (answer,) = answer.groups
            assert answer.group_id == group
        else:
            answer = self.ask("offset_fetch", version, group_id=group, topics=wanted, **fields)
        if version >= 2 and answer.error_code:
            return answer.error_code
        found = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    return partition.error_code
                if partition.committed_offset != -1:
                    name = self.name_in(topic, topics, is_by_id=by_id)
                    found[name, partition.partition_index] = (partition.committed_offset, partition.metadata)
        return found

    def state(self, group: str = "g") -> str:
        (described,) = self.ask("describe_groups", 5, groups=[group]).groups
        return str(described.group_state) or described.error_code.name


def successive_harnesses(log_dir: Path) -> Iterator[Callable[..., GroupHarness]]:
    """Yield what takes up the directory, with each call after the one before was killed."""
    made: list[GroupHarness] = []

    def make(**properties: str) -> GroupHarness:
        if made:
            made.pop().close(clean=False)
        made.append(GroupHarness(log_dir, **properties))
        return made[-1]

    yield make
    for node in made:
        node.close(clean=False)
