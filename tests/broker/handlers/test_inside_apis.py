"""What brokers ask of each other is served to brokers: by their listener, or by CLUSTER_ACTION."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from highwater.broker.handlers.authorization.inside import INSIDE
from highwater.broker.handlers.shared.reply import Listener
from highwater.broker.security.audit import Audit
from highwater.broker.security.authorizer import Authorizer
from highwater.broker.settings.authorization import inside_listener_of
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.kafka.acl import CLUSTER_NAME, Entry, Operation, Permission, Resource, ResourceType
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS
from tests.broker.handlers.harness import MemberHarness, decode_answer
from tests.broker.handlers.test_authorization import codes
from tests.broker.handlers.test_hostile_requests import frame_of, sample

CLIENTS, BETWEEN = Listener("CLIENTS", "h", 1), Listener("INSIDE", "h", 2)
LISTENERS = {
    "zookeeper_connect": "zk:1",
    "listeners": "CLIENTS://h:1,INSIDE://h:2",
    "inter_broker_listener_name": "INSIDE",
}
SERVED = [
    (api, version)
    for api in (*APIS.values(), *CLUSTER_APIS.values())
    if api.name in INSIDE
    for version in range(api.max_version + 1)
    if api.serves(version) and (api.name != "add_partitions_to_txn" or version >= 4)
]
DENIED = ErrorCode.cluster_authorization_failed


class Reached(Exception):  # noqa: N818 - the handler was called
    pass


def _reach(*_: object) -> None:
    raise Reached


@pytest.fixture
def member(tmp_path: Path) -> MemberHarness:
    harness = MemberHarness(tmp_path, **LISTENERS)
    harness.member.metadata.complete()
    return harness


@pytest.fixture
def is_denied(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether a request is refused in its own form, before its handler."""

    def asked(node: MemberHarness, name: str, version: int) -> bool:
        monkeypatch.setattr(import_module(f"highwater.broker.handlers.{name}"), "handle", _reach)
        api = next(api for api in (*APIS.values(), *CLUSTER_APIS.values()) if api.name == name)
        try:
            parts = node.send(frame_of(api, version, sample(cold._entity(name, version, EntityType.request))))
        except Reached:
            return False
        assert isinstance(parts, list)
        found = set(codes(decode_answer(name, version, parts)))
        assert DENIED in found
        assert found <= {DENIED, ErrorCode.none}
        return True

    return asked


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: getattr(value, "name", value))
def test_without_an_authorizer_the_listener_decides(
    member: MemberHarness, is_denied: Callable[..., bool], api: object, version: int
) -> None:
    name = api.name  # type: ignore[attr-defined]
    lines: list[str] = []
    member.replace(audit=Audit(0, member.clock, member.scheduler, lines.append))
    member.listener = BETWEEN
    assert not is_denied(member, name, version)
    assert not lines
    member.listener = CLIENTS
    assert is_denied(member, name, version)
    assert '"operation":"ClusterAction"' in lines[0]


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: getattr(value, "name", value))
def test_with_one_listener_and_no_authorizer_whoever_connects_is_served(
    tmp_path: Path, is_denied: Callable[..., bool], api: object, version: int
) -> None:
    alone = MemberHarness(tmp_path, zookeeper_connect="zk:1", listeners="CLIENTS://h:1")
    alone.member.metadata.complete()
    alone.listener = CLIENTS
    assert not is_denied(alone, api.name, version)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: getattr(value, "name", value))
def test_with_an_authorizer_the_acls_decide_on_each_listener(
    member: MemberHarness, is_denied: Callable[..., bool], api: object, version: int
) -> None:
    authorizer = Authorizer(["User:admin"])
    member.replace(acls=SimpleNamespace(authorizer=authorizer))
    member.user = "broker"
    for listener in (CLIENTS, BETWEEN):
        member.listener = listener
        assert is_denied(member, api.name, version)  # type: ignore[attr-defined]
    allowed = Entry("User:broker", "*", Operation.CLUSTER_ACTION, Permission.ALLOW)
    authorizer.set_entries(Resource(ResourceType.CLUSTER, CLUSTER_NAME), [allowed])
    for listener in (CLIENTS, BETWEEN):
        member.listener = listener
        assert not is_denied(member, api.name, version)  # type: ignore[attr-defined]


def test_transactions_of_clients_are_served_on_their_listener(
    member: MemberHarness, is_denied: Callable[..., bool]
) -> None:
    member.listener = CLIENTS
    for version in range(4):
        assert not is_denied(member, "add_partitions_to_txn", version)


def test_a_follower_gets_records_on_the_listener_of_brokers_alone(member: MemberHarness) -> None:
    for listener, replica_id, expected in (
        (CLIENTS, 1, ErrorCode.topic_authorization_failed),
        (CLIENTS, -1, ErrorCode.unknown_topic_or_partition),
        (BETWEEN, 1, ErrorCode.unknown_topic_or_partition),
    ):
        member.listener = listener
        (topic,) = member.fetch("t", 0, replica_id=replica_id).responses
        assert [partition.error_code for partition in topic.partitions] == [expected]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, "INSIDE"),
        ({"inter_broker_listener_name": "inside"}, "INSIDE"),
        ({"inter_broker_listener_exclusive": "false"}, None),
        ({"listeners": "INSIDE://h:2"}, None),
        ({"inter_broker_listener_name": ""}, None),
        ({"zookeeper_connect": ""}, None),
    ],
)
def test_when_the_listener_of_brokers_is_one_of_its_own(changed: dict[str, str], found: str | None) -> None:
    settings = [Setting("test", name.replace("_", "."), text) for name, text in (LISTENERS | changed).items() if text]
    assert inside_listener_of(BrokerConfig(settings)) == found
