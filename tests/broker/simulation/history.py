"""One history: a cluster under load to which a seed does what real clusters suffer, and the verdict on it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from random import Random
from typing import Final, NamedTuple
from unittest.mock import patch

from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import Delete
from highwater.broker.group.consumer import parts
from tests.broker.simulation.access import Access
from tests.broker.simulation.broker import SimulatedBroker
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.clients import Consumer, Producer, ProducerSettings
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.committer import Committer
from tests.broker.simulation.group_life import PROPERTIES as GROUP_PROPERTIES
from tests.broker.simulation.group_life import GroupLife
from tests.broker.simulation.zookeeper import Ensemble

_TOPIC: Final = "t"
_REPLICAS: Final = 3
_START_MS: Final = 20_000
_SETTLE_MS: Final = 120_000
"""How long a cluster that is healed may take until it is whole again; simulated time costs little."""


class Verdict(NamedTuple):
    seed: int
    failure: str | None
    """What went wrong; None if nothing did."""
    history: list[str]
    events: int
    acknowledged: int
    elections: int
    lost: int
    simulated_ms: int


class _Bugs(logging.Handler):
    """Code that carries on after a mistake of ours says so to the log: here that is a failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}\n{''.join(traceback.format_exception(*record.exc_info))}")


class _Logged(logging.Handler):
    """What brokers log, in the history; for replays."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(logging.INFO)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        running = self._cluster.world.running
        who = "" if running is None else f"{running.name}: "
        self._cluster.tell(f"    {who}{record.getMessage()}")


class History:
    may_have_acls = True
    may_have_members = True

    def __init__(
        self,
        seed: int,
        *,
        is_durable: bool | None = None,
        has_acls: bool | None = None,
        has_members: bool | None = None,
        has_classic_members: bool | None = None,
        has_admin: bool = False,
        is_told_at_once: bool = False,
    ) -> None:
        """A durable one acknowledges what is flushed, and suffers power cuts; a seed decides unless it is said.

        One with ACLs has an authorizer, and users whose rights change. One with members has a group
        of consumers (KIP-848), which may have classic members too, and an administrator.
        """
        self.seed = seed
        self.rng = rng = Random(seed * 7919 + 1)
        """Of what is done to the cluster; its world has one of its own."""
        chance = rng.random()
        self.is_durable = chance < 0.25 if is_durable is None else is_durable
        may_lose = rng.random() < 0.1
        properties = {"log.flush.interval.messages": "1"} if self.is_durable else {}
        if rng.random() < 0.3:
            properties["min.insync.replicas"] = "1"
        if may_lose:
            properties["unclean.leader.election.enable"] = "true"
        if rng.random() < 0.2:
            properties |= {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "5"}
        # Of ACLs alone, so that all else in a history of a seed is the same with them and without.
        access_rng = Random(seed * 104_729 + 3)
        if self.may_have_acls and ((access_rng.random() < 0.2) if has_acls is None else has_acls):
            properties |= Access.properties(access_rng)
        # The same for the group.
        group_rng = Random(seed * 15_485_863 + 5)
        if has_members := self._has_members(group_rng, has_members, properties):
            properties |= GROUP_PROPERTIES
        mixing_rng = Random(seed * 32_452_843 + 7)
        is_mixed = (mixing_rng.random() < 0.75) if has_classic_members is None else has_classic_members
        if has_members and is_mixed and mixing_rng.random() < 0.2:
            properties["group.consumer.migration.policy"] = "upgrade"
        self._are_batches_small = has_members and Random(seed * 49_979_687 + 11).random() < 0.25
        """Whether what a group appends is cut into as many batches as there can be."""
        brokers = 4 if rng.random() < 0.3 else 3
        self.replica_count = _REPLICAS
        self.cluster = self._make_cluster(brokers, properties, may_lose=may_lose)
        self.cluster.world.is_told_at_once = is_told_at_once
        self.access = Access(self.cluster, access_rng) if "authorizer.class.name" in properties else None
        self.group = None
        if has_members:
            admin_rng = Random(seed * 67_867_967 + 13) if has_admin else None
            self.group = GroupLife(self.cluster, group_rng, mixing_rng if is_mixed else None, admin_rng)
        network = self.cluster.network
        network.max_delay_ms = rng.choice((1, 2, 5, 20))
        network.slow_rate, network.slow_ms = rng.choice(((0.0, 0), (0.01, 50), (0.05, 400)))
        for broker in self.cluster.brokers.values():
            broker.sync_delay_ms = broker.usual_sync_delay_ms = rng.choice((1, 1, 5, 30, 300))
        self.partition_count = rng.randint(1, 2)
        self.side_topics: list[str] = []
        """Nobody uses them: they come and go."""
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.committer: Committer | None = None
        self.faults = self._faults()

    def _has_members(self, rng: Random, is_wanted: bool | None, properties: Mapping[str, str]) -> bool:
        """Members have no rights to grant here: a cluster with an authorizer has none."""
        may = self.may_have_members and "authorizer.class.name" not in properties
        return may and ((rng.random() < 0.2) if is_wanted is None else is_wanted)

    def _make_cluster(self, brokers: int, properties: Mapping[str, str], *, may_lose: bool) -> Cluster:
        return Cluster(self.seed, brokers=brokers, properties=properties, may_lose=may_lose)

    def _faults(self) -> list[Callable[[], None]]:
        return [
            *([self._kill] * 4),
            *([self._stop] * 2),
            *([self._pause] * 2),
            *([self._cut_pair] * 2),
            *([self._isolate] * 2),
            *([self._cut_from_zookeeper] * 2),
            self._reject,
            self._break_connections,
            self._slow_network,
            self._slow_disk,
            self._full_disk,
            self._kill_at_disk_operation,
            self._jump_clock,
            self._stop_zookeeper,
            self._expire_session,
            self._prefer,
            self._kill_all,
            self._delete_controller,
            self._create_topic,
            self._delete_topic,
            *([self._reassign] * 2),
            *([self._cut_power] * 3 + [self._cut_power_of_all] if self.is_durable else []),
        ]

    def run(self, duration_ms: int = 15_000) -> Verdict:
        bugs = _Bugs()
        logger = logging.getLogger("highwater.broker")
        logger.addHandler(bugs)
        failure = None
        try:
            with (
                nullcontext() if self.access is None else self.access.audited(),
                patch.object(parts, "MOST_BYTES", 0) if self._are_batches_small else nullcontext(),
            ):
                self._run(duration_ms, bugs)
        except Violation as violation:
            failure = str(violation)
        except Exception:
            failure = traceback.format_exc()
        finally:
            logger.removeHandler(bugs)
        if failure is None and bugs.found:
            failure = bugs.found[0]
        if failure is not None:
            self.cluster.tell(f"FAILED: {failure}")
        cluster = self.cluster
        return Verdict(
            self.seed,
            failure,
            cluster.world.history,
            cluster.world.events_run,
            sum(producer.acknowledged for producer in self.producers),
            cluster.checker.elections,
            sum(partition.lost for partition in cluster.checker.partitions.values()),
            cluster.world.now_ms,
        )

    def _run(self, duration_ms: int, bugs: _Bugs) -> None:
        cluster, rng, world = self.cluster, self.rng, self.cluster.world
        cluster.start()
        if not world.run(_START_MS, lambda: all(broker.is_registered for broker in cluster.members)):
            raise Violation("the cluster does not start")
        cluster.create_topic(_TOPIC, [self._replicas() for _ in range(self.partition_count)])
        if not world.run(_START_MS, lambda: cluster.is_whole):
            raise Violation("the topic does not come into being: " + "; ".join(cluster.describe()))
        self._start_clients()
        end_ms = world.now_ms + duration_ms
        while world.now_ms < end_ms and not bugs.found:
            world.run(rng.choice((50, 200, 500, 1000, 2500)))
            if self.access is not None:
                self.access.check()
            if self.group is not None:
                self.group.befall()
            if rng.random() < 0.5:
                rng.choice(self.faults)()
        world.run(rng.randint(0, 3000))
        cluster.tell("everything is healed")
        cluster.heal()
        for producer in self.producers:
            producer.is_stopped = True
        if self.committer is not None:
            self.committer.stop_after_next()
        if self.access is not None:
            self.access.stop()
        if self.group is not None:
            self.group.stop()
        clients: list[Producer | Committer] = [*self.producers, *([self.committer] if self.committer else [])]

        def is_settled() -> bool:
            if bugs.found:
                return True
            is_quiet = all(client.is_idle for client in clients) and cluster.is_complete and cluster.is_whole
            has_settled = self.group is None or self.group.why_not_at_rest is None
            return is_quiet and has_settled and (self.access is None or self.access.is_settled)

        if not world.run(_SETTLE_MS, is_settled):
            busy = [client.name for client in clients if not client.is_idle]
            group = f"the group: {self.group.why_not_at_rest}; " if self.group is not None else ""
            raise Violation(f"not whole again; still sending: {busy}; {group}" + "; ".join(cluster.describe()))
        if bugs.found:
            return
        self._read_to_the_end()
        cluster.check_convergence()
        cluster.check_quiet()
        if self.access is not None:
            self.access.check_convergence()
        if self.group is not None:
            self.group.check_convergence()

    def _start_clients(self) -> None:
        rng, flight_rng = self.rng, Random(self.seed * 49_979_687 + 9)
        for number in range(rng.randint(1, 3)):
            acks = rng.choice((-1, -1, -1, 1, 0))
            settings = ProducerSettings(
                acks,
                is_idempotent=acks == -1 and rng.random() < 0.7,
                interval_ms=rng.choice((20, 60, 150)),
                in_flight=flight_rng.choice((1, 2, 5)),
                shares_requests=flight_rng.random() < 0.4,
            )
            self.producers.append(Producer(self.cluster, number, settings))
        if rng.random() < 0.5:
            self.committer = Committer(self.cluster, (_TOPIC, 0))
        for partition in range(self.partition_count):
            self.consumers.append(Consumer(self.cluster, partition, (_TOPIC, partition)))
        if self.access is not None:
            self.access.start()
        if self.group is not None:
            self.group.start(self._replicas)

    def _read_to_the_end(self) -> None:
        ends = {key: self.cluster.checker.partition(key).end_offset for key in self.cluster.keys}
        if not self.cluster.world.run(
            10_000, lambda: all(consumer.position >= ends[consumer.key] for consumer in self.consumers)
        ):
            at = [f"{consumer.key}: {consumer.position} of {ends[consumer.key]}" for consumer in self.consumers]
            raise Violation(f"consumers do not come to the end: {at}")

    # What befalls the cluster

    def _later(self, what: Callable[[], None], *, at_most_ms: int = 8000) -> None:
        delay_ms = self.rng.randint(10, self.rng.choice((200, 1000, 4000, at_most_ms)))
        self.cluster.world.call_later(delay_ms, what)

    def _a_broker(self) -> SimulatedBroker | None:
        running = [broker for broker in self.cluster.brokers.values() if broker.is_running]
        return self.rng.choice(running) if running else None

    def _tell(self, text: str) -> None:
        self.cluster.tell(f"> {text}")

    def _kill(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"kill -9 of {broker.host}")
            broker.kill()
            self._later(lambda: self._start(broker))

    def _start(self, broker: SimulatedBroker) -> None:
        if not broker.is_running:
            self._tell(f"start of {broker.host}")
            broker.start()

    def _kill_all(self) -> None:
        self._tell("kill -9 of all brokers")
        for broker in self.cluster.brokers.values():
            broker.kill()
            self._later(lambda broker=broker: self._start(broker))  # type: ignore[misc]

    def _stop(self) -> None:
        broker = self._a_broker()
        if broker is not None and not broker.is_stopping:
            self._tell(f"stop of {broker.host}")
            broker.stop()

            def start() -> None:
                if broker.is_stopping and broker.is_running:
                    self._later(start)
                else:
                    self._start(broker)

            self._later(start)

    def _pause(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"pause of {broker.host}")
            broker.pause()
            process = broker.process

            def resume() -> None:
                if broker.process is process and process.is_paused:
                    self._tell(f"{broker.host} goes on")
                    broker.resume()

            self._later(resume)

    def _cut(self, sender: str, receiver: str) -> None:
        network = self.cluster.network
        network.cut(sender, receiver)

        def heal() -> None:
            self._tell(f"{sender} reaches {receiver} again")
            network.heal(sender, receiver)

        self._later(heal)

    def _cut_pair(self) -> None:
        sender, receiver = self.rng.sample([broker.host for broker in self.cluster.brokers.values()], 2)
        both = self.rng.random() < 0.5
        self._tell(f"cut from {sender} to {receiver}" + (" and back" if both else ""))
        self._cut(sender, receiver)
        if both:
            self._cut(receiver, sender)

    def _isolate(self) -> None:
        broker = self._a_broker()
        if broker is None:
            return
        with_zookeeper = self.rng.random() < 0.5
        self._tell(f"{broker.host} is cut from all brokers" + (" and ZooKeeper" if with_zookeeper else ""))
        for other in self.cluster.brokers.values():
            if other is not broker:
                self._cut(broker.host, other.host)
                self._cut(other.host, broker.host)
        if with_zookeeper:
            broker.cut_from_zookeeper()
            self._later(broker.heal_zookeeper)

    def _cut_from_zookeeper(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"{broker.host} is cut from ZooKeeper")
            broker.cut_from_zookeeper()

            def heal() -> None:
                self._tell(f"{broker.host} reaches ZooKeeper again")
                broker.heal_zookeeper()

            self._later(heal)

    def _reject(self) -> None:
        broker, network = self._a_broker(), self.cluster.network
        if broker is not None:
            self._tell(f"a firewall rejects what is sent to {broker.host}")
            network.reject(broker.host)

            def accept() -> None:
                self._tell(f"the firewall before {broker.host} is open")
                network.reject_no_more(broker.host)

            self._later(accept)

    def _break_connections(self) -> None:
        self._tell("connections break")
        self.cluster.network.break_some(self.rng.random())
        for broker in self.cluster.brokers.values():
            if broker.zookeeper is not None and self.rng.random() < 0.3:
                broker.zookeeper.lose_connection()

    def _slow_network(self) -> None:
        network = self.cluster.network
        before = network.slow_rate, network.slow_ms
        self._tell("the network is slow")
        network.slow_rate, network.slow_ms = 0.3, 1000

        def over() -> None:
            network.slow_rate, network.slow_ms = before

        self._later(over)

    def _slow_disk(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"the disk of {broker.host} is slow")
            broker.sync_delay_ms = self.rng.choice((50, 500, 2500))

            def over() -> None:
                broker.sync_delay_ms = broker.usual_sync_delay_ms

            self._later(over)

    def _full_disk(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"the disk of {broker.host} is full")
            made = broker.files.changes_made
            broker.files.full_during = range(made, made + self.rng.randint(1, 200))
            broker.had_full_disk = True

            def over() -> None:
                broker.files.full_during = range(0)

            self._later(over)

    def _kill_at_disk_operation(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"{broker.host} will die at its disk")
            broker.files.kill_at = broker.files.changes_made + self.rng.randint(1, 100)
            self._later(lambda: self._start(broker))

    def _jump_clock(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            broker.set_clock(self.rng.choice((-3_600_000, -500, 500, 3_600_000)))
            self._tell(f"the clock of {broker.host} jumps to {broker.skew_ms} ms")

    def _stop_zookeeper(self) -> None:
        ensemble = self.cluster.ensemble
        assert isinstance(ensemble, Ensemble)
        self._tell("ZooKeeper is down")
        ensemble.stop()

        def start() -> None:
            self._tell("ZooKeeper is up")
            ensemble.start()

        self._later(start)

    def _expire_session(self) -> None:
        broker = self._a_broker()
        if broker is not None and broker.zookeeper is not None:
            self._tell(f"the session of {broker.host} is ended")
            self.cluster.ensemble.expire(broker.zookeeper.session_id)

    def _prefer(self) -> None:
        self._tell("preferred leaders are to be elected")
        value = znodes.encode(znodes.partitions_value(self.cluster.keys))
        if self.cluster.ensemble.is_up:
            self.cluster.ensemble.make(znodes.PREFERRED_REPLICA_ELECTION, value)

    def _create_topic(self) -> None:
        if self.cluster.ensemble.is_up:
            name = f"side{len(self.side_topics)}"
            self.side_topics.append(name)
            self._tell(f"{name} is created")
            self.cluster.create_topic(name, [self._replicas()], is_used=False)

    def _delete_topic(self) -> None:
        names = [name for name in self.side_topics if name not in self.cluster.deleted]
        if names and self.cluster.ensemble.is_up:
            name = self.rng.choice(names)
            self.cluster.deleted.add(name)
            self._tell(f"{name} is to be deleted")
            self.cluster.ensemble.make(znodes.delete_topic_path(name))

    def _reassign(self) -> None:
        ensemble = self.cluster.ensemble
        if ensemble.is_up and ensemble.stat(znodes.REASSIGN_PARTITIONS) is None:
            key, replicas = self.rng.choice(self.cluster.keys), self._replicas()
            self._tell(f"{key[0]}-{key[1]} shall move to {replicas}")
            ensemble.make(znodes.REASSIGN_PARTITIONS, znodes.encode(znodes.reassignment_value({key: replicas})))

    def _replicas(self) -> list[int]:
        return self.rng.sample([broker.broker_id for broker in self.cluster.members], self.replica_count)

    def _delete_controller(self) -> None:
        if self.cluster.ensemble.is_up:
            self._tell("/controller is deleted by hand")
            self.cluster.ensemble.do(Delete(znodes.CONTROLLER))

    def _cut_power_of_all(self) -> None:
        self._tell("power cut of all brokers")
        for broker in self.cluster.brokers.values():
            broker.cut_power()
            self._later(lambda broker=broker: self._start(broker))  # type: ignore[misc]

    def _cut_power(self) -> None:
        broker = self._a_broker()
        if broker is not None:
            self._tell(f"power cut of {broker.host}")
            broker.cut_power()
            self._later(lambda: self._start(broker))


def replay(history: History, *, is_verbose: bool) -> Verdict:
    """Run one history, which tells it as it goes."""
    logged = _Logged(history.cluster)
    logger = logging.getLogger("highwater.broker")
    if is_verbose:
        logger.setLevel(logging.INFO)
        logger.addHandler(logged)
    try:
        return history.run()
    finally:
        logger.removeHandler(logged)
