"""Log directories of a broker: disk space, sizes of replicas, lag of followers. Read by hand. Pure.

DescribeLogDirs v2 to v4: v3 + error of the whole answer, v4 + bytes of the file system (KIP-827).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, error_text
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder, error_code_of
from highwater.monitor.model import LogDirectory

_ERROR_FROM: Final = 3
_SPACE_FROM: Final = 4
_REPLICA: Final = struct.Struct(">iqqb")


class LogDirs(NamedTuple):
    error_code: int
    directories: tuple[LogDirectory, ...]
    replicas: dict[TopicPartition, tuple[int, int]]
    """Size in bytes and offsets behind the high watermark, of each replica on this broker."""


def describe_log_dirs() -> Request[LogDirs]:
    fields = {"topics": None}
    return Request(
        "describe_log_dirs", 2, 4, lambda version: cold.encode_request("describe_log_dirs", version, fields), _decode
    )


def _decode(decoder: Decoder, version: int) -> LogDirs:
    decoder.int32()  # throttle time
    whole_error = decoder.int16() if version >= _ERROR_FROM else 0
    directories = []
    replicas: dict[TopicPartition, tuple[int, int]] = {}
    fields, skip_tags = decoder.fields, decoder.skip_tags
    for _ in range(decoder.array_length()):
        error_code, path = error_code_of(decoder.int16()), decoder.string()
        for _ in range(decoder.array_length()):
            topic = decoder.string()
            for _ in range(decoder.array_length(_REPLICA.size)):
                partition, size_bytes, offset_lag, is_future = fields(_REPLICA)
                skip_tags()
                if not is_future:
                    replicas[topic, partition] = size_bytes, max(0, offset_lag)
            skip_tags()
        total, usable = (decoder.int64(), decoder.int64()) if version >= _SPACE_FROM else (-1, -1)
        skip_tags()
        error = "" if error_code is ErrorCode.none else error_text(error_code, None)
        directories.append(LogDirectory(path, error, _known(total), _known(usable)))
    return LogDirs(whole_error, tuple(directories), replicas)


def _known(size_bytes: int) -> int | None:
    return size_bytes if size_bytes >= 0 else None
