"""Avro, Protobuf and JSON Schema: types of columns, and values written by the libraries that applications use."""

from __future__ import annotations

import base64
import io
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import any_pb2, type_pb2  # type: ignore[import-untyped]

from highwater.pipeline.errors import RecordsError, SettingsError
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.registry import client
from highwater.pipeline.registry.avro_format import AvroFormat
from highwater.pipeline.registry.client import Registered, RegistrySettings, latest
from highwater.pipeline.registry.decoding import ColumnFormat, Decoder, Formats
from highwater.pipeline.registry.json_format import JsonFormat
from highwater.pipeline.registry.protobuf_format import ProtobufFormat
from highwater.pipeline.registry.wire import UnreadableValueError, split, split_message_path

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": "State"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "price", "type": "double"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
ORDER = {
    "id": 7,
    "note": None,
    "at": NOON,
    "day": date(2026, 11, 25),
    "amount": Decimal("12.50"),
    "state": "PAID",
    "before": "NEW",
    "lines": [{"price": 1.5}],
    "tags": {"a": 1},
}


def avro_bytes(schema: dict[str, Any], value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_avro_values_fit_their_type() -> None:
    text = json.dumps(AVRO)
    found = AvroFormat(text)
    value = found.decode(avro_bytes(AVRO, ORDER), text)
    (row,) = pa.array([value], found.type).to_pylist()
    assert row == {**ORDER, "tags": [("a", 1)]}
    assert found.type.field("at").type == pa.timestamp("us", tz="UTC")
    assert found.type.field("amount").type == pa.decimal128(8, 2)


def test_avro_resolves_the_writers_schema() -> None:
    """A value of an older schema has the default of a new field, and a dropped field is gone."""
    older = {"type": "record", "name": "Order", "fields": [*AVRO["fields"][:1], {"name": "old", "type": "string"}]}
    newer = {"type": "record", "name": "Order", "fields": AVRO["fields"][:2]}
    payload = avro_bytes(older, {"id": 1, "old": "x"})
    assert AvroFormat(json.dumps(newer)).decode(payload, json.dumps(older)) == {"id": 1, "note": None}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"name": "a", "type": ["int", "string"]}], "the value.a is a union of 2 types"),
        ([{"name": "next", "type": ["null", "Order"]}], "the value.next has the type Order, which contains itself"),
    ],
)
def test_avro_without_a_type_of_columns_is_refused(fields: list[Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        AvroFormat(json.dumps({"type": "record", "name": "Order", "fields": fields}))


@pytest.mark.parametrize(
    ("logical", "value", "kind"),
    [
        ({"type": "string", "logicalType": "uuid"}, "8a6e0804-2bd0-4672-b79d-d97027f9071a", pa.string()),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(range(16)), pa.binary()),
        ({"type": "int", "logicalType": "time-millis"}, 3_600_000, pa.int32()),
        ({"type": "long", "logicalType": "time-micros"}, 3_600_000_000, pa.int64()),
    ],
)
def test_avro_types_of_python_that_spark_lacks_are_the_plain_types_below(
    logical: dict[str, Any], value: Any, kind: Any
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", logical]}]}
    text = json.dumps(schema)
    found = AvroFormat(text)
    plain = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", {**logical, "logicalType": ""}]}]}
    assert pa.array([found.decode(avro_bytes(plain, {"x": value}), text)], found.type).to_pylist() == [{"x": value}]
    assert found.type.field("x").type == kind


def test_a_decimal_that_spark_lacks_is_named() -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    schema = {"type": "record", "name": "R", "fields": [{"name": "amount", "type": ["null", amount]}]}
    with pytest.raises(SettingsError, match=r"the value\.amount is a decimal\(50, 2\); Spark has 38 digits at most"):
        AvroFormat(json.dumps(schema))


def _decoded(kind: str, schema: dict[str, Any], payloads: list[bytes], *, is_null_on_error: bool) -> list[Any]:
    registered = Registered(1, kind.upper(), json.dumps(schema), {})
    settings = RegistrySettings((("url", "http://127.0.0.1:1"),))
    formats = Formats(settings, (ColumnFormat("value", kind, "s", is_null_on_error, reader=registered),))
    decoder = Decoder(formats)
    decoder._writer = lambda schema_id: registered.text  # type: ignore[method-assign]
    values = [b"\0\0\0\0\x01" + payload for payload in payloads]
    rows = pa.RecordBatch.from_pydict(
        {"offset": pa.array(range(70, 70 + len(values)), pa.int64()), "value": pa.array(values, pa.binary())}
    )
    found: list[Any] = decoder.rows(rows, OffsetRange("orders", 3, 70, 90)).column("value").to_pylist()
    return found


def _json_of(kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"type": kind}}}


def _avro_of(**kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}


@pytest.mark.parametrize(
    ("kind", "schema", "poison", "good"),
    [
        ("json", _json_of("integer"), b'{"x": 9223372036854775808}', b'{"x": 1}'),
        ("json", _json_of("integer"), b'{"x": 1e999}', b'{"x": 1}'),
        ("json", _json_of("integer"), b'{"x": ' + b"9" * 5000 + b"}", b'{"x": 1}'),
        ("json", _json_of("number"), b'{"x": Infinity}', b'{"x": 1}'),
        ("json", _json_of("number"), b'{"x": 1' + b"0" * 400 + b"}", b'{"x": 1}'),
        ("json", _json_of("string"), rb'{"x": "\ud800"}', b'{"x": "a"}'),
        ("json", _json_of("string"), b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"x": "a"}'),
        ("json", _json_of("string"), b"\xff\xfe", b'{"x": "a"}'),
        ("avro", _avro_of(type="int", logicalType="date"), b"\xfe\xff\xff\xff\x0f", b"\x02"),
        ("avro", _avro_of(type="long", logicalType="timestamp-micros"), b"\xfe" + b"\xff" * 8 + b"\x01", b"\x02"),
        ("avro", _avro_of(type="int"), b"\xfe" + b"\xff" * 8 + b"\x01", b"\x02"),
        (
            "avro",
            _avro_of(type="bytes", logicalType="decimal", precision=4, scale=2),
            b"\x10" + b"\x7f" * 8,
            b"\x02\x01",
        ),
        ("avro", _avro_of(type="string"), b"\xfe" + b"\xff" * 8 + b"\x01", b"\x02a"),
    ],
)
def test_one_poisonous_value_is_null_or_is_named_with_its_offset(
    kind: str, schema: dict[str, Any], poison: bytes, good: bytes
) -> None:
    payloads = [good, poison, good]
    first, second, third = _decoded(kind, schema, payloads, is_null_on_error=True)
    assert second is None
    assert first == third
    assert first["x"] is not None
    with pytest.raises(
        RecordsError,
        match=r"^orders-3 at offset 71: value: it (is not|has a|does not fit) .*; value\.onError=null makes it",
    ):
        _decoded(kind, schema, payloads, is_null_on_error=False)


def test_damaged_avro_is_one_error() -> None:
    text = json.dumps(AVRO)
    with pytest.raises(UnreadableValueError, match="not Avro of its schema"):
        AvroFormat(text).decode(b"\x02", text)


PROTOBUF = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "shop/money.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated double prices = 3;
  google.protobuf.Timestamp at = 4;
  enum State { NEW = 0; PAID = 1; }
  State state = 5;
  map<string, int32> tags = 6;
  Money total = 7;
  bytes raw = 8;
  uint64 big = 9;
}
"""
MONEY = 'syntax = "proto3";\npackage shop;\nmessage Money { string currency = 1; }\n'


def test_protobuf_values_fit_their_type() -> None:
    found = ProtobufFormat(PROTOBUF, {"shop/money.proto": MONEY})
    # id 7, prices [1.5], at 1 s, state PAID, tags {a: 1}, total {EUR}, big 2^64 - 1, by the rules of the encoding.
    payload = (
        b"\x08\x07\x1a\x08\x00\x00\x00\x00\x00\x00\xf8\x3f\x22\x02\x08\x01\x28\x01\x32\x05\x0a\x01a\x10\x01"
        b"\x3a\x05\x0a\x03EUR\x48" + b"\xff" * 9 + b"\x01"
    )
    value = found.decode(b"\x00" + payload, PROTOBUF)
    (row,) = pa.array([value], found.type).to_pylist()
    assert row == {
        "id": 7,
        "note": None,
        "prices": [1.5],
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "state": "PAID",
        "tags": [("a", 1)],
        "total": {"currency": "EUR"},
        "raw": b"",
        "big": Decimal(2**64 - 1),
    }


def test_protobuf_that_contains_itself_or_is_another_message() -> None:
    with pytest.raises(SettingsError, match=r"the value.next is a T, which contains itself"):
        ProtobufFormat('syntax = "proto3"; message T { T next = 1; }', {})
    two = 'syntax = "proto3"; message A { int32 a = 1; } message B { int32 b = 1; }'
    with pytest.raises(UnreadableValueError, match="it is a B, and not a A"):
        ProtobufFormat(two, {}).decode(b"\x02\x02", two)


def test_protobuf_as_a_descriptor_in_base64() -> None:
    """As confluent-kafka's serialiser registers it."""
    text = base64.b64encode(type_pb2.DESCRIPTOR.serialized_pb).decode()
    found = ProtobufFormat(text, {}, "Option")
    # The fifth message of its file.
    payload = b"\x02\x08" + type_pb2.Option(name="x", value=any_pb2.Any(type_url="t", value=b"v")).SerializeToString()
    assert found.decode(payload, text) == {"name": "x", "value": {"type_url": "t", "value": b"v"}}


def test_protobuf_imports_stay_in_their_folder() -> None:
    with pytest.raises(SettingsError, match="outside of its folder"):
        ProtobufFormat('syntax = "proto3"; message A { int32 a = 1; }', {"../../evil.proto": ""})


JSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
)


def test_json_values_fit_their_type() -> None:
    found = JsonFormat(JSON)
    value = found.decode(b'{"id": 1, "price": 2, "lines": [{"ok": true}, {}], "tags": {"a": "b"}, "more": 1}', JSON)
    (row,) = pa.array([value], found.type).to_pylist()
    assert row == {"id": 1, "price": 2.0, "lines": [{"ok": True}, {"ok": None}], "tags": [("a", "b")]}


@pytest.mark.parametrize("choice", ["oneOf", "anyOf"])
@pytest.mark.parametrize("null", [{"type": "null"}, {"type": "null", "title": "Not included"}])
def test_json_fields_that_may_be_null_as_generators_write_them(choice: str, null: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"x": {choice: [null, {"type": "integer"}]}, "y": {"type": "string"}}}
    found = JsonFormat(json.dumps(schema))
    assert found.type.field("x").type == pa.int64()
    assert found.decode(b'{"x": null, "y": "a"}', "") == {"x": None, "y": "a"}
    two = {choice: [null, {"type": "integer"}, {"type": "string"}]}
    with pytest.raises(SettingsError, match="the value has no single type"):
        JsonFormat(json.dumps(two))


def test_json_that_does_not_fit() -> None:
    with pytest.raises(UnreadableValueError, match="it has str where its schema says int64"):
        JsonFormat(JSON).decode(b'{"id": "1"}', JSON)
    with pytest.raises(SettingsError, match=r"the value.a has no single type in its JSON schema"):
        JsonFormat('{"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}')


def test_what_stands_before_a_value() -> None:
    assert split(b"\x00\x00\x00\x01\x00rest") == (256, b"rest")
    assert split_message_path(b"\x00rest") == ((0,), b"rest")
    assert split_message_path(b"\x04\x02\x00rest") == ((1, 0), b"rest")
    with pytest.raises(UnreadableValueError, match="no serialiser of a registry wrote it"):
        split(b'{"id": 1}')


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where values that cannot be read become null: these can."""
    schema = Registered(1, "AVRO", json.dumps(AVRO), {})
    settings = RegistrySettings((("url", "http://127.0.0.1:1"),))
    formats = Formats(settings, (ColumnFormat("value", "avro", "orders-value", True, reader=schema),))
    client.client_of.cache_clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "confluent_kafka.schema_registry", None)
        way_out = r"needs confluent_kafka\.schema_registry: .*pip install .*\[registry\]"
        with pytest.raises(SettingsError, match=way_out):
            latest(settings, "orders-value")
        with pytest.raises(SettingsError, match=way_out):
            Decoder(formats)
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "highwater.pipeline.registry.protobuf_format")
        without.setitem(sys.modules, "google.protobuf", None)
        wanted = ColumnFormat("value", "protobuf", "orders-value", False, reader=Registered(1, "PROTOBUF", "", {}))
        with pytest.raises(SettingsError, match=r"^value\.format=protobuf needs google\.protobuf: .*pip install"):
            wanted.format()
