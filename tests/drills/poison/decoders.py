"""The decoders of bytes that others wrote: for each what is valid, what is hostile, and what it may raise."""

from __future__ import annotations

import functools
import io
import json
import random
import re
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import fastavro
import pyarrow as pa
import yaml

from highwater.admin.mirroring import progress as mirror_progress
from highwater.admin.reassignment_plan import MalformedPlan, parse_plan
from highwater.bench.workload.specification import load_specification
from highwater.bench.workload.trace_directory import MANIFEST, read_trace
from highwater.bench.workload.yaml_document import read_document as read_bench_document
from highwater.broker.cluster import znodes
from highwater.broker.settings.config import ConfigError, read_properties_file
from highwater.common.ceilings import CeilingsError, parse_ceilings
from highwater.common.errors import UsageError
from highwater.common.host_answer import AnswerError, parse_answer
from highwater.common.java_properties import MalformedEscape, parse_properties
from highwater.common.secret_names import has_secret_in_url
from highwater.common.yaml_nodes import read as read_yaml
from highwater.kafka.login.jaas import parse_login_text
from highwater.kafka.protocol import cold, fetch, frame, metadata, produce
from highwater.kafka.protocol.apis import APIS
from highwater.kafka.protocol.primitives import Decoder as RequestDecoder
from highwater.kafka.protocol.primitives import MalformedRequestError
from highwater.kafka.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    CorruptBatch,
    update_crc,
    validate_produced,
)
from highwater.kafka.records.record import Record as LogRecord
from highwater.kafka.records.record import decode_batch, encode_batch
from highwater.monitor.config import read_config
from highwater.monitor.web.byte_texts import FORMS, byte_text
from highwater.monitor.zookeeper import hiding, meaning
from highwater.pipeline.database.address import read_address
from highwater.pipeline.errors import RecordsError, SettingsError
from highwater.pipeline.kafka.columns import COLUMNS
from highwater.pipeline.kafka.decode import decode
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.filter import FilterError, parse_filter
from highwater.pipeline.messaging.record import Record
from highwater.pipeline.progress.batch import ProgressError, offsets_from_text
from highwater.pipeline.registry import decoding
from highwater.pipeline.registry.avro_format import AvroFormat
from highwater.pipeline.registry.client import Registered, RegistrySettings
from highwater.pipeline.registry.decoding import ColumnFormat, Formats
from highwater.pipeline.registry.json_format import JsonFormat
from highwater.pipeline.registry.protobuf_format import ProtobufFormat
from highwater.pipeline.run.parse import EXAMPLE, parse_pipeline
from highwater.pipeline.source.offsets import read_assignment
from highwater.results.files import ResultDirectoryError
from highwater.results.reader import RunResult
from highwater.studies.capacity.load import load_of
from highwater.tuning.boot_files.sysctl_d import parse_lines
from highwater.tuning.errors import TuningError
from tests.drills.poison import stored
from tests.drills.poison.drill import Decoder, Hostile
from tests.drills.poison.inputs import hostile_bytes, hostile_json, hostile_text, hostile_yaml
from tests.drills.poison.listeners import CHANNEL_LINES, HTTP_HEADS, read_channel, read_http
from tests.reports.sample_run import Sample, write_sample
from tests.studies.capture.logs import batch, observed, record, trace_of

ROOT: Final = Path(__file__).resolve().parents[3]
NOW_MS: Final = 1_795_000_000_000
_BYTES_MAX: Final = 1 << 20
Make = Callable[[str], Decoder]
"""Makes a decoder of a name when it is asked for: some valid inputs come from the product's own writers."""


def _of_bytes(valid: Sequence[bytes]) -> Hostile:
    return lambda rng: hostile_bytes(rng, rng.choice(valid))


def _of(make: Callable[..., bytes], texts: Sequence[bytes]) -> Hostile:
    return lambda rng: make(rng, rng.choice(texts).decode())


# -- Records --------------------------------------------------------------------------------------------------------


def _batches() -> tuple[bytes, ...]:
    records = [LogRecord(b"%0*d" % (number, number), b"key", NOW_MS + number) for number in range(1, 40)]
    with_headers = [LogRecord(b"v", None, NOW_MS, (("a", b"1"), ("", b""), ("n", None)))] * 3
    made = [encode_batch(records, base_offset=3, codec=codec) for codec in Codec]
    return tuple(bytes(each) for each in (*made, encode_batch(with_headers), encode_batch(records[:1])))


def _with_right_crc(data: bytes) -> bytes:
    """Damage under a right CRC is what a faulty producer sends; that under a wrong one is found by the CRC."""
    found = bytearray(data)
    if len(found) >= HEADER_SIZE:
        struct.pack_into(">i", found, 8, len(found) - 12)
        found[16] = 2
        update_crc(found, 0, len(found))
    return bytes(found)


def _read_produced(data: bytes) -> None:
    for each in (data, _with_right_crc(data)):
        header = validate_produced(each, max_message_bytes=_BYTES_MAX)
        if isinstance(header, BatchHeader):
            try:
                decode_batch(each, header, limit_bytes=4 * _BYTES_MAX)
            except CorruptBatch:
                continue
            stored.read_times(header, each, 4 * _BYTES_MAX)


def _read_fetched(data: bytes) -> None:
    for each in (data, _with_right_crc(data)):
        try:
            found = decode(each, topic="t", partition=0, start_offset=3, columns=tuple(COLUMNS))
            found.rows.validate(full=True)
        except RecordsError:
            continue


# -- Headers of records ---------------------------------------------------------------------------------------------

_FILTERS: Final = tuple(
    map(parse_filter, ("n > 5 AND NOT s = 'x'", "n IN (1, 2.5, 'a')", "n BETWEEN 1 AND 5", "n", "value CONTAINS 'a'"))
)


def _read_headers(data: bytes) -> None:
    names = (headers.ATTEMPT, headers.DUE_MS, headers.TIMESTAMP_MS, headers.ORIGIN, headers.TARGET, "n", "traceparent")
    found = Record("t", 0, 5, NOW_MS, data, data, tuple((name, data) for name in names))
    for number in (headers.ATTEMPT, headers.DUE_MS, headers.TIMESTAMP_MS):
        try:
            assert headers.whole_number(found, number) in range(10**18)
        except ValueError:
            continue
    for read in (headers.origin_of, headers.trace_id_of, headers.time_ms, headers.own_timestamp_ms, headers.replayed):
        read(found)
    for taken in _FILTERS:
        assert taken(found) in (True, False)


# -- Values with a schema -------------------------------------------------------------------------------------------

_AVRO: Final = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": "double"}},
        {"name": "tags", "type": {"type": "map", "values": "float"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "ok", "type": "boolean"},
    ],
}
_ORDER: Final = {
    "id": 7,
    "count": 1,
    "note": "x",
    "at": datetime(2026, 11, 25, 12, tzinfo=UTC),
    "day": date(2026, 11, 25),
    "amount": Decimal("12.50"),
    "state": "PAID",
    "lines": [1.5, 2.5],
    "tags": {"a": 1.0},
    "key": "8a6e0804-2bd0-4672-b79d-d97027f9071a",
    "raw": b"1234",
    "ok": True,
}
_JSON: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "note": {"type": ["string", "null"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_JSON_VALUE: Final = (
    b'{"id": 1, "price": 2.5, "note": "a", "lines": [{"ok": true}, {}], "tags": {"a": "b"}, "more": [1]}'
)
_PROTOBUF: Final = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated double prices = 3;
  google.protobuf.Timestamp at = 4;
  enum State { NEW = 0; PAID = 1; }
  State state = 5;
  map<string, int32> tags = 6;
  bytes raw = 7;
  uint64 big = 8;
}
"""
_PROTOBUF_VALUE: Final = (
    b"\x00\x08\x07\x12\x01a\x1a\x08\x00\x00\x00\x00\x00\x00\xf8\x3f\x22\x02\x08\x01\x28\x01\x32\x05\x0a\x01a\x10\x01"
    b"\x3a\x02xy\x40" + b"\xff" * 9 + b"\x01"
)


def _avro_value() -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_AVRO), _ORDER)
    return out.getvalue()


def _reads_values(kind: str, schema: str) -> Callable[[bytes], None]:
    """As a column of an Arrow batch, once with onError=null, which must not raise, and once without."""
    registered = Registered(1, kind.upper(), schema, {})
    of = OffsetRange("orders", 3, 70, 71)

    @functools.cache
    def decoder(is_null_on_error: bool) -> decoding.Decoder:
        column = ColumnFormat("value", kind, "s", is_null_on_error, reader=registered)
        found = decoding.Decoder(Formats(RegistrySettings((("url", "http://127.0.0.1:1"),)), (column,)))
        found._writer = lambda schema_id: schema  # type: ignore[method-assign]
        return found

    def read(data: bytes) -> None:
        values = pa.array([b"\0\0\0\0\x01" + data, data], pa.binary())
        rows = pa.RecordBatch.from_pydict({"offset": pa.array([70, 71], pa.int64()), "value": values})
        decoder(True).rows(rows, of).validate(full=True)
        try:
            decoder(False).rows(rows, of)
        except RecordsError as error:
            said = str(error)
        else:
            return
        assert re.fullmatch(r"orders-3 at offset 7[01]: .*", said), said

    return read


def _as_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """For what a library has read as text before: half characters are possible."""

    def read_text(data: bytes) -> object:
        try:
            return read(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            return read(data.decode("utf-8", "replace"))

    return read_text


# -- Files ----------------------------------------------------------------------------------------------------------


@functools.cache
def _folder() -> Path:
    """Of this process, which is gone with it."""
    directory = tempfile.TemporaryDirectory(prefix="poison-")
    _KEPT.append(directory)
    return Path(directory.name)


_KEPT: Final[list[tempfile.TemporaryDirectory[str]]] = []


def _reads_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def from_file(data: bytes) -> object:
        path = _folder() / name
        path.write_bytes(data)
        return read(path)

    return from_file


_PIPELINE: Final = b"""name: orders
storage: state
kafka: {bootstrap.servers: 'a:9092'}
sources:
  orders: {format: highwater, options: {subscribe: orders, startingOffsets: earliest, maxOffsetsPerTrigger: 5}}
views:
  big: {sql: SELECT * FROM orders}
flows:
  keep: {from: big, output_mode: append, trigger: 10 seconds, sink: {format: console, options: {numRows: 5}}}
"""
_MONITOR: Final = b"""name: orders
bootstrap_servers: broker1:9092,broker2:9092
tick: 5s
zookeeper: zk1:2181,zk2:2182/kafka
actions: true
web: {listen: '127.0.0.1:8443', host_names: [monitor.example]}
history: {raw: 24h, hours: 365d, max_size: 500 MiB}
"""


def _read_offsets(text: str) -> None:
    found = Offsets.from_text(text)
    for topic in found.topics():
        found.uuid_of(topic)


def _read_mirrored(data: bytes) -> None:
    try:
        mirror_progress.decode_key(data)
    except mirror_progress.DamagedProgress:
        mirror_progress.decode(data)


def _show_message(data: bytes) -> None:
    for form in ("", *FORMS):
        byte_text(data, form, 1_000)


def _read_pipeline(path: Path) -> None:
    parse_pipeline(read_yaml(yaml, path, EXAMPLE), {}, path.parent, None)


def _samples(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)))


def _reads_result(name: str, pattern: str) -> Decoder:
    """A file of a result directory; the others stay as they are."""
    directory = write_sample(_folder() / name, Sample(analysed=True))
    path = next(iter(sorted(directory.glob(pattern))))
    valid = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        result = RunResult(directory)
        for trial in result.trials:
            _ = trial.summary
        result.analysis()

    return Decoder(name, read, (valid,), _of(hostile_json, (valid,)), (ResultDirectoryError,))


def _reads_histograms(name: str) -> Decoder:
    directory = write_sample(_folder() / name, Sample(analysed=True))
    path = next(iter(sorted(directory.glob("trials/*/hist/e2e_response.hlog"))))
    valid = path.read_bytes()
    trial = RunResult(directory).trials[0]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for taken in (trial.intervals, trial.spectrum):
            try:
                taken("e2e_response")
            except ResultDirectoryError:
                continue

    return Decoder(name, read, (valid,), _of_bytes((valid,)), ())


def _reads_journal(name: str) -> Decoder:
    folder = _folder() / name
    valid = stored.journal_lines(folder)
    read = stored.reads_journal(folder)

    def hostile(rng: random.Random) -> bytes:
        return stored.with_checksums(
            b"\n".join(hostile_json(rng, each.decode()) for each in valid.splitlines()) + b"\n"
        )

    return Decoder(name, read, (valid,), hostile, (TuningError,))


def _reads_trace(name: str) -> Decoder:
    directory = _folder() / "trace"
    trace_of(directory, observed(batch(0, [record(at) for at in range(0, 3000, 7)])))
    path = directory / MANIFEST
    valid = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_trace(directory)

    return Decoder(name, read, (valid,), _of(hostile_json, (valid,)), (UsageError,))


# -- Znodes and requests --------------------------------------------------------------------------------------------

_ZNODES: Final[Mapping[str, bytes]] = {
    "/brokers/ids/1": b'{"version":5,"host":"a","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://a:1"],'
    b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{},"tags":{}}',
    "/brokers/topics/t": b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"0":[1,2]},'
    b'"adding_replicas":{},"removing_replicas":{}}',
    "/brokers/topics/t/partitions/0/state": b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}',
    "/controller": b'{"version":2,"brokerid":1,"timestamp":"1795000000000","kraftControllerEpoch":-1}',
    "/config/topics/t": b'{"version":1,"config":{"retention.ms":"1","password":"secret"}}',
    "/kafka-acl/Topic/t": b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow",'
    b'"operation":"Read","host":"*"}]}',
    "/admin/reassign_partitions": b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
}
_PARSERS: Final[Mapping[str, Callable[[object], object]]] = {
    "/brokers/ids/1": lambda value: znodes.parse_broker(1, 1, value),
    "/brokers/topics/t": znodes.parse_assigned_topic,
    "/brokers/topics/t/partitions/0/state": lambda value: znodes.parse_partition_state(value, 1),
    "/controller": znodes.parse_controller,
    "/admin/reassign_partitions": znodes.parse_reassignment,
}


def _read_znode(data: bytes) -> None:
    for parse in _PARSERS.values():
        try:
            znodes.read(data, parse)
        except ValueError:
            continue


def _show_znode(data: bytes) -> None:
    for path in _ZNODES:
        hiding.shown(path, data)
        meaning.meaning(path, data)


_HOT: Final[Mapping[str, Callable[[RequestDecoder, int], object]]] = {
    "produce": lambda decoder, version: produce.decode_request(decoder, version),
    "fetch": lambda decoder, version: fetch.decode_request(decoder, version),
    "metadata": lambda decoder, version: metadata.decode_request(decoder, version),
}


def _versions() -> Iterator[tuple[str, int]]:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            yield api.name, version


_ALL_VERSIONS: Final = tuple(_versions())


def _read_request(data: bytes) -> None:
    """The first two bytes choose the API and its version."""
    name, version = _ALL_VERSIONS[int.from_bytes(data[:2], "big") % len(_ALL_VERSIONS)]
    for is_flexible in (False, True):
        decoder = RequestDecoder(memoryview(data[2:]), flexible=is_flexible)
        try:
            if name in _HOT:
                _HOT[name](decoder, version)
            else:
                cold.decode_request(name, version, decoder)
        except MalformedRequestError:
            continue


def _requests() -> tuple[bytes, ...]:
    found = []
    for index, (name, version) in enumerate(_ALL_VERSIONS):
        if name not in _HOT:
            found.append(index.to_bytes(2, "big") + cold.encode_request(name, version, {}))
    return tuple(found)


_REQUEST_HEADERS: Final = (b"\0\x12\0\3\0\0\0\1\0\4test\0", b"\0\3\0\1\0\0\0\1\xff\xff\0\0\0\0")


def _bytes(read: Callable[[bytes], object], make: Callable[[], tuple[bytes, ...]], *allowed: type[Exception]) -> Make:
    def made(name: str) -> Decoder:
        valid = make()
        return Decoder(name, read, valid, _of_bytes(valid), allowed)

    return made


def _text(read: Callable[[str], object], valid: tuple[bytes, ...], *allowed: type[Exception]) -> Make:
    return lambda name: Decoder(name, _as_text(read), valid, _of(hostile_text, valid), allowed)


def _text_bytes(read: Callable[[bytes], object], valid: tuple[bytes, ...]) -> Make:
    return lambda name: Decoder(name, read, valid, _of(hostile_text, valid), ())


def _schema(read: Callable[[str], object], valid: object) -> Make:
    text = (json.dumps(valid).encode(),)
    return lambda name: Decoder(name, _as_text(read), text, _of(hostile_json, text), (SettingsError,))


def _json(read: Callable[[bytes], object], valid: tuple[bytes, ...], *allowed: type[Exception]) -> Make:
    return lambda name: Decoder(name, read, valid, _of(hostile_json, valid), allowed)


def _yaml(read: Callable[[Path], object], valid: tuple[bytes, ...], allowed: type[Exception]) -> Make:
    return lambda name: Decoder(name, _reads_file(f"{name}.yaml", read), valid, _of(hostile_yaml, valid), (allowed,))


_PROPERTIES: Final = (b"# a comment\nkey=value\nother: a\\\n  b\nlast = \\u00e9\\n\n", b"listeners=PLAINTEXT://:9092\n")
_HEADER_VALUES: Final = (
    b"5",
    b"orders/0/5",
    b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    b"1795000000000",
)
_ADDRESSES: Final = (
    b"postgresql://u:p%40@h:5432/d?sslmode=require&application_name=a",
    b"mysql://u:p@[::1]:3306/d",
    b"sqlite:///a/b.db",
)
_JAAS: Final = (
    b'a.b.PlainLoginModule required username="u" password="p\\"x" user_a=b;',
    b'// c\nKafkaServer {\n  a.ScramLoginModule required\n  password="{x}";\n};\nClient { a required; };\n',
)
_SECRETS: Final = (
    b"see postgresql://u:p@h/d?password=x&a=${B} and s3a://KEY:SECRET@b ",
    b"http://a/?X-Amz-Signature=1&token=2 a:b@c",
)
_OFFSETS: Final = (b'{"orders":{"0":5,"12":-2},"#ids":{"orders":"00000000-0000-0000-0000-000000000001"}}',)
_PLAN: Final = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
_MIRRORED: Final = mirror_progress.encode(mirror_progress.Progress("id", 7, [mirror_progress.Run(0, 10, 2)]))
_EXPRESSIONS: Final = (
    b"n > 5 AND NOT (s = 'x' OR timestamp >= '2026-01-31T12:00:00Z')",
    b"a IN (1, 2.5e3, 'it''s') AND \"a b\" IS NOT NULL AND c BETWEEN 1 AND 2 OR value CONTAINS 'x'",
)

DECODERS: Final[Mapping[str, Make]] = {
    "produced-batch": _bytes(_read_produced, _batches),
    "fetched-batch": _bytes(_read_fetched, _batches),
    "record-headers": lambda name: Decoder(name, _read_headers, _HEADER_VALUES, _of(hostile_text, _HEADER_VALUES), ()),
    "filter": _text(parse_filter, _EXPRESSIONS, FilterError),
    "avro-value": _bytes(_reads_values("avro", json.dumps(_AVRO)), lambda: (_avro_value(),)),
    "json-value": _json(_reads_values("json", json.dumps(_JSON)), (_JSON_VALUE,)),
    "protobuf-value": _bytes(_reads_values("protobuf", _PROTOBUF), lambda: (_PROTOBUF_VALUE,)),
    "avro-schema": _schema(AvroFormat, _AVRO),
    "json-schema": _schema(JsonFormat, _JSON),
    "protobuf-schema": _text(lambda text: ProtobufFormat(text, {}), (_PROTOBUF.encode(),), SettingsError),
    "pipeline-file": _yaml(_read_pipeline, (_PIPELINE,), UsageError),
    "monitor-file": _yaml(lambda path: read_config(path, yaml, {}), (_MONITOR,), UsageError),
    "workload-file": _yaml(load_specification, _samples("workloads/*.yaml"), UsageError),
    "load-file": _yaml(lambda path: load_of(read_bench_document(path)), _samples("examples/load.yaml"), UsageError),
    "properties": _text(parse_properties, _PROPERTIES, MalformedEscape),
    "result-manifest": lambda name: _reads_result(name, "manifest.json"),
    "result-analysis": lambda name: _reads_result(name, "analysis.json"),
    "result-summary": lambda name: _reads_result(name, "trials/*/summary.json"),
    "trace-manifest": _reads_trace,
    "znode": _json(_read_znode, tuple(_ZNODES.values())),
    "znode-shown": _json(_show_znode, tuple(_ZNODES.values())),
    "request": _bytes(_read_request, _requests),
    "http-head": _text_bytes(read_http, HTTP_HEADS),
    "load-channel": _json(read_channel, CHANNEL_LINES),
    "server-properties": lambda name: Decoder(
        name,
        _reads_file("server.properties", read_properties_file),
        _PROPERTIES,
        _of(hostile_text, _PROPERTIES),
        (ConfigError,),
    ),
    "checkpoint": _text_bytes(stored.read_checkpoint, stored.CHECKPOINTS),
    "producer-snapshot": _bytes(stored.read_snapshot, stored.snapshots),
    "jaas": _text(lambda text: parse_login_text(text, "KafkaServer"), _JAAS, ValueError),
    "host-answer": _json(parse_answer, stored.HOST_ANSWERS, AnswerError),
    "ceilings": _json(_as_text(parse_ceilings), stored.CEILINGS, CeilingsError),
    "tuning-journal": _reads_journal,
    "fstab": lambda name: Decoder(name, stored.read_fstab, stored.FSTABS, _of_bytes(stored.FSTABS), ()),
    "sysctl-file": _text(lambda text: list(parse_lines(text)), stored.SYSCTLS),
    "offsets": _json(_as_text(_read_offsets), _OFFSETS, SettingsError),
    "assignment": _json(_as_text(read_assignment), (b'{"orders":[0,1],"b":[7]}',), SettingsError),
    "progress": _json(_as_text(offsets_from_text), (b"[" + _OFFSETS[0] + b"]",), ProgressError),
    "reassignment-plan": _json(_as_text(parse_plan), (_PLAN,), MalformedPlan),
    "mirror-progress": _json(_read_mirrored, (_MIRRORED,), mirror_progress.DamagedProgress),
    "message-shown": _json(_show_message, (_JSON_VALUE, b"a\0b", b'{"a":' * 900 + b"1" + b"}" * 900)),
    "histogram-log": _reads_histograms,
    "metadata-answer": _bytes(stored.read_metadata_answer, stored.metadata_answers, MalformedRequestError),
    "secret-in-url": _text(has_secret_in_url, _SECRETS),
    "database-address": _text(read_address, _ADDRESSES, SettingsError),
    "request-header": _bytes(
        lambda data: frame.read_request_header(memoryview(data)), lambda: _REQUEST_HEADERS, MalformedRequestError
    ),
}


def decoder_of(name: str) -> Decoder:
    return DECODERS[name](name)
