"""The interface that allocates unique producer ids, and the blocks of ids behind it.

A broker that runs alone gets its blocks from its store (alone/producer_ids.py), a member of a cluster gets them from
the controller (member/producer_ids.py).
"""

from __future__ import annotations

from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from highwater.broker.topics.partitions import Partitions

_PREFETCH_BELOW: Final = 0.1
"""The remaining share of a block at which the next block is requested."""


class ProducerIds(Protocol):
    def next(self) -> int | ErrorCode:
        """Return an unused producer id, or the error why there is none now."""


class Block:
    """The ids of one block that no log contains. Metadata that was restored from a backup allocates ids twice; a log
    takes records of a reused id for retries, and acknowledges them without an append.
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
