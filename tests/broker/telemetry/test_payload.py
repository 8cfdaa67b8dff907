"""Payloads of each codec, and such as a stranger may push."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from highwater.broker.telemetry.payload import UNFOLDED_RATIO, read_payload
from highwater.kafka.records.batch import Codec
from highwater.kafka.records.compress import compress
from tests.broker.telemetry.payloads import pushed

MAX_BYTES = 100_000
CODECS = list(Codec)
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]


def nested(numbers: tuple[int, ...], payload: bytes) -> bytes:
    """A field of a field of ..., the outermost first."""
    for number in reversed(numbers):
        size = bytearray()
        write_unsigned(size, len(payload))
        payload = bytes([number << 3 | 2]) + size + payload
    return payload


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


def whole() -> bytes:
    """Every kind of metric, with whatever a message of it may have."""
    data = MetricsData()
    resource = data.resource_metrics.add(schema_url="s")
    resource.resource.attributes.add(key="nested").value.array_value.values.add().kvlist_value.values.add(key="k")
    scope = resource.scope_metrics.add(schema_url="s")
    scope.scope.name, scope.scope.version = "name", "1"
    names = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
    for name in names:
        metric = scope.metrics.add(name=name, description="d", unit="ms")
        metric.metadata.add(key="m").value.bytes_value = b"\xff"
        point = getattr(metric, name).data_points.add(time_unix_nano=1)
        point.attributes.add(key="node.id").value.int_value = -1
        if name == "histogram":
            point.bucket_counts.extend([1, 2, 3])
            point.explicit_bounds.extend([0.5, 1.5])
        if name == "exponential_histogram":
            point.positive.bucket_counts.extend([1, 1 << 63])
        if name == "summary":
            point.quantile_values.add(quantile=0.5, value=1.0)
        else:
            point.exemplars.add(as_double=1.0).filtered_attributes.add(key="e")
    return bytes(data.SerializeToString())


def write_unsigned(output: bytearray, value: int) -> None:
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def is_taken_by_the_library(data: bytes) -> bool:
    try:
        MetricsData.FromString(data)
    except DecodeError:
        return False
    return True


def test_every_message_of_opentelemetry_is_taken() -> None:
    assert read_payload(Codec.NONE, whole(), MAX_BYTES) == whole()


@settings(max_examples=1000)
@given(st.data())
def test_what_is_changed_in_a_payload_is_judged_as_the_library_judges_it(data: st.DataObject) -> None:
    """But for what no client writes: groups, which ended with the second version of Protobuf."""
    payload = bytearray(whole())
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload))) :]
    is_taken = read_payload(Codec.NONE, bytes(payload), MAX_BYTES) == bytes(payload)
    if is_taken:
        assert is_taken_by_the_library(bytes(payload))


@pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x00" * 300_000,
        b"\x10\x00" * 300_000,
        pytest.param(nested((1, 2, 2, 10, 1, 8, 2), bytes(300_000)), id="counts of buckets"),
    ],
)
def test_fields_have_to_be_paid_for(codec: Codec, body: bytes) -> None:
    """The parser of Protobuf takes a second, and 400 MB, for some hundred bytes of these."""
    assert read_payload(codec, compress(codec, body), MAX_BYTES) is ErrorCode.telemetry_too_large


@pytest.mark.parametrize(("levels", "is_taken"), [(10, True), (200, False)])
def test_messages_are_nested_so_deep_at_most(levels: int, is_taken: bool) -> None:
    payload = nested((1, 1, 1, 2, *(5, 1) * levels), b"")
    assert (read_payload(Codec.NONE, payload, MAX_BYTES) == payload) is is_taken
    assert is_taken_by_the_library(payload) is is_taken


@pytest.mark.parametrize("many", [1, 1000, 4000])
def test_a_payload_of_many_metrics_is_taken(many: int) -> None:
    payload = pushed({f"org.apache.kafka.consumer.topic.partition.records.lag.{n}": 1.5 for n in range(many)})
    for codec in CODECS:
        assert read_payload(codec, compress(codec, payload), 1 << 20) == payload


@given(st.sampled_from(CODECS), st.binary(max_size=300))
def test_nothing_else_comes_of_any_bytes(codec: Codec, data: bytes) -> None:
    outcome = read_payload(codec, data, 1000)
    assert isinstance(outcome, bytes) or outcome in (ErrorCode.invalid_record, ErrorCode.telemetry_too_large)
