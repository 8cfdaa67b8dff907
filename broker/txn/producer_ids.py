"""The interface to get producer ids that nobody had before, and the blocks they come from.

A broker that runs alone has its blocks from its store (alone/producer_ids.py), a member of a cluster from the
controller (cluster/producer_ids.py).
"""

from __future__ import annotations

from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from highwater.broker.topics.partitions import Partitions

_PREFETCH_BELOW: Final = 0.1
"""The rest of a block at which the next is asked for."""


class ProducerIds(Protocol):
    def next(self) -> int | ErrorCode:
        """One that nobody had, or why none can be had now."""


class Block:
    """Ids of one block that no log knows: metadata put back from a copy gives ids out twice, and what a log takes for
    the retry of another producer is acknowledged and not written.
    """

    def __init__(self, partitions: Partitions, first: int, count: int) -> None:
        block = range(first, first + count)
        known = {id_ for partition in partitions.live() for id_, _ in partition.log.producer_states if id_ in block}
        self._ids = iter([id_ for id_ in block if id_ not in known])
        self._left = count - len(known)
        self._prefetch_at = int(count * _PREFETCH_BELOW)

    @property
    def is_nearly_used_up(self) -> bool:
        return self._left <= self._prefetch_at

    def next(self) -> int | None:
        self._left -= 1
        return next(self._ids, None)
