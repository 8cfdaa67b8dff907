"""A broker of a cluster whose others, and whose controller, are played by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr
from highwater.broker.log.files import FileOperations
from highwater.broker.member.replica_manager import Overrides, ReplicaManager
from highwater.broker.replica.fetcher_inputs import FollowerReplica
from highwater.broker.replica.in_sync_changes import InSyncChange
from highwater.broker.replica.leader import Leader
from highwater.broker.replica.partition import Partition
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import MemberHarness, Pending

TOPIC_ID: Final = UUID("7f9e7be5-4330-4441-b92f-bfa95e5d6d04")
LAG_MS: Final = 10_000
BROKER_EPOCH: Final = 77


class Following:
    """Whom this broker follows, by partition; nothing is fetched."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], int] = {}

    def add(self, leader: int, replicas: Iterable[FollowerReplica]) -> None:
        for replica in replicas:
            assert (replica.topic, replica.index) not in self.leaders
            self.leaders[replica.topic, replica.index] = leader

    def remove(self, replicas: Iterable[FollowerReplica]) -> None:
        for replica in replicas:
            self.leaders.pop((replica.topic, replica.index), None)

    failed_count = 0

    def lags(self) -> Iterator[tuple[int, FollowerReplica, int]]:
        return iter(())


class Proposals:
    """What this broker asked the controller for."""

    def __init__(self) -> None:
        self.made: list[tuple[InSyncChange, Callable[[LeaderAndIsr | ErrorCode], None]]] = []
        self.is_busy = False

    def submit(self, change: InSyncChange, then: Callable[[LeaderAndIsr | ErrorCode], None]) -> bool:
        if not self.is_busy:
            self.made.append((change, then))
        return not self.is_busy

    def take(self) -> tuple[InSyncChange, Callable[[LeaderAndIsr | ErrorCode], None]]:
        return self.made.pop(0)


class ReplicaHarness(MemberHarness):
    """Broker 0; brokers 1 and 2 live as well."""

    def __init__(
        self,
        log_dir: Path,
        more_log_dirs: Sequence[Path] = (),
        files: FileOperations | None = None,
        /,
        **properties: str,
    ) -> None:
        super().__init__(log_dir, more_log_dirs, files, replica_lag_time_max_ms=str(LAG_MS), **properties)
        self.following = Following()
        self.proposals = Proposals()
        self.roles: list[tuple[str, int, int | None]] = []
        """What the coordinators were told: the leader epoch, or None for a follower."""
        self.configs: dict[str, Overrides] = {}
        self.waiting_reads: list[Callable[[], None]] | None = None
        """Reads of settings that wait until the test lets them be answered; None: they are at once."""
        self.member.epochs.session_began(BROKER_EPOCH)
        node = self.node
        self.replicas = ReplicaManager(
            node,
            node.partitions,
            self.cluster,
            self.member.epochs,
            node.counters,
            self.following,
            self.proposals,
            read_topic_configs=self._read_topic_configs,
            on_leader=lambda topic, index, epoch: self.roles.append((topic, index, epoch)),
            on_follower=lambda topic, index: self.roles.append((topic, index, None)),
        )
        self.replace_member(replicas=self.replicas)
        self.replicas.start()
        self.cluster.complete()
        self.live(0, 1, 2)

    @property
    def cluster(self) -> MetadataCache:
        return self.member.metadata

    def _read_topic_configs(self, topics: Sequence[str], then: Callable[[Mapping[str, Overrides]], None]) -> None:
        def answer() -> None:
            then({topic: self.configs.get(topic, {}) for topic in topics})

        if self.waiting_reads is None:
            answer()
        else:
            self.waiting_reads.append(answer)

    def live(self, *broker_ids: int, racks: Mapping[int, str] | None = None) -> None:
        self.cluster._brokers = {
            broker_id: BrokerInfo(
                broker_id, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", broker_id),), (racks or {}).get(broker_id)
            )
            for broker_id in broker_ids
        }

    def update_metadata(self, live: Sequence[int]) -> ErrorCode:
        """The controller tells which brokers live."""
        endpoint = {"host": "h", "security_protocol": 0, "listener": "PLAINTEXT"}
        answer = self.ask(
            "update_metadata",
            8,
            controller_id=2,
            type=0,
            controller_epoch=1,
            broker_epoch=BROKER_EPOCH,
            topic_states=[],
            live_brokers=[{"id": id_, "endpoints": [endpoint | {"port": id_}], "rack": None} for id_ in live],
        )
        return ErrorCode(answer.error_code)

    def pass_time(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.scheduler.run(duration_ms)

    # The controller

    def tell(
        self,
        leader: int,
        leader_epoch: int,
        in_sync: Sequence[int] = (0, 1, 2),
        *,
        topic: str = "t",
        partition: int = 0,
        replicas: Sequence[int] = (0, 1, 2),
        partition_epoch: int | None = None,
        controller_epoch: int = 1,
        broker_epoch: int = BROKER_EPOCH,
        topic_id: UUID = TOPIC_ID,
        is_new: bool = False,
        version: int = 7,
    ) -> Any:
        """LeaderAndIsr for one partition; the error of the partition, or the answer if it is still to come."""
        answer = self.ask(
            "leader_and_isr",
            version,
            controller_id=2,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            type=0,
            live_leaders=[],
            topic_states=[
                {
                    "topic_name": topic,
                    "topic_id": topic_id,
                    "partition_states": [
                        {
                            "partition_index": partition,
                            "controller_epoch": controller_epoch,
                            "leader": leader,
                            "leader_epoch": leader_epoch,
                            "isr": list(in_sync),
                            "partition_epoch": leader_epoch if partition_epoch is None else partition_epoch,
                            "replicas": list(replicas),
                            "adding_replicas": [],
                            "removing_replicas": [],
                            "is_new": is_new,
                            "leader_recovery_state": 0,
                        }
                    ],
                }
            ],
        )
        return answer if isinstance(answer, Pending) else error_of(answer)

    def stop_replica(
        self, leader_epoch: int, *, deletes: bool, topic: str = "t", partition: int = 0, controller_epoch: int = 1
    ) -> ErrorCode:
        answer = self.ask(
            "stop_replica",
            4,
            controller_id=2,
            controller_epoch=controller_epoch,
            broker_epoch=BROKER_EPOCH,
            topic_states=[
                {
                    "topic_name": topic,
                    "partition_states": [
                        {"partition_index": partition, "leader_epoch": leader_epoch, "delete_partition": deletes}
                    ],
                }
            ],
        )
        found: ErrorCode = answer.partition_errors[0].error_code
        return found

    def replica(self, topic: str = "t", index: int = 0) -> Partition:
        partition = self.node.partitions.find(topic, index)
        assert partition is not None
        return partition

    def leader(self) -> Leader:
        role = self.replica().role
        assert isinstance(role, Leader)
        return role

    # Followers

    def fetch_as(
        self,
        broker_id: int,
        offset: int,
        *,
        epoch: int = -1,
        last_epoch: int = -1,
        log_start: int = 0,
        wait_ms: int = 0,
    ) -> Any:
        """A follower's fetch; what the partition is answered, or the answer if it is still to come."""
        answer = self.ask(
            "fetch",
            12,
            replica_id=broker_id,
            max_wait=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[
                {
                    "topic": "t",
                    "partitions": [
                        {
                            "partition": 0,
                            "fetch_offset": offset,
                            "current_leader_epoch": epoch,
                            "last_fetched_epoch": last_epoch,
                            "log_start_offset": log_start,
                            "partition_max_bytes": 1 << 20,
                        }
                    ],
                }
            ],
        )
        return answer if isinstance(answer, Pending) else answer.responses[0].partitions[0]


def error_of(answer: Any) -> ErrorCode:
    """Of the only partition of a LeaderAndIsr's answer."""
    errors = answer.topics[0].partition_errors if hasattr(answer, "topics") else answer.partition_errors
    found: ErrorCode = errors[0].error_code
    return found


def led_batch(base_offset: int, leader_epoch: int, *values: bytes) -> bytes:
    """A batch as the leader of that epoch has it."""
    return bytes(
        encode_batch(
            [Record(value, timestamp_ms=1_700_000_000_000) for value in values],
            base_offset=base_offset,
            leader_epoch=leader_epoch,
        )
    )
