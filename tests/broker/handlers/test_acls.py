"""DescribeAcls, CreateAcls and DeleteAcls, with an authorizer and without one, and over a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.settings.config import ConfigError
from tests.broker.handlers.harness import NodeHarness, versions

ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
AUTHORIZER = {
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
    "super_users": "User:admin;User:ANONYMOUS",
}
PREFIXED = {"resource_name": "t-", "resource_pattern_type": 4}


@pytest.fixture
def guarded(make_node: Callable[..., NodeHarness]) -> NodeHarness:
    return make_node(**AUTHORIZER)


def create(node: NodeHarness, *creations: dict[str, Any], version: int = 3) -> list[ErrorCode]:
    answer = node.ask("create_acls", version, creations=[ACL | each for each in creations])
    return [result.error_code for result in answer.results]


def described(node: NodeHarness, **wanted: Any) -> list[tuple[Any, ...]]:
    answer = node.ask("describe_acls", 3, **(FILTER | wanted))
    assert answer.error_code == ErrorCode.none
    return [
        (resource.resource_type, resource.resource_name, resource.pattern_type, acl.principal, acl.operation)
        for resource in answer.resources
        for acl in resource.acls
    ]


class TestWithoutAnAuthorizer:
    @pytest.mark.parametrize("version", versions("describe_acls"))
    def test_there_are_none_to_describe(self, node: NodeHarness, version: int) -> None:
        answer = node.ask("describe_acls", version, **FILTER)
        assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())

    @pytest.mark.parametrize("version", versions("create_acls"))
    def test_none_is_made(self, node: NodeHarness, version: int) -> None:
        assert create(node, {}, {}, version=version) == [ErrorCode.security_disabled] * 2

    @pytest.mark.parametrize("version", versions("delete_acls"))
    def test_none_is_deleted(self, node: NodeHarness, version: int) -> None:
        answer = node.ask("delete_acls", version, filters=[FILTER] * 3)
        assert [result.error_code for result in answer.filter_results] == [ErrorCode.security_disabled] * 3


class TestWithAnAuthorizer:
    @pytest.mark.parametrize("version", versions("create_acls"))
    def test_what_was_created_is_described_in_every_version(self, guarded: NodeHarness, version: int) -> None:
        assert create(guarded, {}, {"operation": 4}, {}, version=version) == [ErrorCode.none] * 3
        answer = guarded.ask("describe_acls", version, **(FILTER | {"pattern_type_filter": 3}))
        (resource,) = answer.resources
        assert (resource.resource_type, resource.resource_name) == (2, "t")
        assert [(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in resource.acls] == [
            ("User:a", "*", 3, 3),
            ("User:a", "*", 4, 3),
        ]

    def test_version_0_knows_literal_names_alone(self, guarded: NodeHarness) -> None:
        create(guarded, {}, PREFIXED)
        answer = guarded.ask("describe_acls", 0, **FILTER)
        assert [resource.resource_name for resource in answer.resources] == ["t"]
        answer = guarded.ask("delete_acls", 0, filters=[FILTER])
        assert [acl.resource_name for acl in answer.filter_results[0].matching_acls] == ["t"]
        assert described(guarded) == [(2, "t-", 4, "User:a", 3)]

    def test_what_was_deleted_is_told_and_gone(self, guarded: NodeHarness) -> None:
        create(guarded, {}, {"principal": "User:b"}, PREFIXED)
        answer = guarded.ask("delete_acls", 3, filters=[FILTER | {"principal_filter": "User:b"}, FILTER, FILTER])
        told = [
            [(acl.resource_name, acl.pattern_type, acl.principal) for acl in result.matching_acls]
            for result in answer.filter_results
        ]
        assert told == [[("t", 3, "User:b")], [("t", 3, "User:a"), ("t-", 4, "User:a")], []]
        assert described(guarded) == []

    def test_what_cannot_be_an_acl_is_refused_by_itself(self, guarded: NodeHarness) -> None:
        wrong: list[dict[str, Any]] = [
            {"resource_type": 4},
            {"resource_type": 99},
            {"resource_name": ""},
            {"resource_name": "a/b"},
            {"resource_pattern_type": 2},
            {"principal": "a"},
            {"operation": 1},
            {"permission_type": 1},
        ]
        assert create(guarded, *wrong, {}) == [ErrorCode.invalid_request] * len(wrong) + [ErrorCode.none]
        assert len(described(guarded)) == 1

    def test_a_filter_of_a_kind_that_nobody_knows(self, guarded: NodeHarness) -> None:
        answer = guarded.ask("describe_acls", 3, **(FILTER | {"operation": 99}))
        assert answer.error_code == ErrorCode.invalid_request
        answer = guarded.ask("delete_acls", 3, filters=[FILTER | {"pattern_type_filter": 0}, FILTER])
        assert [result.error_code for result in answer.filter_results] == [ErrorCode.invalid_request, ErrorCode.none]

    def test_acls_of_a_lone_broker_survive_a_restart(self, tmp_path: Path) -> None:
        node = NodeHarness(tmp_path / "log", **AUTHORIZER)
        create(node, {}, PREFIXED)
        node.close()
        again = NodeHarness(tmp_path / "log", **AUTHORIZER)
        assert described(again) == [(2, "t", 3, "User:a", 3), (2, "t-", 4, "User:a", 3)]
        again.close()
        # They stay where they are while nobody asks for an authorizer.
        without = NodeHarness(tmp_path / "log")
        without.create_topic("t")
        without.close()
        once_more = NodeHarness(tmp_path / "log", **AUTHORIZER)
        assert len(described(once_more)) == 2
        once_more.close()


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"authorizer_class_name": "com.example.Mine", "super_users": "User:a"}, "AclAuthorizer"),
        ({"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "KRaft"),
        ({"authorizer_class_name": AUTHORIZER["authorizer_class_name"]}, "lock everybody out"),
        (AUTHORIZER | {"super_users": "admin"}, "TYPE:NAME"),
        ({"super_users": "User:a"}, "authorizer.class.name"),
        ({"allow_everyone_if_no_acl_found": "true"}, "authorizer.class.name"),
        ({"authorizer_zookeeper_url": "zk:2181"}, "ZooKeeper of the cluster"),
    ],
)
def test_an_authorizer_that_cannot_be_is_named(tmp_path: Path, properties: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        NodeHarness(tmp_path / "log", **properties)
