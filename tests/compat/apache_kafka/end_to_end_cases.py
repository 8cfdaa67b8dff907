"""The cases of Kafka's EndToEndAuthorizationTest by their names, each told as what its clients get."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.kafka.acl import Operation
from tests.compat.apache_kafka.authorizer_world import (
    GROUP,
    LITERAL,
    PASSING,
    PREFIXED,
    QUIET_S,
    TOPIC,
    Check,
    World,
    all_of,
    mirrors,
    name_of,
    quiet_until,
    received,
    sent,
)
from tests.waiting import wait_until

COMMON_CASES: Final[dict[str, Check]] = {}
SASL_CASES: Final[dict[str, Check]] = {}
_case = partial(mirrors, COMMON_CASES)
_sasl_case = partial(mirrors, SASL_CASES)
READ, WRITE, CREATE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE
_DEADLINE_S: Final = 60.0
_LOGIN_S: Final = 10.0
_REFUSALS: Final = {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"}


def _read_and_write(world: World, topic: str | None = None) -> None:
    world.allow(TOPIC, WRITE, CREATE, DESCRIBE, READ, name=topic)
    world.allow(GROUP, READ)


def _write_only(world: World) -> None:
    """A record of a client that may write, and whose group may be read."""
    world.create()
    world.allow(TOPIC, WRITE, CREATE, DESCRIBE)
    world.allow(GROUP, READ)
    assert world.produce() == ["sent"]


def _described(world: World, *topics: str) -> list[str]:
    admin = AdminClient(world.login())  # lives until the answers are there
    found = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_DEADLINE_S)
    return [_outcome(each.result) for each in found.values()]


def _outcome(result: Callable[[float], Any]) -> str:
    try:
        return f"{len(result(_DEADLINE_S).partitions)} partition"
    except KafkaException as error:
        return name_of(error)


@_case("testProduceConsumeViaAssign")
def _(world: World) -> Any:
    world.create()
    _read_and_write(world)
    return world.produce(), world.consume(offset=OFFSET_STORED)


@_case("testProduceConsumeViaSubscribe")
def _(world: World) -> Any:
    world.create()
    _read_and_write(world)
    return world.produce(), world.consume(subscribe=True)


def _by_acls_for(world: World, topics: str, groups: str, pattern: int) -> Any:
    world.create()
    world.allow(TOPIC, WRITE, CREATE, DESCRIBE, READ, name=topics, pattern=pattern)
    world.allow(GROUP, READ, name=groups, pattern=pattern)
    return world.produce(), world.consume(subscribe=True)


@_case("testProduceConsumeWithWildcardAcls")
def _(world: World) -> Any:
    return _by_acls_for(world, "*", "*", LITERAL)


@_case("testProduceConsumeWithPrefixedAcls")
def _(world: World) -> Any:
    return _by_acls_for(world, world.topic[:-1], world.group[:-1], PREFIXED)


@_case("testProduceConsumeTopicAutoCreateTopicCreateAcl")
def _(world: World) -> Any:
    _read_and_write(world)
    return world.produce(allow_auto_create_topics=True), world.consume(offset=OFFSET_STORED)


def _no_describe(world: World, *, is_idempotent: bool) -> Any:
    """First without rights, then with rights on another topic, then with all."""
    world.create(world.topic, world.other)
    world.fill()
    world.allow(GROUP, READ)
    settings: dict[str, Any] = {"enable_idempotence": is_idempotent}
    refused = world.produce(**settings), world.consume(within_s=QUIET_S), _described(world, world.topic)
    _read_and_write(world, world.other)
    producer = world.producer(**settings)
    other = sent(producer, world.other), world.consume(world.other), _described(world, world.topic, world.other)
    consumer = world.consumer(auto_offset_reset="earliest")
    try:
        consumer.assign([TopicPartition(name, 0, 0) for name in (world.topic, world.other)])
        both = all_of(consumer, {"u"}) + all_of(consumer, {"t"}, QUIET_S)
        _read_and_write(world)
        wait_until(lambda: sent(producer, world.topic) == ["sent"], "the topic may be written", _DEADLINE_S)
        allowed = all_of(consumer, {"t"})
    finally:
        consumer.close()
    # Whether the refusal is told again beside the records, and how often a record was tried, is a matter of time.
    records = [[told for told in found if told not in _REFUSALS] for found in (both, allowed)]
    return refused, other, records, _described(world, world.topic, world.other)


_case("testNoDescribeProduceOrConsumeWithoutTopicDescribeAcl, idempotent")(partial(_no_describe, is_idempotent=True))
_case("testNoDescribeProduceOrConsumeWithoutTopicDescribeAcl")(partial(_no_describe, is_idempotent=False))


def _described_only(world: World, *, is_idempotent: bool) -> Any:
    world.create()
    world.allow(TOPIC, DESCRIBE)
    return world.produce(enable_idempotence=is_idempotent)


_case("testNoProduceWithDescribeAcl, idempotent")(partial(_described_only, is_idempotent=True))
_case("testNoProduceWithDescribeAcl")(partial(_described_only, is_idempotent=False))


@_case("testNoConsumeWithoutDescribeAclViaAssign")
def _(world: World) -> Any:
    _write_only(world)
    world.revoke(TOPIC, DESCRIBE, WRITE)
    consumer = world.consumer()
    try:
        consumer.assign([TopicPartition(world.topic, 0, OFFSET_BEGINNING)])
        return quiet_until(consumer, partial(_read_and_write, world))
    finally:
        consumer.close()


@_case("testNoConsumeWithoutDescribeAclViaSubscribe")
def _(world: World) -> Any:
    _write_only(world)
    world.revoke(TOPIC, DESCRIBE, WRITE)
    world.create(world.other)
    consumer = world.consumer()
    try:
        consumer.subscribe([world.topic])
        alone = received(consumer)
        _read_and_write(world)
        consumer.subscribe([world.topic, world.other])
        both = all_of(consumer, {"TOPIC_AUTHORIZATION_FAILED", "t"})
    finally:
        consumer.close()
    return alone, both, world.consume(subscribe=True)


@_case("testNoConsumeWithDescribeAclViaAssign")
def _(world: World) -> Any:
    _write_only(world)
    return world.consume()


@_case("testNoConsumeWithDescribeAclViaSubscribe")
def _(world: World) -> Any:
    _write_only(world)
    return world.consume(subscribe=True)


@_case("testNoGroupAcl")
def _(world: World) -> Any:
    world.create()
    world.allow(TOPIC, WRITE, CREATE, DESCRIBE)
    return world.produce(), world.consume(offset=OFFSET_STORED)


@_sasl_case("testTwoConsumersWithDifferentSaslCredentials")
def _(world: World) -> Any:
    """The second has no rights on the topic and the group, and is told of either."""
    world.create()
    _read_and_write(world)
    first = world.produce(), world.consume(offset=OFFSET_STORED)
    consumer = world.consumer("bob")
    try:
        consumer.assign([TopicPartition(world.topic, 0, OFFSET_STORED)])
        told = received(consumer)
        return first, "refused" if told in _REFUSALS else told
    finally:
        consumer.close()


@_sasl_case("testAuthentications")
def _(world: World) -> Any:
    """Kafka's case counts; here is who is let in, and what the others are told."""
    return [
        _login(world.login() | changed) for changed in ({}, {"sasl.password": "wrong"}, {"sasl.username": "nobody"})
    ]


def _login(properties: dict[str, Any]) -> str:
    told: list[KafkaError] = []
    admin = AdminClient(properties | {"error_cb": told.append})
    try:
        admin.list_topics(timeout=_LOGIN_S)
    except KafkaException:
        wait_until(lambda: admin.poll(0.1) >= 0 and bool(_telling(told)), "an error", _DEADLINE_S)
        return _telling(told)[0]
    return "logged in"


def _telling(errors: Iterable[KafkaError]) -> list[str]:
    """Without those that only say that a connection has ended."""
    return [error.name() for error in errors if error.code() not in PASSING]
