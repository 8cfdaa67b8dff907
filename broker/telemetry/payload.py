"""Reads what a client pushed: decompressed up to a limit, checked as OpenTelemetry's MetricsData.

Protobuf's own parser runs for a second without a break, and takes 400 MB, for 800 bytes that unfold to millions of
empty messages. This check makes no object for a field, gives way, and ends after as many fields as were paid for.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Union

from kio.schema.errors import ErrorCode

from highwater.kafka.pacing import aside, give_way
from highwater.kafka.records.batch import Codec, CorruptBatch, ReadableBuffer
from highwater.kafka.records.compress import TooLargeError, decompress

UNFOLDED_RATIO: Final = 8
"""How much larger than `telemetry.max.bytes` a payload may unfold to be."""
FREE_FIELDS: Final = 10_000
_FIELDS_PER_BYTE: Final = 4
MOST_FIELDS: Final = 500_000
"""A consumer of a thousand partitions pushes some 200,000."""
_GIVES_WAY_EACH: Final = 64
_DEEPEST: Final = 100

_TEXT, _FIXED_64S, _VARINTS = range(3)
_Message = dict[int, Union["_Message", int]]
"""What fields of bytes hold, by number: a message, a text, or numbers one behind the other. Others hold any bytes."""
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5

_ANY_VALUE: _Message = {1: _TEXT}
_KEY_VALUE: _Message = {1: _TEXT, 2: _ANY_VALUE}
_ANY_VALUE |= {5: {1: _ANY_VALUE}, 6: {1: _KEY_VALUE}}
_EXEMPLAR: _Message = {7: _KEY_VALUE}
_NUMBERS: _Message = {1: {5: _EXEMPLAR, 7: _KEY_VALUE}}
_BUCKETS: _Message = {2: _VARINTS}
_METRIC: _Message = {
    1: _TEXT,
    2: _TEXT,
    3: _TEXT,
    5: _NUMBERS,
    7: _NUMBERS,
    9: {1: {6: _FIXED_64S, 7: _FIXED_64S, 8: _EXEMPLAR, 9: _KEY_VALUE}},
    10: {1: {1: _KEY_VALUE, 8: _BUCKETS, 9: _BUCKETS, 11: _EXEMPLAR}},
    11: {1: {6: {}, 7: _KEY_VALUE}},
    12: _KEY_VALUE,
}
"""Its data are a gauge, a sum, a histogram, an exponential histogram or a summary."""
_RESOURCE: _Message = {1: _KEY_VALUE, 3: {1: _TEXT, 2: _TEXT, 3: _TEXT, 4: _TEXT}}
_SCOPE_METRICS: _Message = {1: {1: _TEXT, 2: _TEXT, 3: _KEY_VALUE}, 2: _METRIC, 3: _TEXT}
_METRICS_DATA: Final[_Message] = {1: {1: _RESOURCE, 2: _SCOPE_METRICS, 3: _TEXT}}
"""Its source is opentelemetry/proto/metrics/v1/metrics.proto of release 1.10."""


def read_payload(codec: int, data: ReadableBuffer, max_bytes: int) -> bytes | ErrorCode:
    """Return the plain bytes of a payload, or what is wrong with it."""
    try:
        plain = aside(partial(decompress, Codec(codec), data, limit_bytes=UNFOLDED_RATIO * max_bytes))
        _check(plain, min(MOST_FIELDS, FREE_FIELDS + _FIELDS_PER_BYTE * len(data)))
    except TooLargeError:
        return ErrorCode.telemetry_too_large
    except CorruptBatch:
        return ErrorCode.invalid_record
    return plain


def _check(data: bytes, most_fields: int) -> None:
    """Raises CorruptBatch unless it is MetricsData; TooLargeError if it has more fields."""
    above: list[tuple[int, _Message]] = []
    position, end, message = 0, len(data), _METRICS_DATA
    fields = 0
    while position < end or above:
        if position == end:
            end, message = above.pop()
            continue
        fields += 1
        if fields > most_fields:
            raise TooLargeError(f"there are more than {most_fields} fields")
        if not fields % _GIVES_WAY_EACH:
            give_way()
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if wire == _BYTES:
            length, position = _varint(data, position, end)
            stop = position + length
            if stop <= end and number in message:
                inner = message[number]
                if isinstance(inner, dict):
                    if len(above) == _DEEPEST:
                        raise CorruptBatch("messages are nested too deeply")
                    above.append((end, message))
                    end, message = stop, inner
                    continue
                fields += _check_bytes(inner, data[position:stop], most_fields - fields)
            position = stop
        elif wire == _VARINT:
            _, position = _varint(data, position, end)
        elif wire in (_FIXED_64, _FIXED_32):
            position += 8 if wire == _FIXED_64 else 4
        else:
            raise CorruptBatch(f"there is no wire type {wire}")
        if position > end or not 0 < number < 1 << 29:
            raise CorruptBatch(f"field {number} is cut off")


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise CorruptBatch("a number has no end")


def _check_bytes(holds: int, data: bytes, most: int) -> int:
    """Return how many fields these are beside the one, at most `most`; a parser makes a number of each."""
    if holds == _TEXT:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise CorruptBatch("a text is not UTF-8") from None
        return 0
    if holds == _FIXED_64S:
        if len(data) % 8:
            raise CorruptBatch("a number is cut off")
        return 0
    position = many = 0
    while position < len(data):
        _, position = _varint(data, position, len(data))
        many += 1
        if many > most:
            raise TooLargeError("there are too many numbers")
        if not many % _GIVES_WAY_EACH:
            give_way()
    return many
