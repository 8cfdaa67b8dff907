"""Controllers on a ZooKeeper in memory, and brokers that do nothing but note what they are told and answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import Endpoint, OnBreak, PeerFailure
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from highwater.broker.cluster.zookeeper import Create, Created, WatchEvent, run
from highwater.broker.controller.controller import Controller
from highwater.broker.member.member import take_up_cluster
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.broker.topics.topic import random_topic_id
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import api_of
from highwater.kafka.protocol.frame import Parts
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

LISTENER = "PLAINTEXT"
SESSION_TIMEOUT_MS = 6000

Then = Callable[[memoryview | PeerFailure], None]


class FakeBroker:
    """One process at one endpoint."""

    def __init__(self, broker_id: int, scheduler: ManualScheduler) -> None:
        self.broker_id = broker_id
        self.scheduler = scheduler
        self.is_listening = True
        self.is_rejecting = False
        self.is_stopped = False
        """As by SIGSTOP: it accepts and does not answer."""
        self.told: list[tuple[str, Any]] = []
        """Every request that came, by the name of its API."""
        self.failed: set[TopicPartition] = set()
        """What is on a failed log directory."""
        self.undeletable: set[TopicPartition] = set()
        self.states: dict[TopicPartition, Any] = {}
        """What LeaderAndIsr told, last."""
        self.metadata: dict[TopicPartition, Any] = {}
        self.live_brokers: list[int] = []
        self.connections: list[FakePeer] = []

    def info(self) -> BrokerInfo:
        endpoint = Endpoint(LISTENER, "PLAINTEXT", "host", 9000 + self.broker_id)
        return BrokerInfo(self.broker_id, -1, (endpoint,), None)

    def handle(self, name: str, request: Any) -> cold.Answer:
        self.told.append((name, request))
        match name:
            case "leader_and_isr":
                return self._follow(request)
            case "update_metadata":
                self.live_brokers = [broker.id for broker in request.live_brokers]
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        self.metadata[topic.topic_name, state.partition_index] = state
                return {}
            case "stop_replica":
                return {"partition_errors": list(self._stop(request))}
        return {"api_keys": []}

    def _follow(self, request: Any) -> cold.Answer:
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                key = topic.topic_name, state.partition_index
                self.states[key] = state
                error = ErrorCode.kafka_storage_error if key in self.failed else ErrorCode.none
                errors.append({"partition_index": key[1], "error_code": error})
            topics.append({"topic_id": topic.topic_id, "partition_errors": errors})
        return {"topics": topics}

    def _stop(self, request: Any) -> Iterable[cold.Answer]:
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = topic.topic_name, state.partition_index
                self.states.pop(key, None)
                error = ErrorCode.kafka_storage_error if key in self.undeletable else ErrorCode.none
                yield {"topic_name": key[0], "partition_index": key[1], "error_code": error}

    def take(self) -> list[str]:
        """Which APIs it was asked since, apart from those that ask nothing."""
        names = [name for name, _ in self.told if name != "api_versions"]
        self.told.clear()
        return names

    def die(self) -> None:
        """As by SIGKILL: the port closes and connections break. The session is another matter."""
        self.is_listening = False
        for connection in list(self.connections):
            connection.break_off(PeerFailure.CLOSED)

    def reject(self) -> None:
        """A firewall resets connections by which something comes, and refuses new ones; the process lives."""
        self.is_rejecting = True
        self.is_listening = False

    def stop(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        self.is_stopped = False
        for connection in list(self.connections):
            connection.go_on()


class FakePeer:
    def __init__(self, broker: FakeBroker, on_break: OnBreak | None) -> None:
        self._broker = broker
        self._on_break = on_break
        self._waiting: list[tuple[int, int, bytes, Then]] = []
        self._is_closed = False
        self._is_connected = False

    def send(self, api_key: int, version: int, body: Parts, then: Then, *, timeout_ms: int) -> None:
        assert not self._is_closed
        self._waiting.append((api_key, version, b"".join(body), then))
        self._broker.scheduler.call_soon(self.go_on)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        if self in self._broker.connections:
            self._broker.connections.remove(self)

    def go_on(self) -> None:
        if not self._is_connected and self._broker.is_listening:
            self._is_connected = True
            self._broker.connections.append(self)
        if self._is_connected and self._broker.is_rejecting:
            self.break_off()
            return
        while self._waiting and not self._broker.is_stopped:
            api_key, version, body, then = self._waiting.pop(0)
            if not self._broker.is_listening:
                then(PeerFailure.REFUSED)
                continue
            api = api_of(api_key)
            decoder = Decoder(memoryview(body), 0, flexible=api.is_flexible(version))
            answer = self._broker.handle(api.name, cold.decode_request(api.name, version, decoder))
            then(memoryview(cold.encode_response(api.name, version, answer)))

    def break_off(self, failure: PeerFailure = PeerFailure.DISCONNECTED) -> None:
        self._is_connected = False
        self._broker.connections.remove(self)
        waiting, self._waiting = self._waiting, []
        for *_, then in waiting:
            then(failure)
        if (on_break := self._on_break) is not None:
            self._broker.scheduler.call_soon(lambda: on_break(failure))


class Host:
    """A broker's session with ZooKeeper, its registration, and its controller: what the member does."""

    def __init__(self, cluster: ControllerCluster, broker: FakeBroker) -> None:
        self.broker = broker
        self.epoch = -1
        self.session_id = 0
        self.zookeeper: SimulatedZooKeeper = cluster.ensemble.client(self, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.controller = Controller(
            broker_id=broker.broker_id,
            config=cluster.config,
            listener_name=LISTENER,
            zookeeper=self.zookeeper,
            peers=cluster,
            clock=cluster.clock,
            scheduler=cluster.scheduler,
            is_unclean_election_allowed=lambda overrides: overrides.get("unclean.leader.election.enable") == "true",
        )

    def session_began(self, session_id: int) -> None:
        self.session_id = session_id
        path = znodes.broker_path(self.broker.broker_id)
        value = znodes.encode(znodes.broker_value(self.broker.info(), 0))

        def registered(results: list[Any]) -> None:
            assert isinstance(results[0], Created), results
            self.epoch = results[0].stat.czxid
            self.controller.session_began(self.epoch)

        self.zookeeper.execute([Create(path, value, is_ephemeral=True)], registered)

    def session_ended(self) -> None:
        self.controller.session_ended()

    def connection_changed(self, is_connected: bool) -> None:
        pass

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        self.controller.watch_fired(path, event)


class ControllerCluster:
    """Also all that `Peers` needs to be."""

    def __init__(self, *broker_ids: int, settings: Mapping[str, str] | None = None) -> None:
        self.scheduler = ManualScheduler()
        self.clock = ManualClock()
        self.ensemble = Ensemble(self.scheduler)
        self.config = BrokerConfig([Setting("test", name, text) for name, text in (settings or {}).items()])
        self.brokers: dict[int, FakeBroker] = {}
        self.hosts: dict[int, Host] = {}
        self._prepare()
        for broker_id in broker_ids:
            self.start(broker_id)

    def _prepare(self) -> None:
        class Admin:
            def __init__(self, ensemble: Ensemble) -> None:
                self.client = ensemble.client(self)

            def session_began(self, session_id: int) -> None:
                run(self.client, take_up_cluster("cluster"))

            def session_ended(self) -> None: ...
            def connection_changed(self, is_connected: bool) -> None: ...
            def watch_fired(self, path: str, event: WatchEvent) -> None: ...

        Admin(self.ensemble)
        self.scheduler.run()

    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "", on_break: OnBreak | None = None
    ) -> FakePeer:
        return FakePeer(self.brokers[endpoint.port - 9000], on_break)

    # What happens

    def start(self, broker_id: int, *, is_listening: bool = True) -> Host:
        broker = self.brokers.setdefault(broker_id, FakeBroker(broker_id, self.scheduler))
        broker.is_listening = is_listening
        host = self.hosts[broker_id] = Host(self, broker)
        self.run()
        return host

    def end_session(self, broker_id: int) -> None:
        """The broker's process ends, and ZooKeeper knows."""
        self.end_process(broker_id)
        self.run()

    def end_process(self, broker_id: int) -> None:
        """The same, and what comes of it is still to come."""
        self.kill(broker_id)
        self.ensemble.expire(self.hosts[broker_id].session_id)

    def kill(self, broker_id: int) -> None:
        """The broker's process ends; its session stands until it expires."""
        host = self.hosts[broker_id]
        host.zookeeper.kill()
        host.controller.close()
        self.brokers[broker_id].die()

    def run(self, duration_ms: int = 0) -> None:
        """Let time pass, in steps that are short beside every time-out."""
        for _ in range(duration_ms // 50):
            self.scheduler.run(50)
        self.scheduler.run(duration_ms % 50)

    # What there is

    @property
    def controller(self) -> Controller:
        (active,) = [host.controller for host in self.hosts.values() if host.controller.is_active]
        return active

    def make_topic(self, name: str, assignment: Mapping[int, list[int]], **config: str) -> None:
        settings = {name.replace("_", "."): text for name, text in config.items()}
        self.ensemble.make(metadata_tree.topic_config_path(name), znodes.encode(metadata_tree.config_value(settings)))
        value = metadata_tree.topic_value(random_topic_id(), assignment)
        result = self.ensemble.do(Create(znodes.topic_path(name), znodes.encode(value)))
        assert isinstance(result, Created), result
        self.run()

    def assignment(self, name: str) -> dict[int, ReplicaAssignment]:
        data = self.ensemble.data(znodes.topic_path(name))
        assert data is not None
        return znodes.read(data, znodes.parse_assigned_topic)[1]

    def state(self, name: str, index: int = 0) -> LeaderAndIsr:
        path = znodes.partition_state_path(name, index)
        data, stat = self.ensemble.data(path), self.ensemble.stat(path)
        assert data is not None, path
        assert stat is not None
        return znodes.read(data, lambda value: znodes.parse_partition_state(value, stat.version))

    def leader(self, name: str, index: int = 0) -> int:
        return self.state(name, index).leader

    def in_sync(self, name: str, index: int = 0) -> tuple[int, ...]:
        return self.state(name, index).in_sync_replicas

    def take(self) -> dict[int, list[str]]:
        return {broker_id: broker.take() for broker_id, broker in self.brokers.items()}
