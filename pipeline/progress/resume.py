"""`resumeFrom`: where a query without its checkpoint goes on, from what a sink has stored."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import BrokerError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import Progress, ProgressError
from highwater.pipeline.progress.marker import from_marker


def resume_offsets(text: str, client: Client) -> Offsets:
    """Return where to go on by the stored progress that `text` names.

    `group:NAME` is the marker of a group on the cluster of `client`. Raises SettingsError for a text of another form,
    ProgressError if there is no such progress, or if it does not say where to go on.
    """
    try:
        progress = _read(text, client)
        if progress is None:
            raise ProgressError("nothing is stored there; look for a slip in the name")
        return merged(progress.end_offsets)
    except ProgressError as error:
        raise ProgressError(f"resumeFrom={text}: {error}") from None


def _read(text: str, client: Client) -> Progress | None:
    kind, _, name = text.partition(":")
    if kind == "group" and name:
        return _of_group(name, client)
    raise SettingsError(f"resumeFrom={text}: write it as group:NAME")


def _of_group(group: str, client: Client) -> Progress | None:
    committed = client.committed_offsets(group)
    if isinstance(committed, BrokerError):
        raise ProgressError(str(committed))
    found = {}
    for of, each in committed.items():
        if isinstance(each, BrokerError):
            raise ProgressError(f"{partition_name(*of)}: {each}")
        found[of] = each
    return from_marker(found)


def merged(sources: Iterable[Offsets]) -> Offsets:
    """The offsets of all sources of the stored query. Raises ProgressError if two of them read the same partition."""
    found: dict[TopicPartition, int] = {}
    ids: dict[str, str] = {}
    for source in sources:
        for of, offset in source.next.items():
            if found.setdefault(of, offset) != offset:
                raise ProgressError(
                    f"two sources of the stored query read {partition_name(*of)}, up to {found[of]} and {offset}: "
                    "give each source its startingOffsets"
                )
        ids |= source.ids
    if not found:
        raise ProgressError("the query that wrote there read no topic")
    return Offsets(found, ids)
