"""The mark of a clean stop, which has the end of each log: the next start need not open their files.

The mark is a JSON object with Kafka's version and broker epoch. This broker adds `highwater`, which has the version and
the CRC-32C of what follows, and `logs`: {name of a folder: the fields of its `WholeLog`}. Kafka ignores both and writes
a mark of its own (CleanShutdownFileHandler.java). A log that the mark does not have is loaded from its files
(broker.log.recovery), and so are all if `logs` is damaged or of another version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from highwater.broker.log.checkpoint import encode_clean_shutdown
from highwater.kafka.records.checksum import crc32c

_VERSION: Final = 1
_NO_BROKER_EPOCH: Final = -1
_LOGS: Final = b',"logs":'


class WholeLog(NamedTuple):
    """A log whose files are whole as long as neither its folder nor its active segment is changed."""

    stamps: list[int]
    """Those of both, one behind the other."""
    topic_id: str
    segments: Sequence[tuple[int, int]]
    """(base offset, bytes of records); none has aborted transactions."""
    end_offset: int
    leader_epochs: Sequence[tuple[int, int]]
    has_producers: bool
    """If so, there is a snapshot of the end offset."""


def encode_mark(logs: Mapping[str, WholeLog]) -> bytes:
    body = json.dumps(logs, separators=(",", ":")).encode()
    return encode_clean_shutdown(_NO_BROKER_EPOCH)[:-1] + _head(body) + body + b"}"


def decode_mark(text: bytes) -> Mapping[str, WholeLog]:
    kafkas, separator, body = text[:-1].partition(_LOGS)
    if not (kafkas + separator).endswith(_head(body)):
        return {}
    return {name: _whole(*fields) for name, fields in json.loads(body).items()}


def _whole(
    stamps: list[int],
    topic_id: str,
    segments: list[list[int]],
    end_offset: int,
    leader_epochs: list[list[int]],
    has_producers: bool,
) -> WholeLog:
    """JSON has no tuples, which compiled modules insist on."""
    sizes = [(base_offset, size_bytes) for base_offset, size_bytes in segments]
    starts = [(epoch, start_offset) for epoch, start_offset in leader_epochs]
    return WholeLog(stamps, topic_id, sizes, end_offset, starts, has_producers)


def _head(body: bytes) -> bytes:
    return b',"highwater":[%d,%d]%s' % (_VERSION, crc32c(body), _LOGS)
