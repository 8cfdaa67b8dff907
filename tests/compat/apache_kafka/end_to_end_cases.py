"""Cases of Kafka's EndToEndAuthorizationTest by their names, each told as what its clients get.

They show that a right is of who logged in, and that a client gets one while it is connected. What each right allows is
the same whatever the login: authorizer_clients.py has that.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_STORED, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.kafka.acl import Operation
from tests.compat.apache_kafka.authorizer_world import (
    GROUP,
    PASSING,
    TOPIC,
    Check,
    World,
    mirrors,
    quiet_until,
    received,
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


def _read_and_write(world: World) -> None:
    world.allow(TOPIC, WRITE, CREATE, DESCRIBE, READ)
    world.allow(GROUP, READ)


def _write_only(world: World) -> None:
    """A record of a client that may write, and whose group may be read."""
    world.create()
    world.allow(TOPIC, WRITE, CREATE, DESCRIBE)
    world.allow(GROUP, READ)
    assert world.produce() == ["sent"]


@_case("testProduceConsumeViaSubscribe")
def _(world: World) -> Any:
    world.create()
    _read_and_write(world)
    return world.produce(), world.consume(subscribe=True)


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
