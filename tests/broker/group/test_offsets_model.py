"""Offsets of groups against a model, through the APIs, the log, transactions, expiry, kills and restarts."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode

from tests.broker.group.asking import GroupHarness

pytestmark = pytest.mark.slow
RETENTION_MS = 3_600_000
CHECK_MS = 60_000
GROUPS = st.sampled_from(["a", "b", "c"])
PRODUCERS = st.integers(1, 3)
PARTITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))


class OffsetsModel(RuleBasedStateMachine):
    """Simple consumers: every offset ages from its own commit."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.committed: dict[str, dict[tuple[str, int], tuple[int, int]]] = {"a": {}, "b": {}, "c": {}}
        self.undecided: list[tuple[int, str, tuple[str, int], tuple[int, int]]] = []
        """(producer, group, partition, what it would be), in the order of writing."""

    @initialize()
    def start(self) -> None:
        self.node = self.open()
        self.node.create_topic("u", 2)
        self.node.find()

    def open(self) -> GroupHarness:
        return GroupHarness(
            Path(self.directory.name) / "log",
            offsets_retention_minutes=str(RETENTION_MS // 60_000),
            offsets_retention_check_interval_ms=str(CHECK_MS),
            transaction_partition_verification_enable="false",
        )

    def void(self, group: str, partitions: Collection[tuple[str, int]]) -> None:
        """Something else was written of these."""
        self.undecided = [entry for entry in self.undecided if entry[1] != group or entry[2] not in partitions]

    def is_known(self, group: str) -> bool:
        return bool(self.committed[group]) or any(entry[1] == group for entry in self.undecided)

    @rule(group=GROUPS, offsets=st.dictionaries(PARTITIONS, st.integers(0, 1000), min_size=1))
    def commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        outcomes = self.node.commit(offsets, group=group)
        assert set(outcomes.values()) == {ErrorCode.none}
        now_ms = self.node.clock.now_ms()
        self.committed[group] |= {partition: (offset, now_ms) for partition, offset in offsets.items()}
        self.void(group, offsets)

    @rule(group=GROUPS, producer=PRODUCERS, offsets=st.dictionaries(PARTITIONS, st.integers(0, 1000), min_size=1))
    def commit_in_transaction(self, group: str, producer: int, offsets: dict[tuple[str, int], int]) -> None:
        outcomes = self.node.commit_in_transaction(offsets, group=group, producer_id=producer)
        assert set(outcomes.values()) == {ErrorCode.none}
        now_ms = self.node.clock.now_ms()
        for partition, offset in offsets.items():
            of_producer = (producer, group, partition)
            self.undecided = [entry for entry in self.undecided if entry[:3] != of_producer]
            self.undecided.append((*of_producer, (offset, now_ms)))

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        assert self.node.end_transaction(is_commit, producer_id=producer) == {ErrorCode.none}
        kept: list[tuple[int, str, tuple[str, int], tuple[int, int]]] = []
        for entry in self.undecided:
            if entry[0] != producer:
                kept.append(entry)
            elif is_commit:
                _, group, partition, offset = entry
                self.committed[group][partition] = offset
                kept = [other for other in kept if other[1:3] != (group, partition)]
        self.undecided = kept

    @rule(group=GROUPS, partition=PARTITIONS)
    def delete_offset(self, group: str, partition: tuple[str, int]) -> None:
        topic, index = partition
        topics = [{"name": topic, "partitions": [{"partition_index": index}]}]
        answer = self.node.ask("offset_delete", 0, group_id=group, topics=topics)
        assert answer.error_code == (ErrorCode.none if self.is_known(group) else ErrorCode.group_id_not_found)
        self.committed[group].pop(partition, None)
        self.void(group, [partition])

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        (result,) = self.node.ask("delete_groups", 2, groups_names=[group]).results
        assert result.error_code == (ErrorCode.none if self.is_known(group) else ErrorCode.group_id_not_found)
        self.committed[group] = {}
        self.undecided = [entry for entry in self.undecided if entry[1] != group]

    @rule()
    def delete_topic(self) -> None:
        self.node.ask("delete_topics", 5, topic_names=["u"], timeout=1000)
        self.node.create_topic("u", 2)
        self.undecided = [entry for entry in self.undecided if entry[2][0] != "u"]
        for offsets in self.committed.values():
            for partition in [key for key in offsets if key[0] == "u"]:
                del offsets[partition]

    @rule(minutes=st.integers(1, 90))
    def wait(self, minutes: int) -> None:
        for _ in range(minutes):
            self.node.advance(CHECK_MS)
        now_ms = self.node.clock.now_ms()
        undecided = {entry[1:3] for entry in self.undecided}
        for group, offsets in self.committed.items():
            for partition, (_, committed_ms) in tuple(offsets.items()):
                if now_ms - committed_ms >= RETENTION_MS and (group, partition) not in undecided:
                    del offsets[partition]

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        clock = self.node.clock
        self.node.close(clean=is_clean)
        self.node = self.open()
        self.node.clock.advance_ms(clock.now_ms() - self.node.clock.now_ms())

    @invariant()
    def the_same_is_committed(self) -> None:
        if hasattr(self, "node"):
            for group, offsets in self.committed.items():
                found = self.node.fetch_offsets(group=group)
                assert found == {partition: (offset, "") for partition, (offset, _) in offsets.items()}
            known = {group.group_id for group in self.node.ask("list_groups", 4).groups}
            assert known == {group for group in self.committed if self.is_known(group)}

    @invariant()
    def what_may_change_is_told_to_who_asks(self) -> None:
        if hasattr(self, "node"):
            for group, offsets in self.committed.items():
                changing = {entry[2] for entry in self.undecided if entry[1] == group}
                for partition in [("t", 0), ("t", 1), ("u", 0), ("u", 1)]:
                    found = self.node.fetch_offsets(partition, group=group, require_stable=True)
                    if partition in changing:
                        assert found == ErrorCode.unstable_offset_commit
                    else:
                        assert found == ({partition: (offsets[partition][0], "")} if partition in offsets else {})

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.close(clean=False)
        self.directory.cleanup()


TestOffsetsModel = OffsetsModel.TestCase
TestOffsetsModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
