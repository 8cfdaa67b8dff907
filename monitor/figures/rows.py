"""The rows of figures: what pages, history, alerts and exports show of a cluster, frozen.

None always means that it is not known, and 0 that it is 0. Rates are per second of the monotonic clock; durations are
in milliseconds. `monitor/figures/cluster.py` makes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final, NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.common.units import plural
from highwater.kafka.client.host_processes import HostProcesses
from highwater.monitor.figures.broker_loss import BrokerLoss
from highwater.monitor.model import GroupState, Member, Partition


class Level(Enum):
    """How bad something is. The order is that of `rank`."""

    OK = "ok"
    UNKNOWN = "unknown"
    """Nothing bad was seen, but something that could show it was not."""
    WARN = "warning"
    ERROR = "error"

    rank: int
    """0 for OK to 3 for ERROR."""


for _rank, _level in enumerate(Level):
    _level.rank = _rank


class FindingKind(Enum):
    """What can be wrong with a cluster. The value is the name of the alert's rule, and of its documentation."""

    PARTITIONS_OFFLINE = "partitions-offline"
    BROKER_GONE = "broker-gone"
    NO_CONTROLLER = "no-controller"
    LOG_DIRECTORY_OFFLINE = "log-directory-offline"
    UNDER_MIN_ISR = "under-min-isr"
    RECORDS_LOST = "records-lost"
    """Retention or an unclean election took records before a group had read them."""
    RETENTION_LOSS = "retention-loss"
    """It will."""
    DISK_FULL = "disk-full"
    LAG = "lag"
    HANGING_TRANSACTION = "hanging-transaction"
    UNDER_REPLICATED = "under-replicated"
    HEADROOM_LOW = "headroom-low"
    """A broker nears what was measured to be possible on such a host."""
    TUNING_DRIFT = "tuning-drift"
    """A host is no longer tuned as it was."""
    HOST_SILENT = "host-silent"
    SOURCE_SILENT = "source-silent"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or not known."""

    kind: FindingKind
    level: Level
    subject: str
    """The broker, group or source that it is about, as `broker 2` or `group billing`; empty for the cluster."""
    sentence: str
    """Complete in itself, with the numbers behind it."""
    value: float | None = None
    """The number that was judged, in the unit that the sentence gives it."""
    is_near: bool = False
    """Not bad enough to report, but too bad for an alert to close: the verdict leaves it out."""


class Balance(NamedTuple):
    """How evenly a topic, or the whole cluster, lies on the brokers. `distribution.FORMULAS` has the formulas."""

    spread_percent: int | None
    """The percentage of the live brokers that have a replica."""
    skew_percent: int | None
    """The brokers with more than their share of replicas, among those with any; None without a replica."""
    leader_skew_percent: int | None
    """The brokers with more than their share of leaders, among those with any replica."""
    replica_max_over_mean: float | None
    """Replicas of the broker with most, by the mean of the brokers with a replica: 1 is even."""
    leader_max_over_mean: float | None
    bytes_in_max_over_mean: float | None
    """The same of the leaders' produced bytes per second; None while rates are not known or are all 0."""
    disk_bytes_max_over_mean: float | None
    least_replica_max_over_mean: float | None
    """The smallest possible with this number of replicas: more than 1 if it is no multiple of the brokers."""
    least_leader_max_over_mean: float | None
    replica_moves: int
    """Replicas to move until no broker has more than its share, rounded up."""
    leader_moves: int


@dataclass(slots=True)
class Health:
    """Partitions of a topic, a broker or the cluster, by what is wrong with them; counted once for each snapshot."""

    offline: int = 0
    """Without a leader: nobody can read or write them."""
    under_min_isr: int = 0
    """They reject writes with acks=all. Offline partitions are not among them."""
    at_min_isr: int = 0
    """One more lost replica, and they reject writes with acks=all. Partitions with one replica are not counted."""
    under_replicated: int = 0
    """Some replica is out of sync, offline partitions included. A partition in reassignment is left out."""
    not_preferred: int = 0
    """Another replica than the first one leads."""
    unknown_min_isr: int = 0
    """`min.insync.replicas` is not known, so that the two counts above leave them out."""
    unknown_offsets: int = 0
    """Their end offset is not known: the leader did not answer, or there is none."""
    hanging_transactions: int = 0
    """Partitions with a transaction that nobody ends, or that is late: `transactions.hanging`."""

    def add(self, other: Health) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class PartitionFigures(NamedTuple):
    topic: str
    partition: int
    is_offline: bool
    is_under_replicated: bool
    is_under_min_isr: bool | None
    """None if `min.insync.replicas` is not known."""
    is_at_min_isr: bool | None
    is_preferred_leader: bool
    """The first replica leads."""
    held_offsets: int | None
    """End offset minus log start offset: an upper bound of the records, as compaction and markers leave gaps."""
    leader_size_bytes: int | None
    size_bytes: int | None
    """The sum of all replicas whose size is known; None if none is."""
    offsets_per_s: float | None
    """Produced: records and transaction markers. None before the second tick of its series."""
    bytes_in_per_s: float | None
    """Estimated: offsets per second times the mean stored bytes per offset."""
    undecided_offsets: int | None
    """End offset minus last stable offset: what read_committed consumers cannot read yet."""
    hanging_ms: int | None
    """For how long a transaction that hangs or is late is open there; None if none does."""


class PartitionRow(NamedTuple):
    """A partition as the snapshot has it, and its figures."""

    partition: Partition
    figures: PartitionFigures


class TopicFigures(NamedTuple):
    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    replication_factor: int | None
    """The number of replicas of the first partition; None without partitions."""
    level: Level
    sentence: str
    balance: Balance
    health: Health
    produced_offsets: int | None
    """Sum of end offsets: all that was ever produced. Counts the partitions whose end is known; None if none is."""
    end_offsets: int | None
    """The same sum; None if one of them is not known, as an incomplete sum would make a wrong rate."""
    start_offsets: int | None
    """Sum of log start offsets; None if one of them is not known."""
    held_offsets: int | None
    """Sum of end minus log start offset."""
    leader_size_bytes: int | None
    """One copy of the data."""
    size_bytes: int | None
    """All copies of the data."""
    offsets_per_s: float | None
    bytes_in_per_s: float | None
    """Estimated, as of the partition."""
    hottest_share: float | None
    """Share of the produced offsets that goes to the busiest partition, 0 to 1; None without traffic."""
    groups: tuple[str, ...]
    """Groups with a commit or a member on it, in the order of their names."""
    worst_lag: int | None
    """The largest lag that one group has on this topic; None without a group with commits."""
    worst_lag_level: Level
    """The worst verdict of a group on this topic; OK without groups."""


class LagState(Enum):
    COMMITTED = "committed"
    NO_COMMIT = "no commit"
    """A member reads it, and nothing is committed: lag has no meaning yet."""
    BELOW_LOG_START = "below log start"
    """Records that the group has not read are deleted: `lost` of them."""
    BEYOND_END = "beyond end"
    """Committed more than there is: the topic was made again, or an unclean election lost records."""
    UNKNOWN_PARTITION = "unknown partition"
    """The cluster has no such partition (any more)."""
    UNKNOWN_END = "end not known"
    """The partition's leader did not answer."""


class LagVerdict(Enum):
    """Burrow's words, and two of our own."""

    OK = "OK"
    UNKNOWN = "UNKNOWN"
    """Not seen for long enough, or an offset is not known."""
    WARN = "WARN"
    """The group reads, but lag rises."""
    LOSS = "LOSS"
    """Records that the group has not read are gone."""
    REWIND = "REWIND"
    """The committed offset went back and has not caught up."""
    STALL = "STALL"
    """Members are there, and read nothing."""
    STOP = "STOP"
    """Nobody reads."""

    rank: int
    """0 for OK to 6 for STOP."""
    level: Level


_VERDICT_LEVELS = {LagVerdict.OK: Level.OK, LagVerdict.UNKNOWN: Level.UNKNOWN, LagVerdict.WARN: Level.WARN}
for _rank, _verdict in enumerate(LagVerdict):
    _verdict.rank = _rank
    _verdict.level = _VERDICT_LEVELS.get(_verdict, Level.ERROR)


class Sentence(NamedTuple):
    """Words that are made when somebody reads them: there are many rows, and few are looked at."""

    words: Callable[..., str]
    values: tuple[object, ...]

    def __str__(self) -> str:
        return self.words(*self.values)


_LEAST_BOUND_MS: Final = 10 * 60 * 1000


class Duration(NamedTuple):
    """An estimated time. `is_least`: it is longer than this, as `more than 30 min`."""

    ms: float
    is_least: bool = False

    @property
    def is_known(self) -> bool:
        """Not where it says only that the monitor has watched for a short time."""
        return not self.is_least or self.ms >= _LEAST_BOUND_MS


class GroupPartitionFigures(NamedTuple):
    group: str
    topic: str
    partition: int
    state: LagState
    committed_offset: int | None
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    """Offsets between the commit and the end; None unless the state is COMMITTED or BELOW_LOG_START."""
    lag_error: int
    """The lag is overstated by at most so many offsets: what was produced between the two answers. Shown as a range."""
    lost: int
    """Offsets that were deleted before the group read them, in the state BELOW_LOG_START."""
    lag_time: Duration | None
    """How old the first record that is not yet read is; None if not known."""
    catch_up_ms: float | None
    """Until lag is 0 at the present rates; None if it is not known or never."""
    never_catches_up: bool
    """It reads no faster than is produced, and lags."""
    produced_per_s: float | None
    consumed_per_s: float | None
    """Rate of the committed offset; None before the second tick, and in a tick after a rewind."""
    loss_eta_ms: float | None
    """Until retention deletes what the group has not read, at the rate at which it deleted lately; None if not."""
    verdict: LagVerdict
    level: Level
    """The verdict's level; UNKNOWN if the group stands still and was never seen to read: it may be abandoned."""
    reason: Sentence
    owner: Member
    """The member that the partition is assigned to; NO_MEMBER if there is none."""

    @property
    def sentence(self) -> str:
        """Why the verdict is as it is."""
        return str(self.reason)


class GroupFigures(NamedTuple):
    name: str
    state: GroupState
    members: int
    topics: tuple[str, ...]
    partitions: int
    """The number of partitions with a commit or a member."""
    lag: int | None
    """Sum over the partitions whose lag is known; None if none is."""
    lag_error: int
    no_commit: int
    """Partitions in this state; they are not in the sum."""
    below_log_start: int
    beyond_end: int
    unknown: int
    """Partitions that the cluster has not, or whose end offset is not known."""
    lost: int
    """Sum of what was deleted before it was read."""
    lag_time: Duration | None
    """The longest of its partitions."""
    catch_up_ms: float | None
    """The longest of its partitions that catch up."""
    never_catches_up: bool
    """True if the group never catches up on some partition."""
    produced_per_s: float | None
    """To its partitions with a commit."""
    consumed_per_s: float | None
    loss_eta_ms: float | None
    """The soonest."""
    verdict: LagVerdict
    """That of its worst partition, by level and then by rank."""
    level: Level
    reason: Sentence

    @property
    def sentence(self) -> str:
        """The sentence of the worst partition, with a count of the others."""
        return str(self.reason)


class TransactionVerdict(Enum):
    OPEN = "open"
    """Within its time: what should end it will."""
    UNKNOWN = "not known"
    """Older than a transaction may get, and not all coordinators said whether they know it."""
    LATE = "late"
    """Its coordinator knows it, and should have ended it."""
    HANGING = "hanging"
    """No coordinator knows it, and it is older than a transaction may get: nobody ends it."""

    rank: int
    """0 for OPEN to 3 for HANGING."""

    @property
    def is_bad(self) -> bool:
        return self in (TransactionVerdict.LATE, TransactionVerdict.HANGING)

    @property
    def level(self) -> Level:
        if self is TransactionVerdict.UNKNOWN:
            return Level.UNKNOWN
        return Level.WARN if self.is_bad else Level.OK


for _rank, _transaction_verdict in enumerate(TransactionVerdict):
    _transaction_verdict.rank = _rank


class TransactionFigures(NamedTuple):
    """A transaction that is open in a partition for long."""

    topic: str
    partition: int
    transactional_id: str
    """Empty if no coordinator knows its producer."""
    producer_id: int
    producer_epoch: int
    coordinator: int | None
    """Node id."""
    state: str
    """That the coordinator says; empty if it does not know it."""
    start_offset: int
    since_ms: int
    """Unix time: its start by its coordinator, else its last record there, or when the monitor saw it first."""
    age_ms: int
    timeout_ms: int | None
    """Its own; None if no coordinator knows it."""
    held_up_offsets: int | None
    """Offsets from its first record to the end."""
    groups: tuple[str, ...]
    """That stand there."""
    verdict: TransactionVerdict
    sentence: str
    command: str
    """That ends it; empty unless the verdict is HANGING."""

    @property
    def key(self) -> TopicPartition:
        return (self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    node_id: int
    is_alive: bool
    is_controller: bool
    level: Level
    sentence: str
    leaders: int
    preferred_leaders: int
    """Partitions of which it is the first replica: what it would lead after an election of preferred leaders."""
    replicas: int
    leader_share: float | None
    """Its share of the cluster's leaders, 0 to 1; None without leaders."""
    replica_share: float | None
    health: Health
    """The health of the partitions that it leads; offline ones count at their first replica."""
    out_of_sync_replicas: int
    """Replicas on it that are not in sync."""
    size_bytes: int | None
    """The replicas' bytes; None if the broker did not report them."""
    disk_total_bytes: int | None
    disk_usable_bytes: int | None
    """Sums of its file systems; None if it did not say."""
    disk_usable_percent: float | None
    """The percentage of the directory with the least."""
    disk_full_ms: float | None
    """Until a directory's file system is full at the present rate; None if it does not fill, or is not known."""
    offline_directories: tuple[str, ...]
    """Paths of log directories that report an error."""
    offsets_per_s: float | None
    """Produced to the partitions that it leads."""
    bytes_in_per_s: float | None
    """The rate of its own counter if it serves metrics; otherwise estimated."""
    bytes_out_per_s: float | None
    """The rate of its own counter; None without metrics."""
    metrics: Mapping[str, float] | None
    """Its own page of metrics; None if it serves none."""
    if_it_dies: BrokerLoss | None
    """None for a broker that is not alive."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The cluster as a whole."""

    brokers: int
    brokers_alive: int
    topics: int
    partitions: int
    replicas: int
    groups: int
    groups_by_verdict: Mapping[LagVerdict, int]
    unjudged_groups: int
    """Groups with a commit that were not seen for long enough for a verdict, or of which an offset is not known."""
    idle_groups: int
    """Groups with unread records, without a reader, and never seen to read: their level is UNKNOWN."""
    health: Health
    produced_offsets: int | None
    offsets_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    size_bytes: int | None
    disk_total_bytes: int | None
    disk_usable_bytes: int | None
    processes: HostProcesses | None
    """If the brokers are the processes of one host."""

    @property
    def alive_text(self) -> str:
        """How many brokers are alive, in words."""
        if self.processes is None:
            return plural(self.brokers_alive, "broker")
        return f"{plural(self.brokers_alive, 'process')} of one host"
