"""Finds the partitions of a follower's fetch session that have no news for it, by a few comparisons.

A session names all partitions that a follower has of a leader, hundreds of them, and a fetch is mostly about one. If
the follower had the whole log at its last fetch, and knows the high watermark and the start of the log, an answer
leaves the partition out (KIP-227), as long as none of these changes.
"""

from __future__ import annotations

from highwater.broker.replica.leader import Leader
from highwater.broker.replica.partition import Partition


def fetched_again(
    partition: Partition, replica_id: int, offset: int, high_watermark: int, log_start_offset: int, now_ms: int
) -> bool:
    """A follower fetches from `offset` once more: note it, and return whether there is no news for the follower.

    high_watermark, log_start_offset: the last that it was sent. The follower's own records did not diverge when it
    first fetched from `offset`. If there is news, nothing is noted: the partition must be checked. A leader of a later
    epoch knows nothing of its followers at first, so the epoch is the same.
    """
    leader, log = partition.role, partition.log
    if (
        not isinstance(leader, Leader)
        or log.log_end_offset != offset
        or partition.high_watermark != high_watermark
        or log.log_start_offset != log_start_offset
    ):
        return False
    follower = leader.followers.get(replica_id)
    if follower is None or follower.log_end_offset != offset or leader.awaits_fetch_of(follower):
        return False
    follower.fetched(offset, follower.log_start_offset, offset, now_ms)
    return True
