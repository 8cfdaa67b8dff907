"""ACLs without an authoriser: refused as Kafka refuses them, so that tools say why."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import NodeHarness, versions

ACL = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3}
FILTER = {"resource_type_filter": 2, "resource_name_filter": None, "operation": 1, "permission_type": 1}


@pytest.mark.parametrize("version", versions("describe_acls"))
def test_there_are_none_to_describe(node: NodeHarness, version: int) -> None:
    answer = node.ask("describe_acls", version, **FILTER)
    assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())


@pytest.mark.parametrize("version", versions("create_acls"))
def test_none_is_made(node: NodeHarness, version: int) -> None:
    answer = node.ask("create_acls", version, creations=[ACL | {"permission_type": 3}] * 2)
    assert [result.error_code for result in answer.results] == [ErrorCode.security_disabled] * 2


@pytest.mark.parametrize("version", versions("delete_acls"))
def test_none_is_deleted(node: NodeHarness, version: int) -> None:
    answer = node.ask("delete_acls", version, filters=[FILTER] * 3)
    assert [result.error_code for result in answer.filter_results] == [ErrorCode.security_disabled] * 3
