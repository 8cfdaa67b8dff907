"""Topics, offsets, configurations and the rest, through the dispatcher, in every version that is served."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.features import SERVED, UNKNOWN_EPOCH, Features, Finalised, Range
from highwater.broker.handlers import list_offsets
from highwater.broker.settings.store import MetadataError
from highwater.broker.slices import Steps
from highwater.broker.topics.topic import TopicRecord
from highwater.kafka.protocol.apis import API_VERSIONS, APIS
from highwater.kafka.protocol.primitives import MalformedRequestError
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import LISTENER, NodeHarness, decode_answer, request_frame, versions


class TestApiVersions:
    @pytest.mark.parametrize("version", versions("api_versions"))
    def test_every_version_tells_the_table(self, node: NodeHarness, version: int) -> None:
        software = {"client_software_name": "a.client", "client_software_version": "1.0-rc2"} if version >= 3 else {}
        answer = node.ask("api_versions", version, **software)
        assert answer.error_code == ErrorCode.none
        told = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        assert told == {api.key: (api.min_version, api.max_version) for api in APIS.values()}
        if version >= 3:
            supported = {name: levels for name, levels in SERVED.items() if version >= 4 or levels.min_level > 0}
            assert {each.name: (each.min_version, each.max_version) for each in answer.supported_features} == supported
            all_levels = {name: levels.max_level for name, levels in SERVED.items()}
            assert {each.name: each.max_version_level for each in answer.finalized_features} == all_levels

    def test_features_are_told_as_they_are_now(self, node: NodeHarness) -> None:
        """KIP-584. A client below v4 cannot read a supported feature whose least level is 0 (KAFKA-17011)."""
        features = Features({"old": Range(1, 3), "new": Range(0, 2)})
        node.replace(features=features)

        def told(version: int) -> tuple[dict[str, tuple[int, int]], int, dict[str, tuple[int, int]]]:
            answer = node.ask("api_versions", version, client_software_name="a", client_software_version="1")
            return (
                {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
                answer.finalized_features_epoch,
                {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features},
            )

        assert told(4) == told(5) == ({"old": (1, 3), "new": (0, 2)}, UNKNOWN_EPOCH, {})
        assert told(3) == ({"old": (1, 3)}, UNKNOWN_EPOCH, {})
        features.take_up(Finalised(7, {"old": 2, "new": 1}))
        assert told(4) == ({"old": (1, 3), "new": (0, 2)}, 7, {"old": (2, 2), "new": (1, 1)})
        assert told(3) == ({"old": (1, 3)}, 7, {"old": (2, 2), "new": (1, 1)})
        features.take_up(Finalised(8, {"old": 3}))
        assert told(4)[1:] == (8, {"old": (3, 3)})

    @pytest.mark.parametrize("version", [6, 127])
    def test_a_newer_version_is_answered_in_the_oldest_format(self, node: NodeHarness, version: int) -> None:
        """KIP-511: clients begin with their newest version, and read the answer as version 0."""
        reply = node.send(struct.pack(">hhih", API_VERSIONS, version, 1, -1) + b"\x00whatever")
        assert isinstance(reply, list)
        answer = decode_answer("api_versions", 0, reply)
        assert answer.error_code == ErrorCode.unsupported_version
        assert [(entry.api_key, entry.max_version) for entry in answer.api_keys] == [(API_VERSIONS, 5)]

    def test_a_client_that_looks_for_another_broker_has_to_rebootstrap(self, node: NodeHarness) -> None:
        """KIP-1242. A client that knows no broker yet, as at a shared bootstrap port, names none."""
        ours = node.store.cluster_id

        def asked(cluster_id: str | None, node_id: int) -> tuple[ErrorCode, bool]:
            software = {"client_software_name": "a", "client_software_version": "1"}
            answer = node.ask("api_versions", 5, cluster_id=cluster_id, node_id=node_id, **software)
            return answer.error_code, bool(answer.api_keys)

        assert asked(None, -1) == asked(ours, 0) == (ErrorCode.none, True)
        for cluster_id, node_id in ((ours, 1), ("another", 0), ("", 0), ("x" * 30_000, 2_000_000)):
            assert asked(cluster_id, node_id) == (ErrorCode.rebootstrap_required, False)
        assert asked(ours, -1) == asked(None, 0) == (ErrorCode.invalid_request, False)

    @pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ä", "x" * 257])
    def test_software_names_must_look_like_one(self, node: NodeHarness, name: str) -> None:
        answer = node.ask("api_versions", 3, client_software_name=name, client_software_version="1")
        assert answer.error_code == ErrorCode.invalid_request


class TestDispatch:
    def test_unknown_apis_and_versions_are_malformed(self, node: NodeHarness) -> None:
        for key, version in ((9999, 0), (0, 2), (0, 14), (1, 3), (3, 14), (-1, 0)):
            with pytest.raises(MalformedRequestError):
                node.send(struct.pack(">hhih", key, version, 1, -1) + bytes(50))

    def test_tags_of_the_header_are_skipped(self, node: NodeHarness) -> None:
        frame = request_frame("metadata", 9, topics=())
        header = struct.calcsize(">hhih4s")
        tagged = frame[:header] + b"\x01\x07\x03abc" + frame[header + 1 :]
        assert isinstance(node.send(tagged), list)


class TestMetadata:
    @pytest.mark.parametrize("version", versions("metadata"))
    def test_every_version(self, node: NodeHarness, version: int) -> None:
        topic = node.create_topic("t", 2)
        answer = node.ask("metadata", version, topics=[{"name": "t", "topic_id": None}])
        (broker,) = answer.brokers
        assert (broker.node_id, broker.host, broker.port) == (0, LISTENER.host, LISTENER.port)
        (described,) = answer.topics
        assert (described.name, described.error_code) == ("t", ErrorCode.none)
        assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in described.partitions] == [
            (0, 0, (0,), (0,)),
            (1, 0, (0,), (0,)),
        ]
        if version >= 2:
            assert answer.cluster_id == node.store.cluster_id
        if version >= 10:
            assert described.topic_id == topic.topic_id

    def test_all_none_and_some_topics(self, node: NodeHarness) -> None:
        node.create_topic("a")
        node.create_topic("b")
        assert [topic.name for topic in node.ask("metadata", 0, topics=()).topics] == ["a", "b"]
        assert [topic.name for topic in node.ask("metadata", 9, topics=None).topics] == ["a", "b"]
        assert node.ask("metadata", 9, topics=()).topics == ()

    def test_unknown_topics_are_made_when_broker_and_request_allow_it(
        self, make_node: Callable[..., NodeHarness]
    ) -> None:
        node = make_node(num_partitions="3")

        def ask(name: str, allow: bool, at: NodeHarness = node) -> Any:
            return at.ask("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=allow).topics[0]

        assert ask("new", False).error_code == ErrorCode.unknown_topic_or_partition
        made = ask("new", True)
        assert (made.error_code, len(made.partitions)) == (ErrorCode.none, 3)
        assert ask("bad/name", True).error_code == ErrorCode.invalid_topic_exception
        assert ask("x" * 250, True).error_code == ErrorCode.invalid_topic_exception
        forbidding = make_node(auto_create_topics_enable="false")
        assert ask("new", True, forbidding).error_code == ErrorCode.unknown_topic_or_partition

    def test_more_unknown_topics_of_one_request_are_made_after_the_answer(
        self, make_node: Callable[..., NodeHarness], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = make_node(num_partitions="8")
        written: list[int] = []
        putting_topics = node.store.putting_topics

        def counting(records: Sequence[TopicRecord]) -> Steps[None]:
            written.append(len(records))
            return putting_topics(records)

        monkeypatch.setattr(node.store, "putting_topics", counting)

        def ask() -> list[ErrorCode]:
            topics = [{"name": name} for name in ("a", "b_", "a", "c", "d", "b.")]
            answer = node.ask("metadata", 9, topics=topics, allow_auto_topic_creation=True)
            return [topic.error_code for topic in answer.topics]

        made, coming = ErrorCode.none, ErrorCode.leader_not_available
        assert ask() == [made, made, coming, coming, coming]
        node.scheduler.run()
        assert written == [2, 2]
        assert ask() == [made, made, made, made, ErrorCode.invalid_topic_exception]

    def test_unknown_topics_of_one_request_are_made_up_to_a_limit(
        self, make_node: Callable[..., NodeHarness], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = make_node(num_partitions="4000")
        monkeypatch.setattr(node.node.partitions, "open_partitions", lambda topic, record, leader_epoch: iter(()))
        topics = [{"name": name} for name in "abcd"]
        node.ask("metadata", 9, topics=topics, allow_auto_topic_creation=True)
        node.scheduler.run()
        assert sorted(topic.name for topic in node.node.partitions.topics()) == ["a", "b", "c"]

    def test_topics_by_id(self, node: NodeHarness) -> None:
        topic = node.create_topic("t")
        answer = node.ask(
            "metadata", 12, topics=[{"topic_id": topic.topic_id, "name": None}, {"topic_id": UUID(int=5), "name": None}]
        )
        assert [(t.name, t.error_code) for t in answer.topics] == [
            ("t", ErrorCode.none),
            (None, ErrorCode.unknown_topic_id),
        ]

    def test_operations_are_told_when_asked_for(self, node: NodeHarness) -> None:
        node.create_topic("t")
        asked = node.ask(
            "metadata",
            8,
            topics=[{"name": "t"}],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        assert (asked.cluster_authorized_operations, asked.topics[0].topic_authorized_operations) == (8096, 3576)
        not_asked = node.ask("metadata", 8, topics=[{"name": "t"}])
        assert not_asked.topics[0].topic_authorized_operations == -(2**31)


class TestCreateTopics:
    @pytest.mark.parametrize("version", versions("create_topics"))
    def test_every_version(self, node: NodeHarness, version: int) -> None:
        wanted = {"name": "t", "num_partitions": 2, "replication_factor": 1}
        config = {"configs": [{"name": "segment.bytes", "value": "1000"}]}
        (answer,) = node.ask("create_topics", version, topics=[wanted | config], timeout=1000).topics
        assert (answer.name, answer.error_code) == ("t", ErrorCode.none)
        topic = node.node.partitions.topic("t")
        assert topic is not None
        assert [partition.log.config.segment_bytes for partition in topic.partitions.values()] == [1000, 1000]
        if version >= 5:
            assert (answer.num_partitions, answer.replication_factor) == (2, 1)
            assert {entry.name: entry.value for entry in answer.configs}["segment.bytes"] == "1000"
        if version >= 7:
            assert answer.topic_id == topic.topic_id

    def create(self, node: NodeHarness, *topics: dict[str, Any], **options: Any) -> list[tuple[ErrorCode, str]]:
        wanted = [{"num_partitions": 1, "replication_factor": 1} | topic for topic in topics]
        answer = node.ask("create_topics", 5, topics=wanted, timeout=1000, **options)
        return [(topic.error_code, topic.error_message) for topic in answer.topics]

    def test_defaults(self, make_node: Callable[..., NodeHarness]) -> None:
        node = make_node(num_partitions="4")
        assert self.create(node, {"name": "t", "num_partitions": -1, "replication_factor": -1})[0][0] == ErrorCode.none
        topic = node.node.partitions.topic("t")
        assert topic is not None
        assert len(topic.partitions) == 4

    @pytest.mark.parametrize(
        ("wanted", "error"),
        [
            ({"name": ""}, ErrorCode.invalid_topic_exception),
            ({"name": ".."}, ErrorCode.invalid_topic_exception),
            ({"name": "a b"}, ErrorCode.invalid_topic_exception),
            ({"name": "taken"}, ErrorCode.topic_already_exists),
            ({"name": "ta.ken.x"}, ErrorCode.invalid_topic_exception),
            ({"name": "n", "num_partitions": 0}, ErrorCode.invalid_partitions),
            ({"name": "n", "num_partitions": -2}, ErrorCode.invalid_partitions),
            ({"name": "n", "num_partitions": 2**31 - 1}, ErrorCode.policy_violation),
            ({"name": "n", "replication_factor": 2}, ErrorCode.invalid_replication_factor),
            ({"name": "n", "replication_factor": 0}, ErrorCode.invalid_replication_factor),
            ({"name": "n", "configs": [{"name": "nope", "value": "1"}]}, ErrorCode.invalid_config),
            ({"name": "n", "configs": [{"name": "segment.ms", "value": None}]}, ErrorCode.invalid_config),
            (
                {
                    "name": "n",
                    "configs": [
                        {"name": "min.compaction.lag.ms", "value": "9"},
                        {"name": "max.compaction.lag.ms", "value": "5"},
                    ],
                },
                ErrorCode.invalid_config,
            ),
            ({"name": "n", "assignments": [{"partition_index": 0, "broker_ids": [0]}]}, ErrorCode.invalid_request),
        ],
    )
    def test_refusals_leave_nothing_behind(self, node: NodeHarness, wanted: dict[str, Any], error: ErrorCode) -> None:
        node.create_topic("taken")
        node.create_topic("ta_ken_x")
        before = sorted(path.name for path in node.log_directory.path.iterdir())
        ((found, message),) = self.create(node, wanted)
        assert found == error
        assert message
        assert sorted(path.name for path in node.log_directory.path.iterdir()) == before

    @pytest.mark.parametrize(
        ("assignment", "error"),
        [
            ({0: [0], 1: [0]}, ErrorCode.none),
            ({1: [0]}, ErrorCode.invalid_replica_assignment),
            ({0: [7]}, ErrorCode.invalid_replica_assignment),
            ({0: [0, 0]}, ErrorCode.invalid_replica_assignment),
            ({0: []}, ErrorCode.invalid_replica_assignment),
        ],
    )
    def test_assignments_by_hand(self, node: NodeHarness, assignment: dict[int, list[int]], error: ErrorCode) -> None:
        entries = [{"partition_index": index, "broker_ids": replicas} for index, replicas in assignment.items()]
        wanted = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": entries}
        assert self.create(node, wanted)[0][0] == error

    def test_one_named_twice_fails_twice_and_the_others_succeed(self, node: NodeHarness) -> None:
        results = self.create(node, {"name": "a"}, {"name": "b"}, {"name": "a"})
        assert [error for error, _ in results] == [
            ErrorCode.invalid_request,
            ErrorCode.none,
            ErrorCode.invalid_request,
        ]

    def test_the_topic_of_kafkas_metadata_is_nobodys(self, node: NodeHarness) -> None:
        results = self.create(node, {"name": "__cluster_metadata"}, {"name": "_cluster_metadata"})
        assert results[0] == (ErrorCode.invalid_request, "Creation of internal topic __cluster_metadata is prohibited.")
        assert results[1][0] == ErrorCode.none
        assert node.node.partitions.topic("__cluster_metadata") is None
        assert node.node.auto_creation is not None
        assert node.node.auto_creation.create(["__cluster_metadata"]) == {
            "__cluster_metadata": ErrorCode.invalid_request
        }

    def test_names_that_collide_within_a_request(self, node: NodeHarness) -> None:
        results = self.create(node, {"name": "a.b"}, {"name": "a_b"})
        assert [error for error, _ in results] == [ErrorCode.none, ErrorCode.invalid_topic_exception]

    def test_validate_only_makes_nothing(self, node: NodeHarness) -> None:
        assert self.create(node, {"name": "t"}, validate_only=True)[0][0] == ErrorCode.none
        assert node.node.partitions.topic("t") is None

    def test_a_topic_that_cannot_be_written_is_taken_back(
        self, node: NodeHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = type(node.log_directory).create_partition

        def fail_on_second(directory: Any, topic: str, partition: int, *rest: Any) -> Any:
            if partition == 1:
                raise OSError(28, "No space left on device")
            return real(directory, topic, partition, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(type(node.log_directory), "create_partition", fail_on_second)
            ((error, _),) = self.create(node, {"name": "t", "num_partitions": 2})
        assert error == ErrorCode.kafka_storage_error
        assert self.create(node, {"name": "t", "num_partitions": 2})[0][0] == ErrorCode.none


class TestDeleteTopics:
    @pytest.mark.parametrize("version", versions("delete_topics"))
    def test_every_version(self, node: NodeHarness, version: int) -> None:
        node.create_topic("t")
        named: dict[str, Any] = (
            {"topics": [{"name": name} for name in ("t", "u")]} if version >= 6 else {"topic_names": ["t", "u"]}
        )
        answer = node.ask("delete_topics", version, timeout=1000, **named)
        assert [entry.error_code for entry in answer.responses] == [
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert node.node.partitions.topic("t") is None
        assert not any(path.name == "t-0" for path in node.log_directory.path.iterdir())

    def test_by_id(self, node: NodeHarness) -> None:
        topic = node.create_topic("t")
        wanted = [
            {"name": None, "topic_id": topic.topic_id},
            {"name": None, "topic_id": UUID(int=5)},
            {"name": "t", "topic_id": topic.topic_id},
            {"name": None, "topic_id": None},
        ]
        answer = node.ask("delete_topics", 6, topics=wanted, timeout=1)
        assert [entry.error_code for entry in answer.responses] == [
            ErrorCode.none,
            ErrorCode.unknown_topic_id,
            ErrorCode.invalid_request,
            ErrorCode.invalid_request,
        ]

    def test_a_name_can_be_used_again_and_starts_empty(self, node: NodeHarness) -> None:
        first = node.create_topic("t").topic_id
        node.produce("t", b"old")
        node.topics.delete("t")
        assert node.create_topic("t").topic_id != first
        assert node.produce("t", b"new").base_offset == 0

    def test_deletion_can_be_disabled(self, make_node: Callable[..., NodeHarness]) -> None:
        node = make_node(delete_topic_enable="false")
        node.create_topic("t")
        (answer,) = node.ask("delete_topics", 5, topic_names=["t"], timeout=1).responses
        assert answer.error_code == ErrorCode.topic_deletion_disabled

    def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start(self, tmp_path: Path) -> None:
        node = NodeHarness(tmp_path / "log")
        node.create_topic("t", 2)
        node.create_topic("u")
        node.store.mark_for_deletion("t")
        node.log_directory.delete_partition("t", 0)
        node.close(clean=False)
        again = NodeHarness(tmp_path / "log")
        try:
            assert [topic.name for topic in again.node.partitions.topics()] == ["u"]
            assert [topic.name for topic in again.store.topics()] == ["u"]
            assert again.create_topic("t").partitions[0].log.log_end_offset == 0
        finally:
            again.close()


class TestCreatePartitions:
    @pytest.mark.parametrize("version", versions("create_partitions"))
    def test_every_version(self, node: NodeHarness, version: int) -> None:
        topic = node.create_topic("t", 2)
        (answer,) = node.ask("create_partitions", version, topics=[self.wanted("t", 4)], timeout=1).results
        assert (answer.name, answer.error_code) == ("t", ErrorCode.none)
        assert len(topic.partitions) == 4
        assert node.produce("t", b"x", partition=3).base_offset == 0

    @staticmethod
    def wanted(name: str, count: int, assignments: list[list[int]] | None = None) -> dict[str, Any]:
        entries = None if assignments is None else [{"broker_ids": replicas} for replicas in assignments]
        return {"name": name, "count": count, "assignments": entries}

    @pytest.mark.parametrize(
        ("name", "count", "assignments", "error"),
        [
            ("t", 2, None, ErrorCode.invalid_partitions),
            ("t", 1, None, ErrorCode.invalid_partitions),
            ("u", 3, None, ErrorCode.unknown_topic_or_partition),
            ("t", 4, [[0]], ErrorCode.invalid_replica_assignment),
            ("t", 3, [[1]], ErrorCode.invalid_replica_assignment),
            ("t", 2**31 - 1, None, ErrorCode.policy_violation),
            ("t", 3, [[0]], ErrorCode.none),
        ],
    )
    def test_refusals(
        self, node: NodeHarness, name: str, count: int, assignments: list[list[int]] | None, error: ErrorCode
    ) -> None:
        node.create_topic("t", 2)
        (answer,) = node.ask("create_partitions", 3, topics=[self.wanted(name, count, assignments)], timeout=1).results
        assert answer.error_code == error

    def test_validate_only_adds_nothing(self, node: NodeHarness) -> None:
        topic = node.create_topic("t")
        node.ask("create_partitions", 1, topics=[self.wanted("t", 3)], timeout=1, validate_only=True)
        assert len(topic.partitions) == 1

    def test_they_are_there_after_a_restart(self, tmp_path: Path) -> None:
        node = NodeHarness(tmp_path / "log")
        node.create_topic("t")
        node.ask("create_partitions", 1, topics=[self.wanted("t", 3)], timeout=1)
        node.close()
        again = NodeHarness(tmp_path / "log")
        assert len(again.node.partitions.topic("t").partitions) == 3  # type: ignore[union-attr]
        again.close()


class TestListOffsets:
    def ask(self, node: NodeHarness, timestamp_ms: int, version: int = 8, **fields: Any) -> Any:
        partition = {"partition_index": 0, "timestamp": timestamp_ms} | fields
        answer = node.ask("list_offsets", version, replica_id=-1, topics=[{"name": "t", "partitions": [partition]}])
        return answer.topics[0].partitions[0]

    def test_version_0_tells_where_segments_begin(self, node: NodeHarness) -> None:
        node.create_topic("t", segment_bytes="200")
        for hour in range(4):
            node.produce_records("t", bytes(encode_batch([Record(b"x" * 60, timestamp_ms=hour * 3_600_000)])))

        def offsets(timestamp_ms: int, count: int = 10) -> list[int]:
            return list(self.ask(node, timestamp_ms, 0, max_num_offsets=count).old_style_offsets)

        assert offsets(list_offsets.LATEST) == [4, 3, 2, 1, 0]
        assert offsets(list_offsets.LATEST, 2) == [4, 3]
        assert offsets(list_offsets.LATEST, -1) == []
        assert offsets(list_offsets.EARLIEST) == [0]
        assert offsets(7_200_000) == [2, 1, 0]
        assert offsets(8_000_000) == [3, 2, 1, 0]
        assert offsets(2_000_000_000_000, 1) == [4]
        assert self.ask(node, -1, 0, partition_index=4).error_code == ErrorCode.unknown_topic_or_partition

    @pytest.mark.parametrize("version", [version for version in versions("list_offsets") if version])
    def test_every_version(self, node: NodeHarness, version: int) -> None:
        node.create_topic("t")
        node.produce("t", b"a", b"b")
        assert self.ask(node, list_offsets.EARLIEST, version).offset == 0
        latest = self.ask(node, list_offsets.LATEST, version)
        assert (latest.error_code, latest.offset, latest.timestamp) == (ErrorCode.none, 2, -1)
        assert self.ask(node, 0, version).offset == 0
        later = self.ask(node, 2_000_000_000_000, version)
        assert (later.offset, later.timestamp) == (-1, -1)
        if version >= 4:
            assert latest.leader_epoch == 0

    def test_special_timestamps_need_their_version(self, node: NodeHarness) -> None:
        node.create_topic("t")
        assert (self.ask(node, list_offsets.MAX_TIMESTAMP).offset) == -1
        node.produce("t", b"a", b"b")
        assert self.ask(node, list_offsets.MAX_TIMESTAMP, 7).offset == 0
        assert self.ask(node, list_offsets.MAX_TIMESTAMP, 6).error_code == ErrorCode.unsupported_version
        assert self.ask(node, list_offsets.EARLIEST_LOCAL, 8).offset == 0
        assert self.ask(node, list_offsets.EARLIEST_LOCAL, 7).error_code == ErrorCode.unsupported_version
        assert self.ask(node, -99).error_code == ErrorCode.unsupported_version

    @pytest.mark.parametrize(
        ("timestamp", "since"), [(list_offsets.LATEST_TIERED, 9), (list_offsets.EARLIEST_PENDING_UPLOAD, 11)]
    )
    def test_no_record_is_tiered(self, node: NodeHarness, timestamp: int, since: int) -> None:
        node.create_topic("t")
        node.produce("t", b"a", b"b")
        for version in range(since, 12):
            told = self.ask(node, timestamp, version)
            assert (told.error_code, told.offset, told.timestamp, told.leader_epoch) == (ErrorCode.none, -1, -1, -1)
        assert self.ask(node, timestamp, since - 1).error_code == ErrorCode.unsupported_version

    def test_records_that_may_not_be_read_yet_are_not_found(self, node: NodeHarness) -> None:
        node.create_topic("t", flush_messages="2")
        node.produce("t", b"a", b"b")
        assert self.ask(node, list_offsets.MAX_TIMESTAMP).offset == -1
        assert self.ask(node, 0).offset == -1
        node.flush()
        assert self.ask(node, list_offsets.MAX_TIMESTAMP).offset == 0
        assert self.ask(node, 0).offset == 0

    def test_errors(self, node: NodeHarness) -> None:
        node.create_topic("t")
        assert self.ask(node, -1, partition_index=4).error_code == ErrorCode.unknown_topic_or_partition
        assert self.ask(node, -1, current_leader_epoch=3).error_code == ErrorCode.unknown_leader_epoch

    def test_a_partition_named_twice_is_refused_and_others_are_not(self, node: NodeHarness) -> None:
        node.create_topic("t", 2)
        partitions = [{"partition_index": index, "timestamp": -1} for index in (0, 1, 0)]
        for version in versions("list_offsets"):
            answer = node.ask("list_offsets", version, replica_id=-1, topics=[{"name": "t", "partitions": partitions}])
            refused = ErrorCode.invalid_request if version else ErrorCode.none
            found = [partition.error_code for partition in answer.topics[0].partitions]
            assert found == [refused, ErrorCode.none, refused]


class TestDescribing:
    def test_version_0_tells_of_configs_only_whether_they_are_default(self, node: NodeHarness) -> None:
        node.create_topic("t", flush_messages="7")
        keys = ["flush.messages", "segment.bytes"]
        resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": keys}
        (answer,) = node.ask("describe_configs", 0, resources=[resource]).results
        told = {entry.name: (entry.value, entry.is_default) for entry in answer.configs}
        assert told == {"flush.messages": ("7", False), "segment.bytes": ("1073741824", True)}

    @pytest.mark.parametrize("version", [version for version in versions("describe_configs") if version])
    def test_configs_of_a_topic_with_their_sources(self, make_node: Callable[..., NodeHarness], version: int) -> None:
        node = make_node(log_segment_bytes="5000", log_retention_hours="1")
        node.create_topic("t", flush_messages="7")
        (answer,) = node.ask(
            "describe_configs",
            version,
            resources=[{"resource_type": 2, "resource_name": "t", "configuration_keys": None}],
            include_synonyms=True,
        ).results
        entries = {entry.name: entry for entry in answer.configs}
        assert (entries["flush.messages"].value, entries["flush.messages"].config_source) == ("7", 1)
        assert (entries["segment.bytes"].value, entries["segment.bytes"].config_source) == ("5000", 4)
        assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == ("3600000", 4)
        assert (entries["preallocate"].value, entries["preallocate"].config_source) == ("false", 5)
        assert [(s.name, s.value, s.source) for s in entries["segment.bytes"].synonyms] == [
            ("log.segment.bytes", "5000", 4),
            ("log.segment.bytes", "1073741824", 5),
        ]

    @pytest.mark.parametrize("version", versions("describe_configs"))
    def test_secrets_of_the_broker_are_not_told(self, make_node: Callable[..., NodeHarness], version: int) -> None:
        secrets = {
            "ssl.keystore.password": "hush",
            "listener.name.inside.ssl.key.password": "hush",
            "listener.name.inside.plain.sasl.jaas.config": 'PlainLoginModule required user_ada="hush";',
        }
        node = make_node(**secrets)
        (answer,) = node.ask(
            "describe_configs",
            version,
            resources=[{"resource_type": 4, "resource_name": "0", "configuration_keys": None}],
            include_synonyms=True,
        ).results
        assert "ssl.keystore.password" in {entry.name for entry in answer.configs}
        assert {entry.is_sensitive for entry in answer.configs if entry.name in secrets} == {True}
        assert "hush" not in repr(answer)

    def test_configs_asked_for_by_name(self, node: NodeHarness) -> None:
        resources = [
            {"resource_type": 4, "resource_name": "0", "configuration_keys": ["num.partitions"]},
            {"resource_type": 4, "resource_name": "1", "configuration_keys": None},
            {"resource_type": 2, "resource_name": "nowhere", "configuration_keys": None},
            {"resource_type": 2, "resource_name": "not a name", "configuration_keys": None},
            {"resource_type": 99, "resource_name": "x", "configuration_keys": None},
        ]
        answer = node.ask("describe_configs", 4, resources=resources)
        assert [result.error_code for result in answer.results] == [
            ErrorCode.none,
            ErrorCode.invalid_request,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.invalid_topic_exception,
            ErrorCode.invalid_request,
        ]
        assert [(entry.name, entry.value) for entry in answer.results[0].configs] == [("num.partitions", "1")]

    def test_a_list_of_no_names_asks_for_all_configs(self, node: NodeHarness) -> None:
        node.create_topic("t")
        for kind, name in ((2, "t"), (4, "0")):
            by_null, by_none = (
                {"resource_type": kind, "resource_name": name, "configuration_keys": k} for k in (None, ())
            )
            told, told_too = node.ask("describe_configs", 4, resources=[by_null, by_none]).results
            assert told.configs
            assert told == told_too

    @pytest.mark.parametrize("version", versions("describe_cluster"))
    def test_the_cluster(self, node: NodeHarness, version: int) -> None:
        fenced_too = {"include_fenced_brokers": True} if version >= 2 else {}
        answer = node.ask("describe_cluster", version, endpoint_type=1, **fenced_too)
        assert (answer.cluster_id, answer.controller_id) == (node.store.cluster_id, 0)
        assert [(broker.host, broker.port) for broker in answer.brokers] == [(LISTENER.host, LISTENER.port)]
        if version >= 2:
            assert [broker.is_fenced for broker in answer.brokers] == [False]

    def test_controllers_are_not_to_be_had(self, node: NodeHarness) -> None:
        controllers = node.ask("describe_cluster", 1, endpoint_type=2)
        assert controllers.error_code == ErrorCode.mismatched_endpoint_type
        assert node.ask("describe_cluster", 1, endpoint_type=3).error_code == ErrorCode.unsupported_endpoint_type

    @pytest.mark.parametrize("version", versions("describe_log_dirs"))
    def test_log_directories(self, node: NodeHarness, version: int) -> None:
        node.create_topic("t", 2)
        node.produce("t", b"x" * 100, partition=1)
        size = (node.log_directory.path / "t-1" / f"{0:020}.log").stat().st_size
        (everything,) = node.ask("describe_log_dirs", version, topics=None).results
        sizes = [(p.partition_index, p.partition_size) for topic in everything.topics for p in topic.partitions]
        assert sizes == [(0, 0), (1, size)]
        (some,) = node.ask(
            "describe_log_dirs",
            version,
            topics=[{"topic": "t", "partitions": [1, 5]}, {"topic": "u", "partitions": [0]}],
        ).results
        assert [p.partition_index for topic in some.topics for p in topic.partitions] == [1]
        if version >= 4:
            assert 0 < some.usable_bytes < some.total_bytes
        if version >= 5:
            assert not some.is_cordoned

    @pytest.mark.parametrize("version", versions("init_producer_id"))
    def test_a_producer_without_transactions_gets_an_id(self, node: NodeHarness, version: int) -> None:
        plain = node.ask("init_producer_id", version, transactional_id=None, transaction_timeout=1000)
        assert (plain.error_code, plain.producer_id, plain.producer_epoch) == (ErrorCode.none, 0, 0)


def test_folders_that_the_metadata_does_not_know_stop_the_start(tmp_path: Path) -> None:
    node = NodeHarness(tmp_path / "log")
    node.create_topic("t")
    node.close()
    (tmp_path / "log" / "embedded-metadata.json").unlink()
    with pytest.raises(MetadataError, match=r"holds t-0, which the broker's metadata does not know"):
        NodeHarness(tmp_path / "log")
