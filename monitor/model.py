"""What the sources said of a cluster at one tick: frozen values for figures and pages.

A Snapshot is complete in itself, is never changed, and is replaced as a whole. What a source did not say is None, and
its SourceState says why; 0 always means that the cluster said 0. Offsets and counters are as the cluster has them;
rates, lag and verdicts are made from two snapshots or more (`monitor/figures/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from highwater.common.host_answer import HostAnswer
from highwater.common.topic_partition import TopicPartition

NO_LEADER: Final = -1
HOST_SOURCE: Final = "host "
"""Before the name of a host, in the name of its source."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How one source answered in this tick. A source is Kafka's protocol, a page of metrics, ZooKeeper or a host."""

    name: str
    as_of_ms: int | None
    """Unix time of its newest answer; None before the first."""
    error: str = ""
    """Why the newest answer is older than the tick, in one sentence; empty if all is well."""
    requests: int = 0
    """Requests of this tick."""
    received_bytes: int = 0
    duration_ms: float = 0.0
    late_answers: int = 0
    """Answers that came in this tick after their time was over; they were dropped."""


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A directory of a broker's log, from DescribeLogDirs."""

    path: str
    error: str = ""
    total_bytes: int | None = None
    """Bytes of its file system (KIP-827); None from brokers that do not report them."""
    usable_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting of a topic or of a broker, from DescribeConfigs."""

    value: str | None
    """None if the broker keeps it secret."""
    source: str
    """The source as kafka-configs prints it, such as DYNAMIC_TOPIC_CONFIG or DEFAULT_CONFIG."""
    default: str | None = None
    """The value without what this topic or broker was given, if the broker said so."""
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str = ""
    is_alive: bool = True
    """Metadata lists it."""
    error: str = ""
    """Why it did not answer in this tick; empty if it answered."""
    directories: tuple[LogDirectory, ...] = ()
    config: Mapping[str, ConfigValue] | None = None
    metrics: Mapping[str, float] | None = None
    """Values of its page of metrics, by the names of docs/metrics.md; None without such a page."""
    metrics_at_ms: int | None = None
    """When they were read, by the clock of `Snapshot.at_ms`; None for the time of the tick."""

    @property
    def address(self) -> str:
        """Nobody says that of a broker which has been away since the monitor started."""
        return f"{self.host}:{self.port}" if self.host else "address not known"


@dataclass(frozen=True, slots=True)
class Partition:
    topic: str
    partition: int
    leader: int
    """NO_LEADER if it has none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    log_start_offset: int | None = None
    end_offset: int | None = None
    """The high watermark, as a consumer sees the end; None if its leader did not answer."""
    last_stable_offset: int | None = None
    offsets_at_ms: int | None = None
    """Monotonic time at which the leader returned the end offset."""
    size_bytes: Mapping[int, int] = field(default_factory=dict)
    """The size of each replica, by broker."""
    follower_lag: Mapping[int, int] = field(default_factory=dict)
    """Offsets by which a replica is behind the high watermark, by broker."""

    @property
    def key(self) -> TopicPartition:
        return (self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: str
    """Base64 as Kafka prints it; another id under the same name is another topic. Empty from brokers without ids."""
    is_internal: bool
    partitions: tuple[Partition, ...]
    """Partitions in the order of their numbers."""
    config: Mapping[str, ConfigValue] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """What a group has committed for a partition."""

    offset: int
    at_ms: int
    """Monotonic time at which the coordinator returned it: before the end offsets of the same tick were asked for."""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    instance_id: str = ""
    """`group.instance.id` of a static member."""
    assigned: tuple[TopicPartition, ...] = ()
    coming: tuple[TopicPartition, ...] = ()
    """What a member of a group of KIP-848 is to have, and does not have yet."""


NO_MEMBER: Final = Member("", "", "")


class GroupState(Enum):
    """The names that `kafka-consumer-groups` prints."""

    STABLE = "Stable"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    EMPTY = "Empty"
    DEAD = "Dead"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: GroupState
    coordinator: int
    """Node id."""
    kind: str = "classic"
    """classic, consumer or share."""
    protocol: str = ""
    """The assignor's name."""
    members: tuple[Member, ...] = ()
    commits: Mapping[TopicPartition, Commit] = field(default_factory=dict)
    """Only partitions that have a commit."""
    error: str = ""
    """Why members or commits are not known."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, and what its coordinator says of it."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    last_written_ms: int
    """Unix time of its newest record there, as that record says."""
    is_known: bool | None
    """Whether a coordinator has this partition in a transaction of this producer; None if not all of them said so."""
    transactional_id: str = ""
    """Empty if no coordinator knows the producer."""
    coordinator: int | None = None
    """Node id."""
    state: str = ""
    """The state as Kafka writes it, such as Ongoing or PrepareCommit."""
    timeout_ms: int | None = None
    started_ms: int | None = None
    """Unix time by the coordinator's clock."""

    @property
    def key(self) -> TopicPartition:
        return (self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ClientPush:
    """What a client instance measured in its last interval, and pushed to a broker (KIP-714)."""

    instance_id: str
    client_id: str
    software: str
    version: str
    address: str
    user: str
    group: str
    """The group of a consumer; empty for others."""
    broker: int
    """Node id of the broker that took it."""
    at_ms: int
    """Unix time by the broker's clock."""
    interval_ms: int
    is_last: bool
    """The client ended with it."""
    values: Mapping[str, float]
    """The names are those of `client_pushes.KEPT`."""
    metrics: int
    """How many metrics it has in all."""
    broker_produce_ms: float | None = None
    """The mean time that the broker itself took for Produce then; None if nobody produced."""
    broker_fetch_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """What clients push, as far as it was read."""

    pushes: tuple[ClientPush, ...] = ()
    """The newest of each client instance that goes on."""
    read: int = 0
    """Pushes since the start of the monitor."""
    passed_over: int = 0
    """Records that were no push, or too many for one tick."""


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """What one server of ZooKeeper says of itself."""

    address: str
    mode: str = ""
    """leader, follower, observer or standalone; empty if it does not say."""
    version: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Values by `mntr`'s names without `zk_`, such as avg_latency; fewer from a server that allows `srvr` alone."""
    error: str = ""
    """Why there are no numbers; empty if there are."""


class ZnodeChange(NamedTuple):
    """A watched znode is another than before."""

    at_ms: int
    """Unix time of the look that shows it, which a watch causes at once."""
    path: str
    text: str
    before: str = ""
    """The data of the znode, as proof."""
    after: str = ""


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """What ZooKeeper says of the cluster. Znodes are read on demand, and are no part of it."""

    silent_since_ms: int | None = None
    """Unix time since which it does not answer; None if it does."""
    error: str = ""
    servers: tuple[ZooKeeperServer, ...] = ()
    controller: int | None = None
    controller_epoch: int | None = None
    sessions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ephemeral znodes of controller and brokers by the session that owns them."""
    changes: tuple[ZnodeChange, ...] = ()
    """Since the snapshot before."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host with an agent, and its newest answer."""

    name: str
    """Its name in the monitor's configuration."""
    address: str
    """Where its agent is asked."""
    answer: HostAnswer | None = None
    as_of_ms: int | None = None
    """Unix time of the answer."""
    error: str = ""
    """Why there is no newer one, in one sentence."""
    is_new: bool = True
    """It answered since the snapshot before."""
    wanted_brokers: tuple[int, ...] = ()
    """Ids of the brokers that the configuration gives it."""
    brokers: tuple[int, ...] = ()
    """Ids of the brokers that are on it."""
    answered_at_ms: int | None = None
    """The time of `as_of_ms`, by the clock of `Snapshot.at_ms`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cluster at one tick. `number` rises by one with each tick of a monitor's life."""

    cluster: str
    """Its name in the monitor's configuration."""
    number: int
    at_ms: int
    """Monotonic: differences of this are for rates."""
    taken_at_ms: int
    """Unix time, for people."""
    cluster_id: str = ""
    other_cluster_id: str = ""
    """The id of another cluster that answered at this one's addresses since this one last did; empty for none."""
    controller: int | None = None
    controller_epoch: int | None = None
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    """Brokers by node id; one that vanished stays, as not alive, until somebody has the monitor forget it."""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    reassigning: frozenset[TopicPartition] = frozenset()
    transactions: tuple[OpenTransaction, ...] = ()
    """Transactions on partitions whose last stable offset stands still for long, by partition and start offset."""
    client_metrics: ClientMetrics | None = None
    """None while no client has pushed any to a broker of the cluster."""
    hosts: Mapping[str, Host] = field(default_factory=dict)
    """Hosts by name, in the order of the configuration."""
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    zookeeper: ZooKeeper | None = None
    """None if the configuration names no ZooKeeper."""

    def partition(self, key: TopicPartition) -> Partition | None:
        name, number = key
        topic = self.topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]
