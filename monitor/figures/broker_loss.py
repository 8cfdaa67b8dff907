"""What would happen if a broker died now: partitions offline or unwritable, and who takes the leaders."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.common.units import count_text, plural
from highwater.monitor.figures.health import effective
from highwater.monitor.model import Partition


@dataclass(slots=True)
class BrokerLoss:
    """What would happen if a broker died now; counted while partitions are gone through."""

    offline: int = 0
    """Partitions that nobody could read or write: no other replica is in sync."""
    under_min_isr: int = 0
    """Partitions that would reject writes with acks=all. Offline partitions are not among them."""
    unknown_min_isr: int = 0
    """Partitions with a replica on it whose `min.insync.replicas` is not known."""
    new_leaders: dict[int, int] = field(default_factory=dict)
    """Partitions that each other broker would take over as leader."""

    def add(self, broker: int, partition: Partition, min_isr: int | None) -> None:
        """Count what the death of `broker`, which has a replica of it, does to `partition`."""
        if partition.leader < 0 or broker not in partition.in_sync_replicas:
            return
        if min_isr is None:
            self.unknown_min_isr += 1
        in_sync = len(partition.in_sync_replicas) - 1
        if in_sync == 0:
            self.offline += 1
            return
        limit = effective(min_isr, partition)
        if limit is not None and in_sync < limit <= in_sync + 1:
            self.under_min_isr += 1
        if partition.leader == broker:
            elected = in_sync_after(partition, broker)[0]
            self.new_leaders[elected] = self.new_leaders.get(elected, 0) + 1

    @property
    def sentence(self) -> str:
        parts = []
        if self.offline:
            parts.append(f"{plural(self.offline, 'partition')} would have no leader")
        if self.under_min_isr:
            parts.append(f"{plural(self.under_min_isr, 'partition')} would reject writes with acks=all")
        if self.new_leaders:
            takers = ", ".join(
                f"broker {broker} {count_text(many)}" for broker, many in sorted(self.new_leaders.items())
            )
            moved = plural(sum(self.new_leaders.values()), "partition")
            parts.append(f"{moved} would have another leader ({takers})")
        sentence = "; ".join(parts) or "nothing would change for clients"
        if self.unknown_min_isr:
            sentence += f"; min.insync.replicas of {plural(self.unknown_min_isr, 'partition')} is not known"
        return f"{sentence[0].upper()}{sentence[1:]}."


def in_sync_after(partition: Partition, lost: int) -> list[int]:
    """Return the replicas that stay in sync without broker `lost`, in the order in which they are elected."""
    in_sync = partition.in_sync_replicas
    return [broker for broker in partition.replicas if broker != lost and broker in in_sync]
