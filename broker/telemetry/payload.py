"""Reads what a client pushed: decompressed up to a limit, and decoded as OpenTelemetry's MetricsData.

It runs in a thread: a payload of a megabyte may unfold to many. Protobuf is loaded with the first one.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from highwater.kafka.records.batch import Codec, CorruptBatch, ReadableBuffer
from highwater.kafka.records.compress import TooLargeError, decompress

UNFOLDED_RATIO: Final = 8
"""How much larger than `telemetry.max.bytes` a payload may unfold to be."""


def read_payload(codec: int, data: ReadableBuffer, max_bytes: int) -> bytes | ErrorCode:
    """Return the plain bytes of a payload, or what is wrong with it."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        plain = decompress(Codec(codec), data, limit_bytes=UNFOLDED_RATIO * max_bytes)
        MetricsData.FromString(plain)
    except TooLargeError:
        return ErrorCode.telemetry_too_large
    except (CorruptBatch, DecodeError):
        return ErrorCode.invalid_record
    return plain
