"""Progress as committed offsets of a group, for sinks whose transactions are Kafka's: the marker. Pure.

A marker is committed for a topic that the sink writes to, in the transaction of its records: as many partitions as the
text needs, from 0 on, all with the batch id as offset and a piece of the text as metadata.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.common.typed_json import parse_json
from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.progress.batch import Progress, ProgressError, progress_from_json, progress_to_json

_PIECE_CHARACTERS: Final = 4000
"""Brokers refuse metadata above offset.metadata.max.bytes, which is 4096."""
_PIECE: Final = re.compile(r"highwater marker (\d+)/(\d+) (.*)", re.DOTALL)


def to_marker(progress: Progress, topic: str, partitions: int) -> dict[TopicPartition, CommittedOffset]:
    """What to commit. Raises ProgressError if the topic has too few partitions for the offsets of all sources."""
    text = json.dumps(progress_to_json(progress), separators=(",", ":"))
    if len(text) > _PIECE_CHARACTERS:
        text = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    pieces = [text[at : at + _PIECE_CHARACTERS] for at in range(0, len(text), _PIECE_CHARACTERS)]
    if len(pieces) > partitions:
        raise ProgressError(
            f"topic {topic} has {partitions} partitions, and the end offsets of this query need {len(pieces)} of them: "
            "add partitions, or read fewer in one query"
        )
    return {
        (topic, number): CommittedOffset(progress.batch_id, f"highwater marker {number + 1}/{len(pieces)} {piece}")
        for number, piece in enumerate(pieces)
    }


def from_marker(committed: Mapping[TopicPartition, CommittedOffset]) -> Progress | None:
    """The progress among the offsets that a group has committed; None if it has none. Raises ProgressError."""
    found: dict[TopicPartition, tuple[int, int, str]] = {}
    for of, each in committed.items():
        if piece := _PIECE.fullmatch(each.metadata):
            found[of] = int(piece[1]), int(piece[2]), piece[3]
    topics = {topic for topic, _ in found}
    if not topics:
        return None
    if len(topics) > 1:
        raise ProgressError(f"two sinks keep their markers in one group, for {' and '.join(sorted(topics))}")
    (topic,) = topics
    # A longer marker of an earlier batch leaves pieces behind that count no more.
    _, count, _ = found.get((topic, 0), (1, 1, ""))
    text = "".join(found.get((topic, number), (0, 0, ""))[2] for number in range(count))
    try:
        if not text.startswith("{"):
            text = zlib.decompress(base64.b64decode(text, validate=True)).decode()
        return progress_from_json(parse_json(text))
    except (ValueError, binascii.Error, zlib.error, ProgressError) as error:
        raise ProgressError(f"the marker at {topic}-0 is damaged: {type(error).__name__}") from None
