"""The table of what each API demands, held against what Kafka's documentation says of each."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kio.static.constants import EntityType

from highwater.broker.handlers.authorization.access import Access
from highwater.broker.handlers.authorization.table import GUARDS
from highwater.broker.handlers.shared.reply import Client, RequestContext
from highwater.broker.security.authorizer import Authorizer, Permissions
from highwater.kafka.acl import CLUSTER_NAME, Entry, Operation, Permission, Resource, ResourceType
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS
from tests.broker.handlers.harness import LISTENER, NodeHarness, decode_answer
from tests.broker.handlers.test_acls import AUTHORIZER
from tests.broker.handlers.test_authorization import codes
from tests.broker.handlers.test_hostile_requests import frame_of, sample

ROWS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("kafkas_acls.yaml").read_text())
SERVED = {api.name: api for api in (*APIS.values(), *CLUSTER_APIS.values())}
IN_THE_HANDLER = ("produce", "fetch", "metadata", "describe_topic_partitions")
KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
EVERYTHING = tuple(product((each for each in Operation if each > Operation.ALL), KINDS))
USER = "nobody"

Demand = tuple[Operation, ResourceType]


def test_each_api_has_a_row_and_no_row_is_without_an_api() -> None:
    assert set(GUARDS) == set(SERVED)
    assert {row.partition(" ")[0] for row in ROWS} == set(SERVED)


def demand(words: str) -> Demand:
    """`Read TransactionalId`, as Kafka's documentation has it."""
    operation, kind = (re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper() for word in words.split())
    return Operation[operation], ResourceType[kind]


def authorizer_with(allowed: Iterable[Demand], denied: Iterable[Demand] = ()) -> Authorizer:
    entries: dict[ResourceType, list[Entry]] = {}
    for demands, permission in ((allowed, Permission.ALLOW), (denied, Permission.DENY)):
        for operation, kind in demands:
            entries.setdefault(kind, []).append(Entry(f"User:{USER}", "*", operation, permission))
    authorizer = Authorizer()
    for kind, lines in entries.items():
        authorizer.set_entries(Resource(kind, CLUSTER_NAME if kind == ResourceType.CLUSTER else "*"), lines)
    return authorizer


def with_fields(value: Any, fields: dict[str, Any]) -> Any:
    """A request with other values wherever a field has such a name."""
    if isinstance(value, tuple):
        return tuple(with_fields(each, fields) for each in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    own = {each.name: with_fields(getattr(value, each.name), fields) for each in dataclasses.fields(value)}
    return dataclasses.replace(value, **{name: fields.get(name, each) for name, each in own.items()})


def handled(request: Any) -> dict[str, Any]:
    """What a handler answers, with something in it that only some may see."""
    groups = getattr(request, "groups", getattr(request, "group_ids", "one"))
    assigned: dict[str, Any] = {name: {"topic_partitions": []} for name in ("assignment", "target_assignment")}
    member = {"subscribed_topic_names": ["t"]} | assigned
    return {
        "groups": [{"group_id": "t", "topics": [], "members": [member]}] * len(groups),
        "transaction_states": [{"transactional_id": "t", "topics": [{"topic": "t"}]}],
        "topics": [{"name": "t", "configs": []}],
    } | {name: [] for name in ("results", "responses", "coordinators")}


@pytest.fixture
def told(make_node: Callable[..., NodeHarness], row: str) -> Callable[[Authorizer], object]:
    """What a client with these ACLs is told."""
    node = make_node(**AUTHORIZER)
    node.user = USER
    node.create_topic("t")
    api = SERVED[row.partition(" ")[0]]
    version = ROWS[row].get("version", api.max_version)
    request = sample(cold._entity(api.name, version, EntityType.request))
    request = with_fields(request, ROWS[row].get("fields", {}))

    def ask(authorizer: Authorizer) -> object:
        if api.name in IN_THE_HANDLER:
            node.replace(acls=SimpleNamespace(authorizer=authorizer))
            node.connection = Client(LISTENER)
            node.send(frame_of(api, version, request))
            # A Produce that is like the one before goes another way.
            parts = node.send(frame_of(api, version, request))
            assert isinstance(parts, list)
            return set(codes(decode_answer(api.name, version, parts)))
        guard = GUARDS[api.name]
        if guard is None:
            return json.dumps(handled(request))
        context = RequestContext(version, None, Client(LISTENER))
        access = Access(node.node, context, Permissions(authorizer, f"User:{USER}", ""), row)
        return json.dumps(guard(access, request, handled), default=str)

    return ask


@pytest.mark.parametrize("row", ROWS)
def test_what_kafka_demands_is_enough_and_nothing_less_is(told: Callable[[Authorizer], object], row: str) -> None:
    ways = [[demand(words) for words in way] for way in ROWS[row]["needs"]]
    whole = told(authorizer_with(EVERYTHING))
    for way in ways:
        assert told(authorizer_with(way)) == whole, f"{way} is enough"
    for lacking in product(*ways):
        assert told(authorizer_with(EVERYTHING, lacking)) != whole, f"nobody gets on without {lacking}"
