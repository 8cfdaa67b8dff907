"""Payloads of each codec, and such as a stranger may push."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from highwater.broker.telemetry.payload import UNFOLDED_RATIO, read_payload
from highwater.kafka.records.batch import Codec
from highwater.kafka.records.compress import compress
from tests.broker.telemetry.payloads import pushed

MAX_BYTES = 100_000
CODECS = list(Codec)
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_payload_is_read_as_it_was_before_compression(codec: Codec) -> None:
    payload = pushed(group_id="g")
    assert read_payload(codec, compress(codec, payload), MAX_BYTES) == payload


def test_a_payload_is_what_receivers_of_opentelemetry_take() -> None:
    """The Kafka receiver of its Collector reads such a value as `otlp_proto`."""
    payload = pushed(group_id="g")
    assert ExportMetricsServiceRequest.FromString(payload).SerializeToString() == payload


@pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: codec.name)
def test_a_bomb_is_too_large(codec: Codec) -> None:
    """Not invalid: clients would push nothing any more."""
    bomb = compress(codec, b"\x00" * (UNFOLDED_RATIO * MAX_BYTES + 1))
    assert read_payload(codec, bomb, MAX_BYTES) is ErrorCode.telemetry_too_large


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_what_is_no_payload_is_invalid(codec: Codec) -> None:
    assert read_payload(codec, b"\xff" * 200, MAX_BYTES) is ErrorCode.invalid_record
    assert read_payload(codec, compress(codec, b"no protobuf"), MAX_BYTES) is ErrorCode.invalid_record
    cut = compress(codec, pushed(group_id="g"))[:-1]
    assert read_payload(codec, cut, MAX_BYTES) is ErrorCode.invalid_record


@given(st.sampled_from(CODECS), st.binary(max_size=300))
def test_nothing_else_comes_of_any_bytes(codec: Codec, data: bytes) -> None:
    outcome = read_payload(codec, data, 1000)
    assert isinstance(outcome, bytes) or outcome in (ErrorCode.invalid_record, ErrorCode.telemetry_too_large)
