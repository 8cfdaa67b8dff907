"""Offsets of groups against a model, through the APIs, the log, expiry, kills and restarts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode

from tests.broker.group.asking import GroupHarness

RETENTION_MS = 3_600_000
CHECK_MS = 60_000
GROUPS = st.sampled_from(["a", "b", "c"])
PARTITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))


class OffsetsModel(RuleBasedStateMachine):
    """Simple consumers: every offset ages from its own commit."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.committed: dict[str, dict[tuple[str, int], tuple[int, int]]] = {"a": {}, "b": {}, "c": {}}

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
        )

    @rule(group=GROUPS, offsets=st.dictionaries(PARTITIONS, st.integers(0, 1000), min_size=1))
    def commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        outcomes = self.node.commit(offsets, group=group)
        assert set(outcomes.values()) == {ErrorCode.none}
        now_ms = self.node.clock.now_ms()
        self.committed[group] |= {partition: (offset, now_ms) for partition, offset in offsets.items()}

    @rule(group=GROUPS, partition=PARTITIONS)
    def delete_offset(self, group: str, partition: tuple[str, int]) -> None:
        topic, index = partition
        topics = [{"name": topic, "partitions": [{"partition_index": index}]}]
        answer = self.node.ask("offset_delete", 0, group_id=group, topics=topics)
        is_known = bool(self.committed[group])
        assert answer.error_code == (ErrorCode.none if is_known else ErrorCode.group_id_not_found)
        self.committed[group].pop(partition, None)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        (result,) = self.node.ask("delete_groups", 2, groups_names=[group]).results
        is_known = bool(self.committed[group])
        assert result.error_code == (ErrorCode.none if is_known else ErrorCode.group_id_not_found)
        self.committed[group] = {}

    @rule()
    def delete_topic(self) -> None:
        self.node.ask("delete_topics", 5, topic_names=["u"], timeout=1000)
        self.node.create_topic("u", 2)
        for offsets in self.committed.values():
            for partition in [key for key in offsets if key[0] == "u"]:
                del offsets[partition]

    @rule(minutes=st.integers(1, 90))
    def wait(self, minutes: int) -> None:
        for _ in range(minutes):
            self.node.advance(CHECK_MS)
        now_ms = self.node.clock.now_ms()
        for offsets in self.committed.values():
            for partition, (_, committed_ms) in tuple(offsets.items()):
                if now_ms - committed_ms >= RETENTION_MS:
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
            assert known == {group for group, offsets in self.committed.items() if offsets}

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.close(clean=False)
        self.directory.cleanup()


TestOffsetsModel = OffsetsModel.TestCase
TestOffsetsModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
