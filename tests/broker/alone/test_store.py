from __future__ import annotations

import errno
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import FILE_NAME, EmbeddedMetadataStore
from highwater.broker.features import NOTHING, SERVED, Range, Supported, Update, updating
from highwater.broker.log.checkpoint import encode_topic_id
from highwater.broker.log.files import RealFiles
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.metadata_tree import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from highwater.broker.settings.quota_entities import DEFAULT, Entity
from highwater.broker.settings.store import MetadataError
from highwater.broker.topics.topic import TopicRecord, random_topic_id
from highwater.kafka.protocol.problem import Problem

CREDENTIAL = "salt=AA==,stored_key=AA==,server_key=AA==,iterations=4096"


def open_store(directory: Path, cluster_id: str = "c", supported: Supported = SERVED) -> EmbeddedMetadataStore:
    store = EmbeddedMetadataStore(RealFiles(), directory, cluster_id, supported)
    store.begin_epoch()
    return store


def topic(name: str, partitions: int = 1, **config: str) -> TopicRecord:
    return TopicRecord(name, random_topic_id(), {index: [0] for index in range(partitions)}, config)


def test_everything_is_there_at_the_next_start(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topics = [topic("a", 2, k="v"), topic("b")]
    store.put_topics(topics)
    store.mark_for_deletion("b")
    block = store.next_producer_id_block(0)
    again = open_store(tmp_path)
    assert list(again.topics()) == topics
    assert list(again.topics_marked_for_deletion()) == ["b"]
    assert again.controller_epoch == 2
    assert again.next_producer_id_block(0).first == block.last + 1
    again.remove_topic("b")
    assert [record.name for record in open_store(tmp_path).topics()] == ["a"]
    assert list(open_store(tmp_path).topics_marked_for_deletion()) == []


def test_the_file_reads_like_kafkas_znodes(tmp_path: Path) -> None:
    store = open_store(tmp_path, "cluster-id", {})
    record = topic("t", 2, **{"retention.ms": "1"})
    store.put_topics([record])
    store.next_producer_id_block(7)
    store.mark_for_deletion("t")
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {
        "/cluster/id": {"version": "1", "id": "cluster-id"},
        "/controller_epoch": 1,
        "/latest_producer_id_block": {"version": 1, "broker": 7, "block_start": "0", "block_end": "999"},
        "/brokers/topics/t": {
            "version": 3,
            "topic_id": encode_topic_id(record.topic_id),
            "partitions": {"0": [0], "1": [0]},
            "adding_replicas": {},
            "removing_replicas": {},
        },
        "/config/topics/t": {"version": 1, "config": {"retention.ms": "1"}},
        "/admin/delete_topics/t": None,
    }


def test_settings_of_all_kinds_are_changed_together_and_are_there_at_the_next_start(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_topics([topic("t", 1, **{"retention.ms": "1"})])
    told: list[str] = []
    store.when_changed.append(told.append)
    user, client = metadata_tree.quota_path(Entity("al ice")), metadata_tree.quota_path(Entity("al ice", DEFAULT))
    group = metadata_tree.own_config_path(GROUP_CONFIGS, "a group")
    subscription = metadata_tree.own_config_path(CLIENT_METRICS_CONFIGS, "all / of them")
    outcome: list[dict[str, Problem | None]] = []
    store.change_configs(
        {
            "/config/topics/t": lambda present: {**present, "segment.ms": "2"},
            "/config/brokers/<default>": lambda _: {"max.connections": "3"},
            user: lambda _: {"producer_byte_rate": "4", "SCRAM-SHA-256": CREDENTIAL},
            client: lambda _: {"consumer_byte_rate": "5"},
            subscription: lambda _: {"metrics": "*"},
            group: lambda _: {"consumer.session.timeout.ms": "50000"},
            "/config/brokers/0": lambda _: Problem(ErrorCode.invalid_config, "no"),
        },
        outcome.append,
    )
    changed = ["/config/topics/t", "/config/brokers/<default>", user, client, subscription, group]
    assert told == changed
    refused = {"/config/brokers/0": Problem(ErrorCode.invalid_config, "no")}
    assert outcome == [dict.fromkeys(changed) | refused]
    for state in (store, open_store(tmp_path)):
        assert state.topic_config("t") == {"retention.ms": "1", "segment.ms": "2"}
        assert state.topic_config("none") == {}
        assert state.broker_configs() == {"": {"max.connections": "3"}}
        assert state.client_quotas() == {
            Entity("al ice"): {"producer_byte_rate": 4.0},
            Entity("al ice", DEFAULT): {"consumer_byte_rate": 5.0},
        }
        assert list(state.scram_credentials()) == ["al ice"]
        assert state.own_configs(CLIENT_METRICS_CONFIGS) == {"all / of them": {"metrics": "*"}}
        assert state.own_configs(GROUP_CONFIGS) == {"a group": {"consumer.session.timeout.ms": "50000"}}
    store.change_configs({subscription: lambda _: {}}, outcome.append)
    assert open_store(tmp_path).own_configs(CLIENT_METRICS_CONFIGS) == {}
    store.change_configs({user: lambda present: {"SCRAM-SHA-256": present["SCRAM-SHA-256"]}}, outcome.append)
    store.change_configs({client: lambda _: {}}, outcome.append)
    assert open_store(tmp_path).client_quotas() == {}
    assert list(open_store(tmp_path).scram_credentials()) == ["al ice"]


def test_settings_that_cannot_be_written_stay_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    store.put_topics([topic("t")])

    def no_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    outcome: list[dict[str, Problem | None]] = []
    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "pwrite", no_space)
        store.change_configs({"/config/topics/t": lambda _: {"a": "1"}}, outcome.append)
    problem = Problem(ErrorCode.kafka_storage_error, "The broker could not write: No space left on device")
    assert outcome == [{"/config/topics/t": problem}]
    assert store.topic_config("t") == {}


def test_partitions_come_back_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    open_store(tmp_path).put_topics([topic("t", 12)])
    (record,) = open_store(tmp_path).topics()
    assert list(record.assignment) == list(range(12))


def test_only_topics_that_changed_are_encoded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    first, second = topic("a", 2), topic("b")
    store.put_topics([first, second])
    encoded: list[UUID] = []

    def topic_value(topic_id: UUID, assignment: Mapping[int, Sequence[int]]) -> dict[str, Any]:
        encoded.append(topic_id)
        return original(topic_id, assignment)

    original = metadata_tree.topic_value
    monkeypatch.setattr(metadata_tree, "topic_value", topic_value)
    grown = first._replace(assignment={0: [0], 1: [0], 2: [0]})
    store.put_topics([grown])
    store.mark_for_deletion("b")
    assert encoded == [first.topic_id]
    assert list(open_store(tmp_path).topics()) == [grown, second]
    store.remove_topic("b")
    store.put_topics([topic("b", 3)])
    assert [len(record.assignment) for record in open_store(tmp_path).topics()] == [3, 3]


@pytest.mark.parametrize("fails", [False, True])
def test_another_change_waits_for_a_write_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """And neither is lost by the other, whichever thread ends first."""
    store = open_store(tmp_path)
    first, second = topic("a", 2), topic("b")
    steps = store.putting_topics([first])
    work = next(steps)
    assert work is not None
    assert list(store.topics()) == [], "what is remembered never runs ahead of the disk"
    with monkeypatch.context() as patch:
        if fails:
            patch.setattr(RealFiles, "sync", failing_sync)
        thread = threading.Timer(0.05, work)
        thread.start()
        thread_has_ended = thread.join
        if fails:
            thread_has_ended()
    store.put_topics([second])
    thread_has_ended()
    if fails:
        with pytest.raises(OSError, match="Input/output"):
            next(steps, None)
    else:
        assert next(steps, None) is None
    kept = [second] if fails else [first, second]
    assert list(store.topics()) == kept
    assert list(open_store(tmp_path).topics()) == kept


def failing_sync(files: RealFiles, descriptor: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_the_file_of_another_cluster_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path, "one")
    with pytest.raises(MetadataError, match="belongs to cluster one, and its directory to cluster two"):
        open_store(tmp_path, "two")


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    store.put_topics([topic("kept")])
    first = store.next_producer_id_block(0)

    def no_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "pwrite", no_space)
        for change in (
            lambda: store.put_topics([topic("new")]),
            lambda: store.remove_topic("kept"),
            lambda: store.mark_for_deletion("kept"),
            lambda: store.next_producer_id_block(0),
        ):
            with pytest.raises(OSError, match="No space"):
                change()
    for state in (store, open_store(tmp_path)):
        assert [record.name for record in state.topics()] == ["kept"]
        assert list(state.topics_marked_for_deletion()) == []
    assert store.next_producer_id_block(0).first == first.last + 1


SUPPORTED = {"colour": Range(0, 2), "shape": Range(0, 1)}
NOW_MS = 1_800_000_000_000


def open_with_features(
    directory: Path, supported: Supported = SUPPORTED, *, now_ms: int = NOW_MS, leader_epoch: int = -1
) -> EmbeddedMetadataStore:
    store = EmbeddedMetadataStore(RealFiles(), directory, "c", supported)
    store.begin_epoch(leader_epoch, now_ms)
    return store


def update(store: EmbeddedMetadataStore, name: str, level: int, kind: int = 1) -> Problem | None:
    outcome: list[Problem | None] = []
    store.change_features(updating(SUPPORTED, {name: Update(level, kind)}, NOW_MS), outcome.append)
    return outcome[0]


def test_a_new_directory_begins_with_all_that_is_supported(tmp_path: Path) -> None:
    store = open_with_features(tmp_path)
    assert store.features.finalised == (NOW_MS // 1000, {"colour": 2, "shape": 1})
    assert json.loads((tmp_path / FILE_NAME).read_text())["/highwater/features"] == {
        "version": 1,
        "epoch": NOW_MS // 1000,
        "levels": {"colour": 2, "shape": 1},
    }
    assert update(store, "colour", 1, kind=2) is None
    again = open_with_features(tmp_path, now_ms=2 * NOW_MS)
    assert again.features.finalised == (NOW_MS // 1000 + 1, {"colour": 1, "shape": 1})


@pytest.mark.parametrize("is_of_logs", [True, False])
def test_an_old_directory_keeps_level_0_until_a_client_upgrades_it(tmp_path: Path, is_of_logs: bool) -> None:
    """Old is what an earlier release wrote, and logs that come without the file."""
    if not is_of_logs:
        open_with_features(tmp_path, {})
    store = open_with_features(tmp_path, leader_epoch=0 if is_of_logs else -1)
    assert store.features.finalised == NOTHING
    assert "/highwater/features" not in (tmp_path / FILE_NAME).read_text()
    assert update(store, "colour", 2) is None
    assert open_with_features(tmp_path).features.finalised == (NOW_MS // 1000, {"colour": 2})


def test_epochs_grow_also_where_the_clock_went_back(tmp_path: Path) -> None:
    store = open_with_features(tmp_path, now_ms=2 * NOW_MS)
    assert update(store, "colour", 0, kind=2) is None
    assert store.features.finalised == (2 * NOW_MS // 1000 + 1, {"shape": 1})


def test_a_level_above_what_is_supported_is_refused(tmp_path: Path) -> None:
    open_with_features(tmp_path)
    expected = "/highwater/features: this broker does not support level 2 of colour; start the newer broker"
    with pytest.raises(MetadataError, match=expected):
        open_with_features(tmp_path, {"colour": Range(0, 1), "shape": Range(0, 1)})


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"version": 1, "levels": {}},
        {"version": 1, "epoch": -1, "levels": {}},
        {"version": 1, "epoch": 1, "levels": {"colour": "2"}},
        {"version": 1, "epoch": 1, "levels": []},
        {"version": 2, "epoch": 1, "levels": {}},
    ],
)
def test_damaged_levels_are_refused(tmp_path: Path, value: object) -> None:
    open_with_features(tmp_path)
    tree = json.loads((tmp_path / FILE_NAME).read_text())
    (tmp_path / FILE_NAME).write_text(json.dumps(tree | {"/highwater/features": value}))
    with pytest.raises(MetadataError, match="/highwater/features: "):
        open_with_features(tmp_path)


def test_levels_that_cannot_be_written_stay_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_with_features(tmp_path)
    before = store.features.finalised

    def no_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "pwrite", no_space)
        problem = update(store, "colour", 1, kind=2)
    assert problem == Problem(ErrorCode.kafka_storage_error, "The broker could not write: No space left on device")
    assert store.features.finalised is before
    assert update(store, "colour", 1, kind=2) is None
