"""Names of folders of partitions that are not in use: deleted, future and stray ones.

They are Apache Kafka's (UnifiedLog.scala, LogLoader.scala): `<topic>-<partition>.<32 hexadecimal digits>-<state>`. The
folder of a log in use has the partition's own name (common.topic_partition).
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from highwater.common.topic_partition import TopicPartition, parse_partition_name, partition_name

_DELETED: Final = re.compile(r"\S+-\d+\.[0-9a-f]{32}-delete")
_FUTURE: Final = re.compile(r"(\S+)\.[0-9a-f]{32}-future")
_STRAY: Final = re.compile(r"\S+-\d+\.[0-9a-f]{32}-stray")
_MAX_LENGTH: Final = 255


def deleted_name(topic: str, partition: int) -> str:
    """Return a new name for a folder that is to be removed; a long topic is cut, as nobody needs it again."""
    suffix = f"-{partition}.{uuid.uuid4().hex}-delete"
    return topic[: _MAX_LENGTH - len(suffix)] + suffix


def is_deleted(name: str) -> bool:
    return name.endswith("-delete") and _DELETED.fullmatch(name) is not None  # Most names need no search.


def future_name(topic: str, partition: int) -> str:
    """Return a new name for the folder of a log that moves to another log directory (KIP-113)."""
    return f"{partition_name(topic, partition)}.{uuid.uuid4().hex}-future"


def partition_of_future(name: str) -> TopicPartition | None:
    """Return the partition that moves into a folder of this name, None if it is no future folder's name."""
    found = _FUTURE.fullmatch(name)
    return None if found is None else parse_partition_name(found[1])


def has_too_long_future_name(topic: str, partition: int) -> bool:
    return len(future_name(topic, partition)) > _MAX_LENGTH


def is_stray(name: str) -> bool:
    """Whether Kafka set the folder aside: the cluster did not assign the partition to its broker."""
    return _STRAY.fullmatch(name) is not None
