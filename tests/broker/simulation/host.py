"""Histories of one broker of several processes: its parent and its processes die in any order, and N changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from highwater.broker.cluster import znodes
from highwater.broker.settings import metadata_tree
from tests.broker.simulation.broker import SimulatedBroker
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.history import History
from tests.broker.simulation.parent import Parent

_PROPERTIES: Final = {"min.insync.replicas": "1", "default.replication.factor": "1"}
_OF_PROCESSES: Final = {"offsets.topic.replication.factor": "1"}
MOST_PROCESSES: Final = 4
_LOOK_MS: Final = 50


class _ChildProcess(SimulatedBroker):
    """Its parent alone starts it."""

    def start_if_not_running(self) -> None:
        """Nothing to do: its parent has seen its end."""


class HostCluster(Cluster):
    """Brokers 1 to N are the processes of one host. Replicas are one, unless a topic asks for more."""

    def __init__(self, seed: int, *, processes: int, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(seed, brokers=processes, properties=_PROPERTIES | _OF_PROCESSES | dict(properties or {}))

    def _make_ensemble(self, count: int) -> Parent:
        self.parent = parent = Parent(self.world, count)
        parent.has_begun = self._begin
        parent.has_ended = self._end
        parent.start_process = self._start_process
        return parent

    def _make_brokers(self, count: int) -> dict[int, SimulatedBroker]:
        return {
            broker_id: _ChildProcess(broker_id, self.world, self.network, self.ensemble, self.properties)
            for broker_id in range(1, MOST_PROCESSES + 1)
        }

    @property
    def members(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.broker_id <= self.parent.count]

    def start(self) -> None:
        self.parent.start()

    def stop(self) -> None:
        """SIGTERM to the parent: the processes, the controller among them last, and then the tree."""
        parent, life = self.parent, self.parent.life
        if life is None or parent.is_stopping:
            return
        parent.is_stopping = True
        controller = self.controller_id

        def stop(brokers: list[SimulatedBroker], then: Callable[[], None]) -> None:
            if parent.life is not life:
                return
            running = [broker for broker in brokers if broker.is_running]
            for broker in running:
                broker.stop()
            if running:
                self.world.call_later(_LOOK_MS, lambda: stop(brokers, then))
            else:
                then()

        first = [broker for broker in self.members if broker.broker_id != controller]
        stop(first, lambda: stop(self.members, parent.kill))

    @property
    def controller_id(self) -> int:
        data = self.parent.data(znodes.CONTROLLER)
        return -1 if data is None else znodes.read(data, znodes.parse_controller)

    def heal(self) -> None:
        parent = self.parent
        parent.sync_delay_ms = parent.usual_sync_delay_ms
        parent.files.kill_at = None
        parent.files.full_during = range(0)
        parent.resume()
        super().heal()

    def _begin(self) -> None:
        """The tree is there again, as it was last answered: what is known of topics may be older than what was seen."""
        self.states.clear()
        self.assignments.clear()
        for path, node in list(self._nodes().items()):
            if path.startswith(f"{metadata_tree.TOPICS}/"):
                self._znode_changed(path, node)
        for broker in self.members:
            broker.start()

    def _nodes(self) -> dict[str, bytes]:
        life = self.parent.life
        assert life is not None
        return {path: node.data for path, node in life.tree.nodes.items()}

    def _end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def _start_process(self, name: str) -> None:
        (broker,) = (broker for broker in self.members if broker.host == name)
        if not broker.is_running:
            self.tell(f"the parent starts {name} again")
            broker.start()


class HostHistory(History):
    may_have_acls = False  # the tree of the parent has other hands than those that write them here
    may_have_members = False
    cluster: HostCluster

    def _make_cluster(self, brokers: int, properties: Mapping[str, str], *, may_lose: bool) -> HostCluster:
        processes = self.rng.randint(2, MOST_PROCESSES)
        self.replica_count = min(self.rng.choice((1, 1, 2, 3)), processes)
        kept = {name: text for name, text in properties.items() if name != "unclean.leader.election.enable"}
        return HostCluster(self.seed, processes=processes, properties=kept)

    def _faults(self) -> list[Callable[[], None]]:
        return [
            *([self._kill] * 4),
            *([self._kill_several] * 2),
            *([self._kill_parent] * 4),
            *([self._kill_parent_at_its_disk] * 2),
            self._stop,
            *([self._stop_parent] * 2),
            *([self._pause] * 2),
            self._pause_parent,
            self._slow_disk,
            self._slow_journal,
            self._full_disk,
            self._full_disk_of_parent,
            self._kill_at_disk_operation,
            self._expire_session,
            self._prefer,
            self._delete_controller,
            *([self._create_topic] * 2),
            self._delete_topic,
            *([self._reassign] * 3),
            *([self._cut_power_of_all] * 3 if self.is_durable else []),
        ]

    @property
    def _parent(self) -> Parent:
        return self.cluster.parent

    def _start(self, broker: SimulatedBroker) -> None:
        """The parent does it."""

    def _replicas(self) -> list[int]:
        """Sometimes on the first processes alone, so that there can be fewer."""
        ids = [broker.broker_id for broker in self.cluster.members]
        count = min(self.replica_count, len(ids))
        if self.rng.random() < 0.4:
            ids = ids[: self.rng.randint(count, len(ids))]
        return self.rng.sample(ids, count)

    def _start_parent_later(self) -> None:
        """Often with another number of processes."""
        count = self.rng.randint(2, MOST_PROCESSES) if self.rng.random() < 0.4 else None
        self._later(lambda: self._parent.start(count))

    def _kill_several(self) -> None:
        victims = [broker for broker in self.cluster.members if self.rng.random() < 0.7]
        self.rng.shuffle(victims)
        for broker in victims:
            self._tell(f"kill -9 of {broker.host}")
            broker.kill()
            if self.rng.random() < 0.5:
                self.cluster.world.run(self.rng.randint(0, 100))

    def _kill_parent(self) -> None:
        if self._parent.life is not None:
            self._tell("kill -9 of the parent")
            self._parent.kill()
            self._start_parent_later()

    def _kill_parent_at_its_disk(self) -> None:
        parent = self._parent
        if parent.life is not None:
            self._tell("the parent will die at its disk")
            parent.files.kill_at = parent.files.changes_made + self.rng.randint(1, 30)
            self._start_parent_later()

    def _stop_parent(self) -> None:
        if self._parent.is_up:
            self._tell("stop of the parent")
            self.cluster.stop()

            def start() -> None:
                if self._parent.life is None:
                    self._start_parent_later()
                else:
                    self._later(start)

            self._later(start)

    def _pause_parent(self) -> None:
        parent = self._parent
        if parent.is_up:
            self._tell("pause of the parent")
            parent.pause()

            def resume() -> None:
                self._tell("the parent goes on")
                parent.resume()

            self._later(resume)

    def _slow_journal(self) -> None:
        parent = self._parent
        self._tell("the disk of the journal is slow")
        parent.sync_delay_ms = self.rng.choice((50, 500, 2500))

        def over() -> None:
            parent.sync_delay_ms = parent.usual_sync_delay_ms

        self._later(over)

    def _full_disk_of_parent(self) -> None:
        parent = self._parent
        if parent.life is None:
            return  # a start on a full disk is refused
        self._tell("the disk of the journal is full")
        made = parent.files.changes_made
        parent.files.full_during = range(made, made + self.rng.randint(1, 50))

        def over() -> None:
            parent.files.full_during = range(0)

        self._later(over)

    def _cut_power_of_all(self) -> None:
        self._tell("power cut of the host")
        self._parent.cut_power()
        for broker in self.cluster.brokers.values():
            broker.cut_power()
        self._start_parent_later()
