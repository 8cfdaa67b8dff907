"""Settings, ACLs and producer ids of a lone broker while the disk writes them: nobody is answered before it has."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.files import RealFiles
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.metadata_tree import PRODUCER_ID_BLOCK_SIZE
from tests.broker.handlers.harness import NodeHarness, Pending
from tests.broker.handlers.test_acls import AUTHORIZER, described
from tests.broker.told_thread import ToldThread

NONE = ErrorCode.none


class Scene:
    def __init__(self, node: NodeHarness, thread: ToldThread) -> None:
        self.node = node
        self.thread = thread

    def stored(self) -> str:
        """What the next start would find."""
        return (self.node.log_directory.path / "embedded-metadata.json").read_text()

    def set(self, name: str, value: str) -> Any:
        config = {"name": name, "config_operation": 0, "value": value}
        resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
        return self.node.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)

    def allow(self, user: str) -> Any:
        acl = {
            "resource_type": 2,
            "resource_name": "t",
            "resource_pattern_type": 3,
            "principal": f"User:{user}",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        }
        return self.node.ask("create_acls", 3, creations=[acl])

    def allowed(self) -> list[str]:
        return sorted(principal for _, _, _, principal, _ in described(self.node))

    def producer_id(self) -> int:
        answer = self.node.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
        assert answer.error_code is NONE
        return int(answer.producer_id)


@pytest.fixture
def scene(make_node: Callable[..., NodeHarness], monkeypatch: pytest.MonkeyPatch) -> Scene:
    node = make_node(**AUTHORIZER)
    node.create_topic("t")
    thread = ToldThread()
    monkeypatch.setattr(node.topics._stepping, "_run_aside", thread.run_aside)
    return Scene(node, thread)


def broken(files: RealFiles, descriptor: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_settings_are_answered_and_count_when_the_disk_has_them(scene: Scene) -> None:
    changing = scene.set("retention.ms", "1234")
    assert isinstance(changing, Pending)
    assert "1234" not in scene.stored()
    topic = scene.node.node.partitions.topic("t")
    assert topic is not None
    assert topic.config.integer("retention.ms") != 1234
    scene.thread.work()
    assert "1234" in scene.stored()
    assert changing.waits
    scene.thread.tell()
    assert changing.answer.responses[0].error_code is NONE
    assert topic.config.integer("retention.ms") == 1234


def test_of_two_changes_at_a_time_none_is_lost(scene: Scene) -> None:
    first = scene.set("retention.ms", "1234")
    scene.thread.work()
    second = scene.set("max.message.bytes", "5678")
    scene.thread.work()
    scene.thread.tell(last_first=True)
    assert [each.answer.responses[0].error_code for each in (first, second)] == [NONE, NONE]
    path = metadata_tree.topic_config_path("t").rpartition("/")[2]
    assert scene.node.store.topic_config(path) == {"retention.ms": "1234", "max.message.bytes": "5678"}
    topic = scene.node.node.partitions.topic("t")
    assert topic is not None
    assert (topic.config.integer("retention.ms"), topic.config.integer("max.message.bytes")) == (1234, 5678)


def test_acls_count_when_the_disk_has_them_whoever_is_told_first(scene: Scene) -> None:
    first = scene.allow("a")
    assert isinstance(first, Pending)
    assert scene.allowed() == []
    scene.thread.work()
    assert "User:a" in scene.stored()
    second = scene.allow("b")
    scene.thread.work()
    scene.thread.tell(last_first=True)
    assert [each.answer.results[0].error_code for each in (first, second)] == [NONE, NONE]
    assert scene.allowed() == ["User:a", "User:b"]


def test_what_cannot_be_written_does_not_count(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    acl, setting = scene.allow("a"), None
    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "sync", broken)
        scene.thread.work()
        setting = scene.set("retention.ms", "1234")
        scene.thread.work()
    scene.thread.tell()
    assert acl.answer.results[0].error_code is ErrorCode.kafka_storage_error
    assert setting.answer.responses[0].error_code is ErrorCode.kafka_storage_error
    assert scene.allowed() == []
    assert "User:a" not in scene.stored()
    again = scene.allow("a")
    scene.thread.go_on()
    assert again.answer.results[0].error_code is NONE
    assert scene.allowed() == ["User:a"]


def test_the_next_block_of_producer_ids_is_there_before_it_is_needed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [scene.producer_id() for _ in range(PRODUCER_ID_BLOCK_SIZE - 1)]
    assert not scene.thread.is_idle
    scene.thread.go_on()
    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "sync", broken)
        ids += [scene.producer_id() for _ in range(9)]
    assert ids == list(range(ids[0], ids[0] + PRODUCER_ID_BLOCK_SIZE + 8))


def test_a_block_that_comes_late_is_used_too(scene: Scene) -> None:
    ids = [scene.producer_id() for _ in range(PRODUCER_ID_BLOCK_SIZE)]
    scene.thread.work()
    ids.append(scene.producer_id())
    scene.thread.tell()
    ids += [scene.producer_id() for _ in range(PRODUCER_ID_BLOCK_SIZE)]
    assert len(set(ids)) == len(ids)
    assert ids[-1] == ids[0] + PRODUCER_ID_BLOCK_SIZE, "the first of the late block"
