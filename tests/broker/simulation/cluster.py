"""A whole simulated cluster: brokers, their ZooKeeper and network, and the checker that looks at every step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import LeaderAndIsr, ReplicaAssignment
from highwater.broker.settings import metadata_tree
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import FETCH
from tests.broker.simulation.broker import SimulatedBroker
from tests.broker.simulation.checker import Checker, Violation
from tests.broker.simulation.network import Network
from tests.broker.simulation.parent import Parent
from tests.broker.simulation.world import Process, World
from tests.broker.simulation.zookeeper import Ensemble

_QUIET_MS: Final = 5_000
_QUIET_FETCHES: Final = 40
"""Of one follower from one leader: four times what replica.fetch.wait.max.ms makes it."""

PROPERTIES: Final = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "200",
    "log.segment.bytes": "4096",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "500",
    "auto.leader.rebalance.enable": "false",
}


class Cluster:
    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        properties: Mapping[str, str] | None = None,
        may_lose: bool = False,
    ) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.ensemble = self._make_ensemble(brokers)
        self.ensemble.changed = self._znode_changed
        self.checker = Checker(may_lose=may_lose)
        self.properties = PROPERTIES | dict(properties or {})
        self.brokers = self._make_brokers(brokers)
        self.keys: list[TopicPartition] = []
        """Partitions that clients use."""
        self.topic_ids: dict[str, UUID] = {}
        """Of the topics that were created, also of those that are gone."""
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        """Which brokers shall have which partition, as ZooKeeper has it."""
        self.deleted: set[str] = set()
        """Topics that are to be gone in the end."""
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        """As ZooKeeper has them."""
        self._by_process: dict[str, SimulatedBroker] = {broker.host: broker for broker in self.brokers.values()}
        for broker in self.brokers.values():
            broker.dies = partial(self._broker_dies, broker)
        self.world.after_event = self._after_event

    def _make_ensemble(self, count: int) -> Ensemble | Parent:
        return Ensemble(self.world)

    def _make_brokers(self, count: int) -> dict[int, SimulatedBroker]:
        return {
            broker_id: SimulatedBroker(broker_id, self.world, self.network, self.ensemble, self.properties)
            for broker_id in range(1, count + 1)
        }

    @property
    def members(self) -> list[SimulatedBroker]:
        """The brokers that there are to be now, running or not."""
        return list(self.brokers.values())

    def tell(self, text: str) -> None:
        self.world.tell(text)

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    def create_topic(self, name: str, assignment: Sequence[Sequence[int]], *, is_used: bool = True) -> None:
        """As an administrator's command does: the controller sees it and carries it out."""
        replicas = {partition: list(of) for partition, of in enumerate(assignment)}
        if is_used:
            self.keys += [(name, partition) for partition in replicas]
        topic_id = self.topic_ids[name] = UUID(int=self.world.rng.getrandbits(128))
        self.ensemble.make(metadata_tree.topic_config_path(name), znodes.encode(metadata_tree.config_value({})))
        self.ensemble.make(znodes.topic_path(name), znodes.encode(metadata_tree.topic_value(topic_id, replicas)))

    def look_up(self, client: str, key: TopicPartition) -> tuple[Endpoint, int] | None:
        """Who leads a partition, and since which epoch, as some broker knows that a client reaches."""
        reachable = [
            broker
            for broker in self.brokers.values()
            if broker.node is not None
            and not broker.process.is_paused
            and not self.network.is_cut(client, broker.host)
            and not self.network.is_cut(broker.host, client)
        ]
        if not reachable:
            return None
        node = self.world.rng.choice(reachable).node
        assert node is not None
        topic = node.cluster.topic(key[0])
        view = None if topic is None else topic.partitions.get(key[1])
        leader = None if view is None else node.cluster.broker(view.leader)
        if view is None or leader is None:
            return None
        return leader.endpoints[0], view.leader_epoch

    # What happened

    def _after_event(self, process: Process) -> None:
        broker = self._by_process.get(process.name)
        if broker is None or broker.node is None or broker.process is not process:
            return
        self.checker.broker_moved(process, broker.broker_id, broker.node.partitions.live())
        context = None if broker.parts is None else broker.parts.parts.controller.context
        if context is not None:
            self.checker.controls(broker.broker_id, context.epoch)

    def _broker_dies(self, broker: SimulatedBroker) -> None:
        """In the midst of an event, perhaps, after which nobody looks at it any more: what it sent by then arrives."""
        if broker.node is not None:
            self.checker.broker_dies(broker.process, broker.broker_id, broker.node.partitions.live())

    def _znode_changed(self, path: str, data: bytes | None) -> None:
        if path == znodes.CONTROLLER:
            who = "nobody" if data is None else f"broker{json.loads(data)['brokerid']}"
            self.tell(f"the controller is {who}")
        elif znodes.parent_of(path) == metadata_tree.TOPICS:
            self._assignment_changed(path.rpartition("/")[2], data)
        elif path.startswith(metadata_tree.TOPICS) and path.endswith("/state") and data is not None:
            _, _, _, topic, _, partition, _ = path.split("/")
            self._state_changed((topic, int(partition)), path, data)
        elif path.startswith(znodes.BROKER_IDS + "/") and data is None:
            self.tell(f"broker{path.rpartition('/')[2]} is registered no more")

    def _assignment_changed(self, topic: str, data: bytes | None) -> None:
        for key in [key for key in self.assignments if key[0] == topic]:
            del self.assignments[key]
            if data is None:
                self.states.pop(key, None)
        if data is not None:
            _, assignment = znodes.read(data, znodes.parse_assigned_topic)
            self.assignments |= {(topic, partition): replicas for partition, replicas in assignment.items()}
            told = {partition: list(replicas.replicas) for partition, replicas in assignment.items()}
            self.tell(f"{topic} shall be on {told}")
        else:
            self.tell(f"{topic} is gone")

    def _state_changed(self, key: TopicPartition, path: str, data: bytes) -> None:
        stat = self.ensemble.stat(path)
        assert stat is not None
        state = znodes.read(data, lambda value: znodes.parse_partition_state(value, stat.version))
        before = self.states.get(key)
        self.states[key] = state
        self.tell(
            f"{key[0]}-{key[1]}: leader {state.leader} in epoch {state.leader_epoch}, in sync "
            f"{list(state.in_sync_replicas)}"
        )
        if before is not None and before.partition_epoch < state.partition_epoch:
            if state.leader_epoch < before.leader_epoch or state.controller_epoch < before.controller_epoch:
                raise Violation(f"{key[0]}-{key[1]}: an epoch went back in ZooKeeper, {before} to {state}")
            if state.leader != before.leader and state.leader_epoch == before.leader_epoch:
                raise Violation(f"{key[0]}-{key[1]}: two leaders in one epoch in ZooKeeper, {before} to {state}")

    # The end

    def heal(self) -> None:
        """Everything works from now on."""
        network = self.network
        network.heal_all()
        network.slow_rate = 0.0
        self.ensemble.start()
        for broker in self.brokers.values():
            broker.sync_delay_ms = broker.usual_sync_delay_ms
            broker.files.kill_at = None
            broker.files.full_during = range(0)
            broker.files.fail_at.clear()
            broker.resume()
            broker.heal_zookeeper()
            if broker.had_full_disk:
                # A replica that could not be made is offline until the broker starts again.
                broker.kill()
            broker.start_if_not_running()

    @property
    def is_complete(self) -> bool:
        """Whether all brokers that there are to be are members, and stay so: none was told to stop."""
        return all(broker.is_registered and not broker.is_stopping for broker in self.members)

    @property
    def is_whole(self) -> bool:
        """Whether all replicas are in sync, and know it, and all that was written is committed everywhere."""
        if any(topic in self.deleted for topic, _ in self.assignments) or self.leftovers:
            return False
        for key, assignment in self.assignments.items():
            state = self.states.get(key)
            if state is None or assignment.is_being_reassigned:
                return False
            ends = set()
            for broker_id in assignment.replicas:
                broker = self.brokers[broker_id]
                partition = None if broker.node is None else broker.node.partitions.find(*key)
                if partition is None or partition.is_leader != (broker.broker_id == state.leader):
                    return False
                if partition.leader_epoch != state.leader_epoch:
                    return False
                ends |= {partition.high_watermark, partition.log.log_end_offset}
            if len(ends) != 1 or set(state.in_sync_replicas) != set(assignment.replicas):
                return False
        return True

    @property
    def leftovers(self) -> list[str]:
        """Logs of topics that are gone. (As in Kafka, a broker that was away when a partition moved keeps its log.)"""
        return [
            f"{broker.host} has {topic}-{partition}"
            for broker in self.brokers.values()
            if broker.node is not None
            for topic, partition in set(broker.node.storage.log_directories.keys())
            if (topic, partition) not in self.assignments
        ]

    def check_convergence(self) -> None:
        for key, assignment in self.assignments.items():
            replicas = []
            for broker_id in assignment.replicas:
                node = self.brokers[broker_id].node
                assert node is not None
                partition = node.partitions.find(*key)
                assert partition is not None
                replicas.append((broker_id, partition))
            self.checker.converged(key, replicas)

    def check_quiet(self) -> None:
        """While nobody writes, followers ask for what may come, and are not told at once that there is nothing."""
        before = self.network.requests.copy()
        self.world.run(_QUIET_MS)
        for (client, server, api), count in (self.network.requests - before).items():
            if api == FETCH and "fetcher" in client and count > _QUIET_FETCHES:
                raise Violation(f"{client} fetched {count} times from {server} in {_QUIET_MS} ms, though nothing came")

    def describe(self) -> list[str]:
        """How it stands, for whoever looks for why."""
        lines = self.leftovers
        for key in self.assignments:
            lines.append(f"{key[0]}-{key[1]} in ZooKeeper: {self.states.get(key)}")
            for broker in self.brokers.values():
                partition = None if broker.node is None else broker.node.partitions.find(*key)
                if partition is None:
                    lines.append(f"  {broker.host}: {'nothing' if broker.node else 'not running'}")
                else:
                    role = "leads" if partition.is_leader else "follows"
                    lines.append(
                        f"  {broker.host}: {role} in epoch {partition.leader_epoch}, log "
                        f"{partition.log.log_start_offset}..{partition.log.log_end_offset}, high watermark "
                        f"{partition.high_watermark}"
                    )
        return lines
