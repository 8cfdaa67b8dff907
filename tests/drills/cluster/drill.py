"""One drill: load, a fault and its repair as a story tells them, then the verdict and the times in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.drills.cluster.load import (
    KINDS,
    Kind,
    LiveReader,
    LoadProducer,
    Outcome,
    client,
    differing_replicas,
    verify,
)
from tests.drills.cluster.systems import BrokerServer, Cluster, PartitionState
from tests.drills.reading import DEADLINE_S, Place
from tests.waiting import wait_until

PARTITIONS: Final = 6
_WARM_UP_S: Final = 3.0
_SETTLE_S: Final = 2.0
_ELECTED_WITHIN_S: Final = 60.0
_WHOLE_WITHIN_S: Final = 180.0


class Watcher:
    """Keeps looking at what ZooKeeper says of the partitions, in a thread of its own."""

    def __init__(self, cluster: Cluster, places: Sequence[Place]) -> None:
        self.states: dict[Place, PartitionState] = {}
        self._cluster = cluster
        self._places = places
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.02):
            states = {place: self._cluster.partition_state(*place) for place in self._places}
            self.states = {place: state for place, state in states.items() if state is not None}

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def all_led_by_others(self, brokers: Collection[int]) -> bool:
        return len(self.states) == len(self._places) and all(
            state.leader >= 0 and state.leader not in brokers for state in self.states.values()
        )

    def all_in_sync(self, replicas: int) -> bool:
        return len(self.states) == len(self._places) and all(
            state.leader >= 0 and len(state.in_sync_replicas) == replicas for state in self.states.values()
        )

    def leaders(self) -> list[int]:
        return [state.leader for state in self.states.values()]


@dataclass(slots=True)
class Report:
    name: str
    outcomes: list[Outcome] = field(default_factory=list)
    election_s: float | None = None
    """From the fault until every partition has a leader that is not at fault; None where that is not looked for."""
    full_isr_s: float | None = None
    """From the repair until every replica of every partition is in sync."""
    violations: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        return not self.violations and not any(outcome.violations for outcome in self.outcomes)


class Drill:
    """What a story has to work with. It breaks things and calls `fault`, repairs them and calls `repair`."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        records_per_s: int,
        kinds: Sequence[Kind] = KINDS,
        warm_up_s: float = _WARM_UP_S,
    ) -> None:
        self.cluster = cluster
        self.report = Report(name)
        self._topics = {f"{name}-{kind.name}": kind for kind in kinds}
        self.places: list[Place] = [(topic, number) for topic in self._topics for number in range(PARTITIONS)]
        self._records_per_s = records_per_s
        self._warm_up_s = warm_up_s
        self._fault_s = 0.0
        self._repair_s = 0.0
        self._admin = AdminClient(client(cluster.bootstrap_servers))

    def run(self, story: Callable[[Drill], None], leading: Sequence[int]) -> Report:
        """Topics whose partitions are led by the brokers `leading` in turn."""
        cluster = self.cluster
        self._make_topics(leading)
        self.watcher = Watcher(cluster, self.places)
        producers: list[LoadProducer] = []
        try:
            wait_until(partial(self.watcher.all_in_sync, len(cluster.brokers)), "new topics are whole", _WHOLE_WITHIN_S)
            servers = cluster.bootstrap_servers
            reader = LiveReader(servers, self.places)
            reader.start()
            for topic, kind in self._topics.items():
                producers.append(LoadProducer(kind, topic, PARTITIONS, servers, self._records_per_s))
                producers[-1].start()
            time.sleep(self._warm_up_s)
            began_s = self._fault_s = self._repair_s = time.monotonic()
            story(self)
            self.await_full_isr()
            time.sleep(_SETTLE_S)
            ended_s = time.monotonic()
            for producer in producers:
                producer.finish()
            reader.finish()
            self.report.outcomes = verify(
                producers, reader, servers, (began_s, ended_s), next(iter(cluster.brokers.values())).log_dir
            )
            self._compare_replicas()
        finally:
            for producer in producers:
                producer.abandon()
            self.watcher.close()
        return self.report

    # For stories.

    def broker(self, *, is_controller: bool) -> BrokerServer:
        """One that leads partitions, and is the controller or not."""
        leaders = self.watcher.leaders()
        controller = self.cluster.controller_id()
        found = [b for b in self.cluster.brokers.values() if (b.broker_id == controller) == is_controller]
        return max(found, key=lambda broker: leaders.count(broker.broker_id))

    def others(self, broker: BrokerServer) -> list[BrokerServer]:
        return [other for other in self.cluster.brokers.values() if other is not broker]

    def fault(self) -> None:
        """It happens now."""
        self._fault_s = time.monotonic()

    def repair(self) -> None:
        """The cause of the fault goes now."""
        self._repair_s = time.monotonic()

    def await_election(self, *brokers: BrokerServer) -> None:
        """Until others than these lead all partitions; the time since the fault is taken down."""
        ids = {broker.broker_id for broker in brokers}
        wait_until(partial(self.watcher.all_led_by_others, ids), f"others than {ids} lead", _ELECTED_WITHIN_S)
        self.report.election_s = time.monotonic() - self._fault_s

    def await_full_isr(self) -> None:
        """The time since the repair is taken down."""
        is_whole = partial(self.watcher.all_in_sync, len(self.cluster.brokers))
        wait_until(is_whole, "all replicas are in sync", _WHOLE_WITHIN_S)
        self.report.full_isr_s = time.monotonic() - self._repair_s

    def hold(self, seconds: float) -> None:
        time.sleep(seconds)

    def remark(self, text: str) -> None:
        self.report.remarks.append(text)

    def require(self, is_so: bool, else_: str) -> None:
        if not is_so:
            self.report.violations.append(else_)

    # The rest.

    def _make_topics(self, leading: Sequence[int]) -> None:
        ids = list(self.cluster.brokers)
        assignment = []
        for number in range(PARTITIONS):
            leader = leading[number % len(leading)]
            others = [broker_id for broker_id in ids if broker_id != leader]
            turn = number % max(1, len(others))
            assignment.append([leader, *others[turn:], *others[:turn]])
        topics = [NewTopic(topic, PARTITIONS, replica_assignment=assignment) for topic in self._topics]
        for future in self._admin.create_topics(topics).values():
            future.result(DEADLINE_S)

    def _compare_replicas(self) -> None:
        log_dirs = {broker.broker_id: broker.log_dir for broker in self.cluster.brokers.values()}
        try:
            wait_until(lambda: not differing_replicas(log_dirs, self.places), "replicas are the same", DEADLINE_S)
        except TimeoutError:
            self.report.violations.append(f"replicas differ: {', '.join(differing_replicas(log_dirs, self.places))}")
