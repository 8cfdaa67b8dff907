"""Keeps where a stream began, so that a restart after a crash in its first batch begins there again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from highwater.common.atomic_files import write_atomically
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.errors import ClientError, SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.kafka.offsets import Offsets

_FIRST: Final = "highwater first"
_REACHED: Final = "highwater reached"
"""What the metadata of a committed offset begins with; the id of its topic follows, and what reached it."""


def commit(
    client: Client, group: str, offsets: Offsets, *, are_first: bool = False, note: str = ""
) -> dict[TopicPartition, BrokerError]:
    """Commit offsets for a group without members; returns the partitions that failed. Raises ClientError."""
    word = _FIRST if are_first else _REACHED
    return client.commit_offsets(
        group,
        {
            (topic, partition): CommittedOffset(offset, " ".join([word, *filter(None, (offsets.id_of(topic), note))]))
            for (topic, partition), offset in offsets.next.items()
        },
    )


def kept_by_group(client: Client, group: str) -> Offsets | None:
    """What `commit` committed as first offsets; None if a batch has been finished since. Raises ClientError."""
    committed = client.committed_offsets(group)
    if isinstance(committed, BrokerError):
        raise ClientError(f"group {group}: {committed}")
    found: dict[TopicPartition, int] = {}
    ids: dict[str, str] = {}
    for of, each in committed.items():
        if isinstance(each, BrokerError) or not each.metadata.startswith(_FIRST):
            return None
        found[of] = each.offset
        if topic_id := each.metadata.removeprefix(_FIRST).strip():
            ids[of[0]] = topic_id
    return Offsets(found, ids) if found else None


def keep_in_group(client: Client, group: str, offsets: Offsets) -> None:
    """Raises ClientError."""
    for of, error in commit(client, group, offsets, are_first=True).items():
        raise ClientError(f"commitOffsets={group}: the first offset of {of[0]}-{of[1]} cannot be committed: {error}")


def kept_in_file(path: Path) -> Offsets | None:
    """None if there is no such file. Raises SettingsError for a file that is not of this kind."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"initialOffsetsLocation={path} cannot be read: {error.strerror}") from None
    try:
        return Offsets.from_text(text)
    except SettingsError as error:
        raise SettingsError(f"initialOffsetsLocation={path} does not hold first offsets: {error}") from None


def keep_in_file(path: Path, offsets: Offsets) -> None:
    """Raises SettingsError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(offsets.to_json_object()) + "\n")
    except OSError as error:
        raise SettingsError(f"initialOffsetsLocation={path} cannot be written: {error.strerror}") from None
