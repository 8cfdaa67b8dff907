"""A controller whose brokers are played: what each was told is kept, and they answer as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.clock import ManualClock
from broker.cluster import znodes
from broker.cluster.administration import ClusterAdministration
from broker.cluster.controller.context import ControllerContext
from broker.cluster.controller.controller import Controller
from broker.cluster.metadata import MetadataCache
from broker.cluster.peers import Endpoint, PeerFailure
from broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from broker.cluster.zookeeper import Delete, WatchEvent
from broker.config import BrokerConfig, Setting
from broker.log.checkpoint import TopicPartition
from broker.protocol import cold
from broker.protocol.apis import api_of
from broker.protocol.frame import Parts
from broker.protocol.primitives import Decoder
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

LISTENER: Final = "PLAINTEXT"


class Told(NamedTuple):
    broker_id: int
    api: str
    request: Any


class PlayedBrokers:
    """Implements `Peers`."""

    def __init__(self, scheduler: ManualScheduler, cache: MetadataCache) -> None:
        self.told: list[Told] = []
        self.gone: set[int] = set()
        """Nobody listens there."""
        self.silent: set[int] = set()
        """They take requests in and do not answer."""
        self.deletion_errors: dict[int, ErrorCode] = {}
        """What a broker answers when it is told to delete."""
        self._scheduler = scheduler
        self._cache = cache

    def connect(
        self, endpoint: Endpoint, client_id: str, *, on_break: Callable[[], None] | None = None
    ) -> _PlayedBroker:
        return _PlayedBroker(self, endpoint.port, on_break)

    def taken(self, api: str) -> list[tuple[int, Any]]:
        """Who was told by such requests since the last time, and what."""
        taken = [(told.broker_id, told.request) for told in self.told if told.api == api]
        self.told = [told for told in self.told if told.api != api]
        return taken

    def send(self, broker_id: int, api_key: int, version: int, body: bytes, then: Callable[[Any], None]) -> None:
        if broker_id in self.gone:
            self._scheduler.call_soon(lambda: then(PeerFailure.REFUSED))
            return
        api = api_of(api_key)
        decoder = Decoder(memoryview(body), 0, flexible=api.is_flexible(version))
        request = cold.decode_request(api.name, version, decoder)
        if api.name != "api_versions":
            self.told.append(Told(broker_id, api.name, request))
        if broker_id in self.silent:
            return
        if api.name == "update_metadata" and broker_id == 1:
            self._cache.update(request, version)
        answer = cold.encode_response(api.name, version, self._answer(broker_id, api.name, request))
        self._scheduler.call_soon(lambda: then(memoryview(answer)))

    def _answer(self, broker_id: int, api: str, request: Any) -> cold.Answer:
        if api == "leader_and_isr":
            return {
                "topics": [
                    {
                        "topic_id": topic.topic_id,
                        "partition_errors": [
                            {"partition_index": state.partition_index} for state in topic.partition_states
                        ],
                    }
                    for topic in request.topic_states
                ]
            }
        if api == "stop_replica":
            return {
                "partition_errors": [
                    {
                        "topic_name": topic.topic_name,
                        "partition_index": state.partition_index,
                        "error_code": self.deletion_errors.get(broker_id, ErrorCode.none)
                        if state.delete_partition
                        else ErrorCode.none,
                    }
                    for topic in request.topic_states
                    for state in topic.partition_states
                ]
            }
        return {}


class _PlayedBroker:
    """Implements `Peer`."""

    def __init__(self, brokers: PlayedBrokers, broker_id: int, on_break: Callable[[], None] | None) -> None:
        self._brokers = brokers
        self._broker_id = broker_id
        self._is_closed = False

    def send(
        self,
        api_key: int,
        version: int,
        body: Parts,
        then: Callable[[memoryview | PeerFailure], None],
        *,
        timeout_ms: int,
    ) -> None:
        def answered(answer: memoryview | PeerFailure) -> None:
            if not self._is_closed:
                then(answer)

        self._brokers.send(self._broker_id, api_key, version, b"".join(map(bytes, body)), answered)

    def close(self) -> None:
        self._is_closed = True


class _Session:
    """Hands on what the session is told, as the member does."""

    def __init__(self) -> None:
        self.controller: Controller | None = None

    def session_began(self, session_id: int) -> None:
        """The tests begin the controller themselves."""

    def session_ended(self) -> None:
        if self.controller is not None:
            self.controller.session_ended()

    def connection_changed(self, is_connected: bool) -> None:
        """Of no interest to it."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        if self.controller is not None:
            self.controller.watch_fired(path, event)


class PlayedCluster:
    """Brokers 1 to n, registered; a controller beside broker 1, and who administers by it."""

    def __init__(self, count: int = 3, racks: Mapping[int, str] | None = None, **properties: str) -> None:
        self.scheduler = ManualScheduler()
        self.ensemble = Ensemble(self.scheduler)
        for path in znodes.PERSISTENT_PATHS:
            self.ensemble.make(path)
        self.cache = MetadataCache("cluster")
        self.brokers = PlayedBrokers(self.scheduler, self.cache)
        self.config = BrokerConfig(Setting("test", name.replace("_", "."), text) for name, text in properties.items())
        for broker_id in range(1, count + 1):
            self.register(broker_id, (racks or {}).get(broker_id))
        self.begin_controller()

    def begin_controller(self) -> None:
        """The first, or one that finds what another left."""
        session = _Session()
        self.zookeeper: SimulatedZooKeeper = self.ensemble.client(session)
        self.scheduler.run()
        self.controller = session.controller = Controller(
            broker_id=1,
            config=self.config,
            listener_name=LISTENER,
            zookeeper=self.zookeeper,
            peers=self.brokers,
            clock=ManualClock(),
            scheduler=self.scheduler,
            is_unclean_election_allowed=lambda topic: False,
        )
        self.administration = ClusterAdministration(self.config, self.scheduler, self.cache, self.controller, Random(1))
        self.controller.session_began(1)
        self.scheduler.run()

    def end_controller(self) -> None:
        """Its session is over."""
        self.ensemble.expire(self.zookeeper.session_id)
        self.scheduler.run()
        self.zookeeper.kill()

    @property
    def context(self) -> ControllerContext:
        assert self.controller.context is not None
        return self.controller.context

    def register(self, broker_id: int, rack: str | None = None) -> None:
        endpoint = Endpoint(LISTENER, "PLAINTEXT", "broker", broker_id)
        info = BrokerInfo(broker_id, -1, (endpoint,), rack)
        self.ensemble.make(znodes.broker_path(broker_id), znodes.encode(znodes.broker_value(info, 0)))
        self.scheduler.run()

    def unregister(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.ensemble.do(Delete(znodes.broker_path(broker_id)))
        self.scheduler.run()

    def make_topic(self, name: str, *replicas: Iterable[int]) -> None:
        """A topic as an administrator's tool of old makes it."""
        assignment = {index: list(brokers) for index, brokers in enumerate(replicas)}
        value = znodes.topic_value(znodes.random_topic_id(), assignment)
        self.ensemble.make(znodes.topic_config_path(name), znodes.encode(znodes.config_value({})))
        self.ensemble.make(znodes.topic_path(name), znodes.encode(value))
        self.scheduler.run()

    def assignment(self, topic: str) -> dict[int, ReplicaAssignment]:
        """As ZooKeeper has it."""
        data = self.ensemble.data(znodes.topic_path(topic))
        assert data is not None
        return znodes.read(data, znodes.parse_assigned_topic)[1]

    def state(self, topic: str, index: int = 0) -> LeaderAndIsr:
        path = znodes.partition_state_path(topic, index)
        data, stat = self.ensemble.data(path), self.ensemble.stat(path)
        assert data is not None
        assert stat is not None
        return znodes.read(data, lambda value: znodes.parse_partition_state(value, stat.version))

    def set_in_sync(self, topic: str, in_sync: tuple[int, ...], index: int = 0) -> ErrorCode:
        """What the leader of a partition asks for by AlterPartition, and is answered."""
        state = self.context[topic, index].leadership
        assert state is not None
        request = cold_request(
            "alter_partition",
            3,
            broker_id=state.leader,
            broker_epoch=self.context.brokers[state.leader].epoch,
            topics=[
                {
                    "topic_id": self.context.topics[topic].topic_id,
                    "partitions": [
                        {
                            "partition_index": index,
                            "leader_epoch": state.leader_epoch,
                            "new_isr_with_epochs": [{"broker_id": replica, "broker_epoch": -1} for replica in in_sync],
                            "partition_epoch": state.partition_epoch,
                        }
                    ],
                }
            ],
        )
        answers: list[Any] = []
        self.controller.alter_partitions(request, 3, answers.append)
        self.scheduler.run()
        (answer,) = answers
        if error := answer.get("error_code"):
            return ErrorCode(error)
        return ErrorCode(answer["topics"][0]["partitions"][0].get("error_code", 0))


def cold_request(schema: str, version: int, **fields: Any) -> Any:
    """A request as a handler gets it."""
    encoded = cold.encode_request(schema, version, fields)
    return cold.decode_request(schema, version, Decoder(memoryview(encoded), 0, flexible=True))


def partitions_of(request: Any) -> list[TopicPartition]:
    """Those that a request of the controller is about, in order."""
    return [
        (topic.topic_name, state.partition_index) for topic in request.topic_states for state in topic.partition_states
    ]
