"""What a load asks of the worst broker of a cluster, beside what such a broker can do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.studies.capacity.ceilings import Ceilings
from highwater.studies.capacity.costs import REPLAYED, Work, looked_at, traffic
from highwater.studies.capacity.disks import Array
from highwater.studies.capacity.load import Load, Topic

Unit = Literal["cores", "bytes", "bytes/s", "/s", "s"]

CPU: Final = "CPU"
NETWORK_IN: Final = "network in"
NETWORK_OUT: Final = "network out"
DISK_WRITE: Final = "disk write"
DISK_READ: Final = "disk read"
FSYNC: Final = "fsync"
DISK_SPACE: Final = "disk space"
MEMORY: Final = "memory"
RECOVERY: Final = "recovery"

# An entry of .index (8 bytes) and of .timeindex (12) for every 4096 bytes of a log (index.interval.bytes).
INDEX_RATIO: Final = 20 / 4096
# Writes that the page cache should hold, by Kafka's documentation (Hardware and OS): write throughput × 30 s.
CACHED_S: Final = 30.0
# Open files of a segment (.log, .index, .timeindex) and of a partition beside its segments.
_FILES_OF_A_SEGMENT: Final = 3
_FILES_OF_A_PARTITION: Final = 4


@dataclass(frozen=True, slots=True)
class Demand:
    """One resource of the worst broker."""

    resource: str
    amount: float
    ceiling: float
    limit_ratio: float
    unit: Unit
    measured: bool = True
    """False: the load file says the ceiling."""

    @property
    def use_ratio(self) -> float:
        """The share of what the plan may use; above 1 the load does not fit."""
        return self.amount / (self.ceiling * self.limit_ratio) if self.ceiling > 0 else math.inf


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What the worst broker of a cluster carries."""

    demands: tuple[Demand, ...]
    work: Work
    """The work in a second, for the broker's CPU."""
    used_bytes: float
    partition_replicas: int
    open_files: int
    files_of_a_disk: float
    """Logs that a disk appends to in turn."""
    cache_bytes: float
    cached_s: float
    """How long writes stay in the page cache; a group that is farther behind reads from the disk."""
    late_topics: tuple[str, ...]
    """Topics whose groups read from the disk."""
    recovery_s: float
    """Until a broker that lost all it had has it again."""
    repair_bytes_per_s: float

    @property
    def fits(self) -> bool:
        return all(demand.use_ratio <= 1 for demand in self.demands)

    @property
    def by_use(self) -> list[Demand]:
        return sorted(self.demands, key=lambda demand: -demand.use_ratio)


def least_brokers(load: Load) -> int:
    """Below this the replicas of a partition have no brokers of their own, or not enough of them when some are down."""
    down = load.cluster.brokers_down
    copies = max(topic.replication for topic in load.topics.values())
    in_sync = max(topic.min_insync_replicas for topic in load.topics.values())
    return max(copies, in_sync + down, load.cluster.racks, down + 1)


def partitions_of(topic: Topic, partition_bytes_per_s: float | None, brokers: int, factor: float = 1.0) -> int:
    """Enough for producers, for consumers, and for the members of a group; a multiple of the number of brokers."""
    peak = topic.peak_bytes_per_s * factor
    wanted = [float(topic.partitions), float(topic.consumers)]
    if partition_bytes_per_s:
        wanted.append(peak / partition_bytes_per_s)
    if topic.consumer_bytes_per_s:
        wanted.append(peak / topic.consumer_bytes_per_s)
    return math.ceil(math.ceil(max(wanted)) / brokers) * brokers


def work_of(topics: Sequence[Topic], factor: float = 1.0) -> Work:
    """What all brokers together do in a second for tailing traffic; replays are apart, as they have no imbalance."""
    total = Work()
    for topic in topics:
        produced = topic.peak_bytes_per_s * factor
        copies, groups = topic.replication - 1, topic.groups
        moved = traffic(topic.batch_bytes, produced, produced * groups, produced * copies, groups)
        total += moved + Work(synced_batches=moved.produced_batches * topic.replication if topic.fsync else 0.0)
    return total


def replay_of(topics: Sequence[Topic], factor: float = 1.0) -> Work:
    replayed = (traffic(topic.batch_bytes, 0.0, topic.replay_bytes_per_s * factor, 0.0) for topic in topics)
    return sum(replayed, Work())


def worst_broker(load: Load, ceilings: Ceilings, array: Array, brokers: int, factor: float = 1.0) -> BrokerState:
    """The busiest of `brokers`, when as many as the cluster has to bear are down. factor: of all rates.

    Raises ValueError if no broker would be up.
    """
    up = brokers - load.cluster.brokers_down
    if up < 1:
        raise ValueError(f"{brokers} brokers with {load.cluster.brokers_down} down leave none")
    topics, limits, hosts = list(load.topics.values()), load.limits, load.hosts
    # One broker cannot have more than all of it.
    share = min(1.0, load.cluster.imbalance / up)
    own, replay = work_of(topics, factor).times(share), replay_of(topics, factor).times(1 / up)
    written = own.produced_bytes + own.replicated_bytes
    net_out = own.consumed_bytes + own.replicated_bytes + replay.consumed_bytes

    counts = {
        name: partitions_of(topic, ceilings.partition_bytes_per_s, brokers, factor)
        for name, topic in load.topics.items()
    }
    replicas = sum(counts[name] // brokers * topic.replication for name, topic in load.topics.items())
    used = segments = 0.0
    for name, topic in load.topics.items():
        kept = _kept_bytes(topic, counts[name], factor)
        used += kept * topic.replication / up
        # Retention removes whole segments, so that each partition has up to one more.
        used += counts[name] / up * topic.replication * topic.segment_bytes
        segments += kept / topic.segment_bytes * topic.replication / up
    process = ceilings.process_bytes + (ceilings.partition_bytes or 0.0) * replicas
    cache = max(0.0, hosts.memory_bytes * limits.memory - process)
    cached_s = cache / written
    late = [name for name, topic in load.topics.items() if topic.lag_s > cached_s and topic.groups]
    disk_read = replay.consumed_bytes + share * sum(
        load.topics[name].peak_bytes_per_s * factor * load.topics[name].groups for name in late
    )
    disk_write = written * (1 + INDEX_RATIO)
    files_of_a_disk = replicas / array.disks_apart
    write_ceiling = array.write_bytes_per_s * ceilings.write_ratio(files_of_a_disk)
    if REPLAYED in ceilings.costs.known:
        tailing = {
            name: topic.model_copy(update={"groups": 0}) if name in late else topic
            for name, topic in load.topics.items()
        }
        work = work_of(list(tailing.values()), factor).times(share) + Work(replayed_bytes=disk_read)
    else:
        tailing = load.topics
        work = own + replay
    work += Work(brokers=1.0, partitions=float(replicas)) + _looked_at(tailing, counts, up, factor).times(share)

    network, is_probed = ceilings.network_bytes_per_s or hosts.network_bytes_per_s, bool(ceilings.network_bytes_per_s)
    spare_out = max(0.0, network - net_out) * (brokers - 1)
    repair = min(
        max(0.0, network - written),
        max(0.0, write_ceiling - disk_write),
        spare_out if brokers > 1 else 0.0,
    )
    recovery_s = used / repair if repair > 0 else math.inf
    demands = [
        Demand(CPU, ceilings.costs.cpu_cores(work), ceilings.cpu_cores, limits.cpu, "cores"),
        Demand(NETWORK_IN, written, network, limits.network, "bytes/s", measured=is_probed),
        Demand(NETWORK_OUT, net_out, network, limits.network, "bytes/s", measured=is_probed),
        Demand(DISK_WRITE, disk_write, write_ceiling, limits.disk_rate, "bytes/s"),
        Demand(DISK_READ, disk_read, array.read_bytes_per_s, limits.disk_rate, "bytes/s"),
        Demand(DISK_SPACE, used, array.usable_bytes, limits.disk_space, "bytes", measured=False),
        Demand(MEMORY, process + written * CACHED_S, float(hosts.memory_bytes), limits.memory, "bytes", measured=False),
    ]
    if own.synced_batches:
        demands.append(Demand(FSYNC, own.synced_batches, _syncs_per_s(topics, ceilings, array), limits.disk_rate, "/s"))
    if load.cluster.recovery_s is not None:
        demands.append(Demand(RECOVERY, recovery_s, load.cluster.recovery_s, 1.0, "s", measured=False))
    return BrokerState(
        demands=tuple(demands),
        work=work,
        used_bytes=used,
        partition_replicas=replicas,
        open_files=math.ceil(_FILES_OF_A_SEGMENT * (segments + replicas) + _FILES_OF_A_PARTITION * replicas),
        files_of_a_disk=files_of_a_disk,
        cache_bytes=cache,
        cached_s=cached_s,
        late_topics=tuple(late),
        recovery_s=recovery_s,
        repair_bytes_per_s=repair,
    )


def _looked_at(topics: Mapping[str, Topic], partitions: Mapping[str, int], brokers: int, factor: float) -> Work:
    """Partitions that the fetches of all brokers together look at in vain, in a second.

    Each follower has a session with each leader, of all topics; each member of a group has one with each leader.
    """
    followed = sum(partitions[name] * (topic.replication - 1) for name, topic in topics.items())
    batches = work_of(list(topics.values()), factor).replicated_batches
    return Work(
        looked_at_for_followers=looked_at(batches, followed, brokers * (brokers - 1)),
        looked_at_for_readers=sum(
            looked_at(work_of([topic], factor).consumed_batches, partitions[name], brokers * topic.consumers)
            for name, topic in topics.items()
        ),
    )


def _syncs_per_s(topics: Sequence[Topic], ceilings: Ceilings, array: Array) -> float:
    """Batches that the disks can put down one by one: each takes a small fsync and the time of its bytes."""
    if not ceilings.disk_syncs_per_s:
        return 0.0
    synced = [topic for topic in topics if topic.fsync]
    batches = work_of(synced).synced_batches
    batch_bytes = sum(topic.peak_bytes_per_s * topic.replication for topic in synced) / batches
    return array.disks_apart / (1 / ceilings.disk_syncs_per_s + batch_bytes / ceilings.disk_write_bytes_per_s)


def _kept_bytes(topic: Topic, partitions: int, factor: float) -> float:
    """Stored bytes of one copy of all partitions."""
    retention = topic.retention
    bounds = []
    if retention.time_s is not None:
        bounds.append(topic.kept_bytes_per_s * factor * retention.time_s)
    if retention.bytes_per_partition is not None:
        bounds.append(float(retention.bytes_per_partition) * partitions)
    return min(bounds)
