"""Records of the topic of client metrics as values, and records that are none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import Codec
from highwater.kafka.records.record import Record, encode_batch
from highwater.monitor.kafka_source.client_pushes import pushes_of
from highwater.monitor.model import ClientPush
from tests.broker.telemetry.payloads import pushed

PREFIX = "org.apache.kafka."
HEADERS = {
    "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAg",
    "client_id": "orders",
    "client_software_name": "librdkafka",
    "client_software_version": "2.12.1",
    "client_source_address": "10.0.0.7",
    "client_source_port": "51234",
    "principal": "alice",
    "push_interval_ms": "60000",
    "is_terminating": "false",
    "broker_produce_latency_ms": "0.25",
    "broker_id": "3",
}


def record(value: bytes | None, **headers: str) -> Record:
    told = {**HEADERS, **headers}
    return Record(value, b"key", 1_790_000_000_000, tuple((name, text.encode()) for name, text in told.items()))


def read(*records: Record, start: int = 0, base_offset: int = 0) -> list[tuple[int, ClientPush | None]]:
    data = encode_batch(records, codec=Codec.ZSTD, base_offset=base_offset)
    return list(pushes_of(bytes(data), start))


def test_a_push_has_what_the_broker_knows_of_the_client_and_what_the_client_measured() -> None:
    gauges = {f"{PREFIX}producer.request.latency.avg": 2.5, f"{PREFIX}producer.request.latency.max": 40.0, "other": 1.0}
    ((offset, push),) = read(record(pushed(gauges, client_rack="a")), base_offset=7)
    assert offset == 8
    assert push == ClientPush(
        instance_id="AAAAAAAAAAAAAAAAAAAAAg",
        client_id="orders",
        software="librdkafka",
        version="2.12.1",
        address="10.0.0.7",
        user="alice",
        group="",
        broker=3,
        at_ms=1_790_000_000_000,
        interval_ms=60_000,
        is_last=False,
        values={"produce_ms": 2.5, "produce_max_ms": 40.0},
        metrics=3,
        broker_produce_ms=0.25,
        broker_fetch_ms=None,
    )


def test_the_group_of_a_consumer_is_an_attribute_of_the_payload() -> None:
    ((_, push),) = read(record(pushed({}, group_id="billing", client_rack="a")))
    assert push is not None
    assert push.group == "billing"


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_latency_without_a_request_is_not_known(value: float) -> None:
    ((_, push),) = read(record(pushed({f"{PREFIX}producer.request.latency.avg": value})))
    assert push is not None
    assert push.values == {}


@pytest.mark.parametrize("value", [-1.0, 5e-324, 1e300, 1.7e308])
@pytest.mark.parametrize("name", ["producer.request.latency.avg", "producer.record.error.rate"])
def test_what_nobody_measures_is_left_out(name: str, value: float) -> None:
    """The page could not be drawn: two of the largest add up to infinity, and a third of the smallest is 0."""
    ((_, push),) = read(record(pushed({f"{PREFIX}{name}": value})))
    assert push is not None
    assert push.values == {}


def test_no_errors_is_a_value() -> None:
    ((_, push),) = read(record(pushed({f"{PREFIX}producer.record.error.rate": 0.0})))
    assert push is not None
    assert push.values == {"errors_per_s": 0.0}


def test_the_last_push_is_known() -> None:
    ((_, push),) = read(record(pushed(), is_terminating="true"))
    assert push is not None
    assert push.is_last


def test_reading_goes_on_in_the_middle_of_a_batch() -> None:
    found = read(*(record(pushed(), client_id=name) for name in "abc"), start=1)
    assert [(offset, push.client_id) for offset, push in found if push is not None] == [(2, "b"), (3, "c")]


@pytest.mark.parametrize(
    "wrong",
    [
        record(b"\xff\xff"),
        record(pushed(), broker_id="x"),
        record(pushed(), push_interval_ms=""),
        record(pushed(), client_instance_id=""),
    ],
)
def test_a_record_that_is_no_push_is_passed_over(wrong: Record) -> None:
    (first, second) = read(wrong, record(pushed()))
    assert first == (1, None)
    assert second[1] is not None


def test_a_damaged_batch_is_passed_over() -> None:
    damaged = bytearray(encode_batch([record(pushed())], codec=Codec.ZSTD))
    damaged[-4:] = b"\xff" * 4
    good = encode_batch([record(pushed())], base_offset=1)
    (first, second) = pushes_of(bytes(damaged + good), 0)
    assert first == (1, None)
    assert second[1] is not None


@given(st.binary(max_size=200))
def test_nothing_else_comes_of_any_bytes(data: bytes) -> None:
    for offset, _ in pushes_of(data, 0):
        assert offset > 0
