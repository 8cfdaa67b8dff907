from __future__ import annotations

import contextlib
import datetime
import io
import struct
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError
from tests.kafka.protocol.plain import plain

COLD = [
    (api.name, version)
    for api in APIS.values()
    if api.name not in ("produce", "fetch", "metadata")
    for version in range(api.min_version, api.max_version + 1)
]


def decode(name: str, version: int, raw: bytes) -> object:
    flexible = cold._entity(name, version, EntityType.request).__flexible__
    return cold.decode_request(name, version, Decoder(memoryview(b"header" + raw), len(b"header"), flexible=flexible))


def test_an_answer_leaves_out_what_a_version_lacks_and_fills_in_what_it_was_not_given() -> None:
    answer = {"topics": [{"name": "t", "error_code": ErrorCode.none, "num_partitions": 3}]}
    assert (
        cold.encode_response("create_topics", 2, answer) == b"\0\0\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0" + b"\xff\xff"
    )
    newest, _ = entity_reader(CreateTopicsResponse)(cold.encode_response("create_topics", 7, answer), 0)
    (topic,) = newest.topics
    assert (topic.name, topic.num_partitions, topic.error_message) == ("t", 3, None)
    assert newest.throttle_time == datetime.timedelta()


def test_a_field_that_no_version_has_is_a_bug() -> None:
    with pytest.raises(TypeError, match="nmae"):
        cold.encode_response("create_topics", 4, {"topics": [{"nmae": "t"}]})


def written_by_kio(drawn: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        entity_writer(type(drawn))(buffer, drawn)
    except struct.error:
        reject()  # a time-out that its field cannot hold
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "version"), COLD)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_requests_are_written_and_read_as_kio_does_it(name: str, version: int, data: st.DataObject) -> None:
    entity = cold._entity(name, version, EntityType.request)
    request = data.draw(st.from_type(entity))
    raw = written_by_kio(request)
    assert cold.encode_request(name, version, plain(request)) == raw
    try:
        expected = entity_reader(entity)(raw, 0)[0]
    except ValueError:
        return  # kio writes time-outs that it cannot read.
    assert decode(name, version, raw) == expected


@pytest.mark.parametrize(("name", "version"), COLD)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_answers_are_written_as_kio_writes_them(name: str, version: int, data: st.DataObject) -> None:
    answer = data.draw(st.from_type(cold._entity(name, version, EntityType.response)))
    assert cold.encode_response(name, version, plain(answer)) == written_by_kio(answer)


@pytest.mark.parametrize(("name", "version"), COLD)
@settings(max_examples=5, deadline=None)
@given(raw=st.binary(max_size=100))
def test_garbage_is_decoded_or_malformed(name: str, version: int, raw: bytes) -> None:
    with contextlib.suppress(MalformedRequestError):
        decode(name, version, raw)


@pytest.mark.parametrize("raw", [struct.pack(">i", 2**31 - 1), struct.pack(">i", -2), struct.pack(">i", 200_001)])
def test_an_impossible_count_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="items"):
        decode("create_topics", 4, raw + bytes(1_000_000))


def test_a_null_array_where_there_must_be_one_is_malformed() -> None:
    with pytest.raises(MalformedRequestError, match="null"):
        decode("create_topics", 4, struct.pack(">i", -1) + bytes(5))
