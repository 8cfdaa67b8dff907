"""Judges a cluster from its metadata: brokers that are down, partitions in trouble, one-line answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from highwater.common.topic_partition import partition_name
from highwater.common.units import count_text
from highwater.kafka.client.host_processes import HostProcesses, HostsOfProcesses

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


class Trouble(IntEnum):
    """What is wrong with a partition; the smallest number is the worst. A partition has only its worst one."""

    NO_LEADER = 0
    UNDER_MIN_ISR = 1
    UNDER_REPLICATED = 2
    NONE = 3


_AFTER_A_COUNT: Final = {
    Trouble.NO_LEADER: ("has no leader", "have no leader"),
    Trouble.UNDER_MIN_ISR: ("is under min ISR", "are under min ISR"),
    Trouble.UNDER_REPLICATED: ("lacks replicas", "lack replicas"),
}


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    partition: int
    leader: int
    """-1 when there is none."""
    replicas: Sequence[int]
    in_sync_replicas: Sequence[int]
    min_in_sync_replicas: int | None
    """None when it is not known: the partition may then be under it."""

    @property
    def lacks_replicas(self) -> bool:
        return len(self.in_sync_replicas) < len(self.replicas)

    @property
    def trouble(self) -> Trouble:
        if self.leader < 0:
            return Trouble.NO_LEADER
        if len(self.in_sync_replicas) < (self.min_in_sync_replicas or 1):
            return Trouble.UNDER_MIN_ISR
        return Trouble.UNDER_REPLICATED if self.lacks_replicas else Trouble.NONE


@dataclass(frozen=True, slots=True)
class TopicHealth:
    name: str
    partitions: Sequence[PartitionHealth]

    @property
    def worst(self) -> Trouble:
        return min((partition.trouble for partition in self.partitions), default=Trouble.NONE)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def in_trouble(self, trouble: Trouble) -> list[int]:
        """Return the numbers of the partitions whose worst trouble this is."""
        return sorted(partition.partition for partition in self.partitions if partition.trouble is trouble)


@dataclass(frozen=True, slots=True)
class LiveBroker:
    broker_id: int
    address: str
    leads: int
    replicas: int


@dataclass(frozen=True, slots=True)
class DownBroker:
    broker_id: int
    reason: str
    """How this is known, in words that follow `broker 3: `."""
    replicas: int


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    controller: int | None
    live: Sequence[LiveBroker]
    down: Sequence[DownBroker]
    topics: Sequence[TopicHealth]
    """Those in trouble first, the worst trouble before the others; internal topics after others of equal trouble."""
    servers_down: Sequence[str] = ()
    """ZooKeeper servers that should run, by name."""
    silent: Sequence[int] = ()
    """Ids of brokers that accept connections and do not answer."""
    processes: HostProcesses | None = None
    """If the brokers are the processes of one host."""
    hosts: HostsOfProcesses | None = None
    """If the brokers are the processes of several hosts."""

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)

    def partitions_in(self, trouble: Trouble) -> list[str]:
        """Return the partitions whose worst trouble this is, as `orders-0`."""
        return sorted(
            partition_name(topic.name, number) for topic in self.topics for number in topic.in_trouble(trouble)
        )

    @property
    def is_healthy(self) -> bool:
        is_whole = self.controller is not None and not (self.down or self.servers_down or self.silent)
        return is_whole and all(topic.worst is Trouble.NONE for topic in self.topics)

    @property
    def sentence(self) -> str:
        """The answer in one line: `healthy: 3 of 3 brokers, …`, or what is wrong, the worst first."""
        brokers = len(self.live) + len(self.down)
        if self.is_healthy:
            count = self.partition_count
            partitions = f"{count_text(count)} {_plural(count, 'partition')} in sync" if count else "no partitions yet"
            nodes = f"{len(self.live)} of {brokers} {_plural(brokers, self._noun)}"
            healthy = f"healthy: {self._hosts_counted}{nodes}, {partitions}"
            return "; ".join([healthy, *self._not_known()])
        parts = [*self._partitions_in_trouble(), *self._brokers_down()]
        if self.live and self.controller is None:
            parts.append("there is no controller")
        if self.servers_down:
            parts.append(f"{_listed(self.servers_down)} {_plural(len(self.servers_down), 'is', 'are')} down")
        return "; ".join([*parts, *self._not_known()])

    @property
    def _noun(self) -> str:
        return "broker" if self.processes is None and self.hosts is None else "process"

    @property
    def _hosts_counted(self) -> str:
        """The words before a number of processes."""
        if self.hosts is not None:
            return f"{self.hosts.host_count} {_plural(self.hosts.host_count, 'host')}, "
        return "" if self.processes is None else "1 host, "

    def process_of(self, broker_id: int) -> str | None:
        """Return the process that a broker is, in words; None if it is not known to be one."""
        if self.processes is not None:
            return f"process {self.processes.number_of(broker_id)}"
        if self.hosts is None or (found := self.hosts.process_of(broker_id)) is None:
            return None
        host, number = found
        return f"process {number} of {host}"

    def _not_known(self) -> list[str]:
        topics = sum(any(p.min_in_sync_replicas is None for p in topic.partitions) for topic in self.topics)
        return [f"min ISR of {topics} {_plural(topics, 'topic')} is not known"] if topics else []

    def _partitions_in_trouble(self) -> list[str]:
        parts: list[str] = []
        for trouble, (one, many) in _AFTER_A_COUNT.items():
            if count := sum(len(topic.in_trouble(trouble)) for topic in self.topics):
                noun = "" if parts else f" {_plural(count, 'partition')}"
                parts.append(f"{count_text(count)}{noun} {_plural(count, one, many)}")
        return parts

    def _brokers_down(self) -> list[str]:
        if self.down and not self.live:
            all_of_them = f"all {len(self.down)} {_plural(len(self.down), self._noun)} are down"
            return [all_of_them if len(self.down) > 1 else f"the {self._noun} is down"]
        parts = []
        down: Sequence[int] = [broker.broker_id for broker in self.down]
        for ids, one, many in ((down, "is down", "are down"), (self.silent, "does not answer", "do not answer")):
            for noun, names in self._named(ids):
                parts.append(f"{_plural(len(names), noun)} {_listed(names)} {_plural(len(names), one, many)}")
        return parts

    def _named(self, broker_ids: Iterable[int]) -> list[tuple[str, list[str]]]:
        """Each noun with the numbers of the processes or brokers that follow it."""
        processes, brokers = [], []
        for broker_id in broker_ids:
            process = self.process_of(broker_id)
            if process is None:
                brokers.append(str(broker_id))
            else:
                processes.append(process.removeprefix("process "))
        return [(noun, names) for noun, names in (("process", processes), ("broker", brokers)) if names]


def judge(
    *,
    listed: Mapping[int, str],
    reasons_down: Mapping[int, str],
    controller: int | None,
    topics: Iterable[TopicHealth],
    servers_down: Sequence[str] = (),
) -> ClusterHealth:
    """Return the health of a cluster.

    `listed` has the address of each broker that the metadata name, by id. Metadata name a dead broker for a
    while, so `reasons_down` has those that are known to be down otherwise. A broker that has replicas and is not
    listed is down too.
    """
    ordered = sorted(topics, key=lambda topic: (topic.worst, topic.is_internal, topic.name))
    partitions = [partition for topic in ordered for partition in topic.partitions]
    leaders = [partition.leader for partition in partitions]
    replicas = [broker_id for partition in partitions for broker_id in partition.replicas]
    live = [
        LiveBroker(broker_id, address, leaders.count(broker_id), replicas.count(broker_id))
        for broker_id, address in sorted(listed.items())
        if broker_id not in reasons_down
    ]
    missing = dict.fromkeys(replicas, "it is not in the cluster") | dict(reasons_down)
    down = [
        DownBroker(broker_id, reason, replicas.count(broker_id))
        for broker_id, reason in sorted(missing.items())
        if broker_id in reasons_down or broker_id not in listed
    ]
    has_controller = controller in {broker.broker_id for broker in live}
    return ClusterHealth(controller if has_controller else None, live, down, ordered, servers_down)


def of_one_host(health: ClusterHealth, processes: HostProcesses) -> ClusterHealth:
    """The same of a broker of several processes: one that runs no more, and had nothing, is down too."""
    known = {broker.broker_id for broker in health.live} | {broker.broker_id for broker in health.down}
    gone = [DownBroker(each, "its process does not run", 0) for each in processes.broker_ids if each not in known]
    down = sorted([*health.down, *gone], key=lambda broker: broker.broker_id)
    return replace(health, down=down, processes=processes)


def state_text(topic: TopicHealth, most_numbers: int = 8) -> str:
    """Return what is wrong with a topic, with the numbers of partitions: `no leader: 0, 3`; or `in sync`."""
    words = {
        Trouble.NO_LEADER: "no leader",
        Trouble.UNDER_MIN_ISR: "under min ISR",
        Trouble.UNDER_REPLICATED: "under-replicated",
    }
    parts = []
    for trouble, text in words.items():
        if numbers := topic.in_trouble(trouble):
            more = f" and {len(numbers) - most_numbers} more" if len(numbers) > most_numbers else ""
            shown = ", ".join(map(str, numbers[:most_numbers])) + more
            parts.append(f"{text}: {'all' if len(numbers) == len(topic.partitions) else shown}")
    return "; ".join(parts) or "in sync"


def _plural(count: int, one: str, many: str | None = None) -> str:
    return one if count == 1 else many or f"{one}{'es' if one.endswith('s') else 's'}"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
