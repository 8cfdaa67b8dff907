"""The key of a partition, (topic, partition number), and its name `<topic>-<partition>`."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]

_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")


def partition_name(topic: str, partition: int) -> str:
    """Return the name that messages show, and that the partition's folder has in a log directory."""
    return f"{topic}-{partition}"


def parse_partition_name(name: str) -> TopicPartition | None:
    """Return the partition for which `partition_name` returns `name`, None if there is no such partition."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))
