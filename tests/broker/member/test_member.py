"""A broker's sessions: registering, meeting an older registration, losing the session, and leaving."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import Endpoint, OnBreak, PeerFailure
from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.cluster.znodes import LOG_DIR_EVENT_NOTIFICATIONS, PERSISTENT_PATHS
from highwater.broker.cluster.zookeeper import Create, WatchEvent, run
from highwater.broker.member.member import Member, take_up_cluster
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import CONTROLLED_SHUTDOWN
from highwater.kafka.protocol.frame import Parts
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

_TIMEOUT_MS = 6000


class Part:
    def __init__(self, name: str, told: list[Any]) -> None:
        self._name = name
        self._told = told

    def session_began(self, broker_epoch: int) -> None:
        self._told.append((self._name, "began", broker_epoch))

    def session_ended(self) -> None:
        self._told.append((self._name, "ended"))

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        self._told.append((self._name, path, event))


class Controller:
    """Answers ControlledShutdown as told to; also all that `Peers` needs to be."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.answers: list[PeerFailure | cold.Answer] = []
        self.open = 0

    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "", on_break: OnBreak | None = None
    ) -> Controller:
        self.open += 1
        self.host = endpoint.host
        return self

    def send(
        self,
        api_key: int,
        version: int,
        body: Parts,
        then: Callable[[memoryview | PeerFailure], None],
        *,
        timeout_ms: int,
    ) -> None:
        assert (api_key, version) == (CONTROLLED_SHUTDOWN, 3)
        decoder = Decoder(memoryview(b"".join(bytes(part) for part in body)), 0, flexible=True)
        request = cold.decode_request("controlled_shutdown", version, decoder)
        self.asked.append((self.host, request.broker_id, request.broker_epoch))
        answer = self.answers.pop(0)
        if isinstance(answer, PeerFailure):
            then(answer)
        else:
            then(memoryview(cold.encode_response("controlled_shutdown", version, answer)))

    def close(self) -> None:
        self.open -= 1


class Broker:
    def __init__(self, ensemble: Ensemble, scheduler: ManualScheduler, broker_id: int = 1, **properties: str) -> None:
        self.told: list[Any] = []
        self.failures: list[str] = []
        self.controller = Controller()
        config = BrokerConfig(Setting("test", name.replace("_", "."), text) for name, text in properties.items())
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", f"host{broker_id}", 9092)
        self.member = Member(
            BrokerInfo(broker_id, -1, (endpoint,), f"rack{broker_id}"),
            config,
            ManualClock(),
            scheduler,
            self.controller,
            self.failures.append,
            listener_name="PLAINTEXT",
            session_timeout_ms=_TIMEOUT_MS,
        )
        self.zookeeper: SimulatedZooKeeper = ensemble.client(self.member, session_timeout_ms=_TIMEOUT_MS)
        self.member.attach(self.zookeeper)
        parts = [Part("settings", self.told), Part("controller", self.told)]
        self.member.start(parts, lambda: self.told.append("started"))

    def taken(self) -> list[Any]:
        taken = self.told[:]
        self.told.clear()
        return taken


def ensemble_on(scheduler: ManualScheduler) -> Ensemble:
    ensemble = Ensemble(scheduler)
    for path in PERSISTENT_PATHS:
        ensemble.make(path)
    return ensemble


def test_the_first_broker_makes_the_cluster_and_the_next_finds_it() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    broker = Broker(ensemble, scheduler)
    scheduler.run()
    ids: list[Any] = []
    run(broker.zookeeper, take_up_cluster("first"), ids.append)
    run(broker.zookeeper, take_up_cluster("second"), ids.append)
    scheduler.run()
    assert ids == ["first", "first"]
    assert ensemble.data("/cluster/id") == b'{"version":"1","id":"first"}'
    assert all(ensemble.stat(path) is not None for path in PERSISTENT_PATHS)


def test_a_broker_registers_and_its_parts_begin_in_order() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    scheduler.run()
    stat = ensemble.stat("/brokers/ids/1")
    assert stat is not None
    assert stat.ephemeral_owner == broker.zookeeper.session_id
    assert broker.taken() == [("settings", "began", stat.czxid), ("controller", "began", stat.czxid), "started"]
    assert broker.member.is_registered
    assert broker.member.broker_epoch == stat.czxid
    registration = json.loads(ensemble.data("/brokers/ids/1") or b"")
    assert registration["endpoints"] == ["PLAINTEXT://host1:9092"]
    assert registration["rack"] == "rack1"


def test_a_registration_whose_answer_was_lost_is_recognised() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    # The request arrives, and the connection breaks before its answer.
    ensemble.changed = lambda path, _: broker.zookeeper.lose_connection() if path == "/brokers/ids/1" else None
    scheduler.run()
    scheduler.run()
    assert broker.told[-1] == "started"
    assert broker.failures == []


def test_a_session_that_ends_is_told_backwards_and_the_next_has_a_new_epoch() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    scheduler.run()
    first_epoch = broker.member.broker_epoch
    broker.taken()
    ensemble.expire(broker.zookeeper.session_id)
    scheduler.run()
    epoch = broker.member.broker_epoch
    assert epoch > first_epoch
    assert broker.taken() == [
        ("controller", "ended"),
        ("settings", "ended"),
        ("settings", "began", epoch),
        ("controller", "began", epoch),
    ]


def test_an_older_registration_is_waited_for() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    killed = Broker(ensemble, scheduler)
    scheduler.run()
    killed.zookeeper.kill()
    broker = Broker(ensemble, scheduler)
    scheduler.run(5000)
    assert broker.taken() == []
    scheduler.run(1000)
    assert broker.member.is_registered
    assert broker.failures == []


def test_a_living_broker_of_the_same_id_is_an_error() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    living = Broker(ensemble, scheduler)
    scheduler.run()
    broker = Broker(ensemble, scheduler)
    scheduler.run()
    scheduler.run(_TIMEOUT_MS + 2000)
    (failure,) = broker.failures
    assert failure.startswith("a broker with the id 1 is registered")
    assert living.member.is_registered
    assert living.failures == []
    assert broker.taken() == []


def test_news_of_a_failed_directory_waits_for_a_session() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    broker.member.log_directory_failed()
    scheduler.run()
    (event,) = ensemble.children(LOG_DIR_EVENT_NOTIFICATIONS)
    assert ensemble.data(f"{LOG_DIR_EVENT_NOTIFICATIONS}/{event}") == b'{"version":1,"broker":1,"event":1}'
    broker.member.log_directory_failed()
    scheduler.run()
    assert len(ensemble.children(LOG_DIR_EVENT_NOTIFICATIONS)) == 2


def _stop(broker: Broker) -> list[str]:
    stopped: list[str] = []
    broker.member.stop(lambda: stopped.append("stopped"))
    return stopped


def _make_controller(ensemble: Ensemble, broker_id: int) -> None:
    value = f'{{"version":2,"brokerid":{broker_id},"timestamp":"1","kraftControllerEpoch":-1}}'
    ensemble.do(Create("/controller", value.encode()))


def test_a_controlled_shutdown_asks_until_nothing_is_led() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    Broker(ensemble, scheduler, 2)
    scheduler.run()
    _make_controller(ensemble, 2)
    left = [{"topic_name": "t", "partition_index": 0}]
    broker.controller.answers = [
        {"error_code": ErrorCode.none, "remaining_partitions": left},
        {"error_code": ErrorCode.none, "remaining_partitions": []},
    ]
    stopped = _stop(broker)
    scheduler.run()
    assert stopped == []
    scheduler.run(5000)
    assert stopped == ["stopped"]
    assert broker.controller.asked == [("host2", 1, broker.member.broker_epoch)] * 2
    assert broker.controller.open == 0


def test_a_controlled_shutdown_is_given_up_in_the_end() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    scheduler.run()
    stopped = _stop(broker)
    broker.controller.answers = [PeerFailure.REFUSED, PeerFailure.TIMED_OUT]
    scheduler.run()  # nobody is the controller
    _make_controller(ensemble, 1)
    scheduler.run(5000)
    assert stopped == []
    scheduler.run(5000)
    assert stopped == ["stopped"]
    assert len(broker.controller.asked) == 2


def test_a_stop_without_zookeeper_ends() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler)
    scheduler.run()
    broker.zookeeper.cut()
    stopped = _stop(broker)
    scheduler.run(1000)
    assert stopped == []
    scheduler.run(5000)  # and it is not tried again
    assert stopped == ["stopped"]
    broker.zookeeper.heal()
    scheduler.run()
    assert stopped == ["stopped"]


def test_without_controlled_shutdown_a_stop_is_at_once() -> None:
    scheduler = ManualScheduler()
    ensemble = ensemble_on(scheduler)
    broker = Broker(ensemble, scheduler, controlled_shutdown_enable="false")
    scheduler.run()
    stopped = _stop(broker)
    scheduler.run()
    assert stopped == ["stopped"]
