"""What happened to the groups of this broker, as plain integers that only grow."""

from __future__ import annotations


class GroupCounters:
    def __init__(self) -> None:
        self.consumer_rebalances = 0
        """New epochs of consumer groups."""
        self.classic_rebalances = 0
        """Rebalances of classic groups that came to their end: the leader's assignment is in the log."""
        self.offsets_committed = 0
        self.offsets_removed = 0
        """Those that expired included."""
        self.offsets_expired = 0
