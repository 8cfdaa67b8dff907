"""Requests as a stranger may make them, through every handler: an answer or a closed connection, never a bug of ours.

A live broker under such bytes is in tests/broker/server/test_hostility.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import io
import random
import struct
import types
import typing
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import Records

from highwater.broker.handlers.shared.reply import CloseConnection
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, Api
from highwater.kafka.protocol.primitives import MalformedRequestError
from tests.broker.handlers.harness import NodeHarness, one_batch, versions

SERVED = [(api, version) for api in APIS.values() for version in versions(api.name)]
batches = st.binary(max_size=200) | st.just(one_batch(b"value"))
st.register_type_strategy(Records, batches.map(Records.parse))
TOPIC_ID = UUID(int=8)
fuzz = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def hostile_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeHarness]:
    node = NodeHarness(tmp_path_factory.mktemp("hostile") / "log", num_partitions="1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("highwater.broker.alone.topics.random_topic_id", lambda: TOPIC_ID)
        node.create_topic("t")
    yield node
    node.close()


def familiar(value: Any, chance: random.Random) -> Any:
    """The same with names and numbers in it that lead further than to `unknown topic`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: familiar(getattr(value, field.name), chance) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    if isinstance(value, tuple):
        return tuple(familiar(item, chance) for item in value)
    if type(value) is str and chance.random() < 0.7:
        return chance.choice(["t", "t", "0", "consumer", "cleanup.policy", "compact", "client-id"])
    if type(value) is int and chance.random() < 0.7:
        return chance.choice([0, 0, 1, -1, 2, 4])
    if type(value) is UUID and chance.random() < 0.7:
        return TOPIC_ID
    return value


def frame_of(api: Api, version: int, entity: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        entity_writer(type(entity))(buffer, entity)
    except (ValueError, OverflowError, struct.error):
        assume(False)  # kio draws values that its writers do not take.
    tags = b"\x00" if entity.__flexible__ else b""
    return struct.pack(">hhih4s", api.key, version, 1, 4, b"test") + tags + buffer.getvalue()


def send(node: NodeHarness, frame: bytes) -> None:
    with contextlib.suppress(MalformedRequestError, CloseConnection):
        node.send(frame)
    node.scheduler.run(1)


def sample(hint: Any, kafka_type: str = "") -> Any:
    """A small value of every field, so that a request with them can be cut anywhere."""
    choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return sample(choices[0], kafka_type)
    if typing.get_origin(hint) is tuple:
        return (sample(choices[0], kafka_type),)
    if dataclasses.is_dataclass(hint):
        fields = {field.name: field.metadata.get("kafka_type", "") for field in dataclasses.fields(hint)}
        hints = typing.get_type_hints(hint)
        return hint(**{name: sample(hints[name], kind) for name, kind in fields.items()})  # type: ignore[operator]
    return {
        "bool": False,
        "bytes": b"bytes",
        "float64": 1.0,
        "records": one_batch(b"value"),
        "string": "t",
        "timedelta_i32": datetime.timedelta(milliseconds=1),
        "timedelta_i64": datetime.timedelta(milliseconds=1),
        "uuid": UUID(int=7),
    }.get(kafka_type, 0)


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: value.name if isinstance(value, Api) else None)
def test_a_request_cut_short_at_any_byte_is_refused(hostile_node: NodeHarness, api: Api, version: int) -> None:
    frame = frame_of(api, version, sample(cold._entity(api.name, version, EntityType.request)))
    if api.key == API_VERSIONS:
        hostile_node.send(frame)
    for size in range(len(frame)):
        with pytest.raises(MalformedRequestError):
            hostile_node.send(frame[:size])


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda value: value.name if isinstance(value, Api) else None)
@fuzz
@given(data=st.data())
def test_any_request_is_answered_or_refused(hostile_node: NodeHarness, api: Api, version: int, data: Any) -> None:
    entity = data.draw(st.from_type(cold._entity(api.name, version, EntityType.request)))
    send(hostile_node, frame_of(api, version, familiar(entity, data.draw(st.randoms(use_true_random=False)))))
