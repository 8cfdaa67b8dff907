"""What would happen if a broker died now: partitions offline or unwritable, and who takes the leaders."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.common.units import count_text, plural
from highwater.monitor.figures.health import in_sync_after
from highwater.monitor.figures.rows import BrokerLoss
from highwater.monitor.model import Partition


@dataclass(slots=True)
class LossCount:
    """Counts for one broker while partitions are gone through."""

    offline: int = 0
    under_min_isr: int = 0
    unknown_min_isr: int = 0
    new_leaders: dict[int, int] = field(default_factory=dict)

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
        if min_isr is not None and in_sync < min_isr <= in_sync + 1:
            self.under_min_isr += 1
        if partition.leader == broker:
            elected = in_sync_after(partition, broker)[0]
            self.new_leaders[elected] = self.new_leaders.get(elected, 0) + 1

    def frozen(self) -> BrokerLoss:
        taken = dict(sorted(self.new_leaders.items()))
        return BrokerLoss(self.offline, self.under_min_isr, self.unknown_min_isr, taken, self._sentence())

    def _sentence(self) -> str:
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
