"""The controller's connections to brokers: a queue for each, one request at a time, resent at need.

They also find out whether the broker's process is there. A connection to every broker stays open, and when it breaks,
it is made anew at once. A process has ended for certain, though its session with ZooKeeper still stands, only if
- the broker answered on this connection,
- the other end closed the connection, as the kernel does when a process ends (a firewall resets connections), and
- then its host refuses a new one.
This broker concludes that once for each registration: if it was wrong (a proxy between the brokers ended), it is not
so again. Any other broker that refuses or does not answer is gone when its session ends; the log reports it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from highwater.broker.clock import Scheduler, Timer
from highwater.broker.cluster.peers import PeerFailure, Peers, ask
from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.settings.config import BrokerConfig
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS

_logger = logging.getLogger(__name__)

FIRST_RETRY_MS: Final = 10
"""Doubled up to RETRY_BACKOFF_MS. The kernel closes the connections of a process that ends one by one, and its port
last. What connects in between is reset, and only a refusal after that says for certain that the process has ended."""
RETRY_BACKOFF_MS: Final = 100
UNREACHABLE_AFTER_MS: Final = 2000
"""When a broker that is not reached is reported: one that starts may register a little before it can be reached."""
PROBE_INTERVAL_MS: Final = 30_000
"""How often a broker is asked when there is nothing to send: it then does not close a connection that nobody uses,
and one that cannot be reached any more is noticed."""
LOOK_AGAIN_MS: Final = 1000
ANSWERS_OF_A_RETURN: Final = 3
"""A broker that was gone is back when it answers so often in a row: one that was started anew would have
registered anew by then."""

Then = Callable[[Any], None]


class Way(NamedTuple):
    """How brokers are reached."""

    peers: Peers
    listener_name: str
    """The listener of the brokers among themselves."""
    request_timeout_ms: int
    """controller.socket.timeout.ms."""
    probe_interval_ms: int
    taken_for_dead: set[tuple[int, int]]
    """Id and epoch of the registrations whose process this broker has concluded to have ended."""


def way_to_brokers(peers: Peers, listener_name: str, config: BrokerConfig) -> Way:
    """`listener_name` is that of the brokers among themselves."""
    max_idle_ms = config.integer("connections.max.idle.ms")
    return Way(
        peers,
        listener_name,
        config.integer("controller.socket.timeout.ms"),
        min(PROBE_INTERVAL_MS, max(1, max_idle_ms // 3)) if max_idle_ms > 0 else PROBE_INTERVAL_MS,
        set(),
    )


class Presence(Enum):
    """What is known of a broker's process."""

    UNKNOWN = "it has not answered yet"
    THERE = "it answers"
    GONE = "its process has ended"


class PresenceListener(Protocol):
    def broker_is_gone(self, broker: BrokerInfo) -> None:
        """Its process is, though its registration still stands. Nothing more is sent to it."""

    def broker_is_back(self, broker: BrokerInfo) -> None:
        """The same registration, after `broker_is_gone`: it listens again, and was sent nothing meanwhile."""


class _Request(NamedTuple):
    api_key: int
    version: int
    body: cold.Answer | bytes
    then: Then


class Channel:
    """The connection to one broker, in one registration of it."""

    def __init__(
        self,
        broker: BrokerInfo,
        way: Way,
        scheduler: Scheduler,
        listener: PresenceListener,
        presence: Presence = Presence.UNKNOWN,
    ) -> None:
        endpoint = broker.endpoint(way.listener_name)
        if endpoint is None:
            raise ValueError(f"broker {broker.broker_id} has no listener {way.listener_name}")
        self.broker = broker
        self.presence = presence
        self._endpoint = endpoint
        self._way = way
        self._scheduler = scheduler
        self._listener = listener
        self._queue: deque[_Request] = deque()
        self._is_connected = False
        self._is_busy = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._probe: Timer | None = None
        self._report: Timer | None = None
        """Set while the broker is not reached."""
        self._is_reported = False
        self._was_closed = False
        """Whether the other end closed the last connection on which the broker answered."""
        self._failure = PeerFailure.DISCONNECTED
        self._failures = 0
        """The failures in a row."""
        self._answers = 0
        self._peer = way.peers.connect(endpoint, "controller", name=f"broker {broker.broker_id}", on_break=self._broke)
        self._next()

    @property
    def is_unreachable(self) -> bool:
        """Whether the broker is reported as one that cannot be reached."""
        return self._is_reported

    def send(self, request: _Request) -> None:
        if self.presence is not Presence.GONE:
            self._queue.append(request)
            self._next()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        for timer in (self._timer, self._probe, self._report):
            if timer is not None:
                timer.cancel()
        self._peer.close()

    def _next(self) -> None:
        if self._is_busy or self._timer is not None or self._is_closed:
            return
        if self._queue:
            request = self._queue[0]
            self._ask(request.api_key, request.version, request.body, request)
        elif not self._is_connected or self.presence is Presence.GONE:
            self._ask(API_VERSIONS, 0, {}, None)
        elif self._probe is None:
            self._probe = self._scheduler.call_later(self._way.probe_interval_ms, self._look)

    def _look(self) -> None:
        self._probe = None
        if not self._is_busy and self._is_connected:
            self._ask(API_VERSIONS, 0, {}, None)

    def _ask(self, api_key: int, version: int, body: cold.Answer | bytes, request: _Request | None) -> None:
        self._is_busy = True

        def answered(answer: Any) -> None:
            self._is_busy = False
            if isinstance(answer, PeerFailure):
                self._failed(answer)
                return
            if request is not None and self._queue and self._queue[0] is request:
                self._queue.popleft()
                request.then(answer)
            self._answered()

        ask(self._peer, api_key, version, body, answered, timeout_ms=self._way.request_timeout_ms)

    def _answered(self) -> None:
        if self._is_closed:
            return
        self._is_connected = True
        self._failures = 0
        self._answers += 1
        self._reached()
        if self.presence is Presence.UNKNOWN:
            self.presence = Presence.THERE
        elif self.presence is Presence.GONE:
            if self._answers < ANSWERS_OF_A_RETURN:
                self._retry_after(LOOK_AGAIN_MS)
                return
            self.presence = Presence.THERE
            _logger.info("broker %d responds again: its process had not ended", self.broker.broker_id)
            self._listener.broker_is_back(self.broker)
        self._next()

    def _failed(self, failure: PeerFailure) -> None:
        self._lost(failure)
        self._answers = 0
        self._failures += 1
        self._failure = failure
        broker, endpoint = self.broker, self._endpoint
        registration = broker.broker_id, broker.epoch
        is_certain = (
            failure is PeerFailure.REFUSED
            and self.presence is Presence.THERE
            and self._was_closed
            and registration not in self._way.taken_for_dead
        )
        if is_certain:
            self._way.taken_for_dead.add(registration)
            self.presence = Presence.GONE
            self._queue.clear()
            self._reached()
            _logger.warning(
                "broker %d closed its connections and refuses new ones at %s:%d: its process has ended",
                broker.broker_id,
                endpoint.host,
                endpoint.port,
            )
            self._listener.broker_is_gone(broker)
        elif self._report is None and self.presence is not Presence.GONE and not self._is_closed:
            self._report = self._scheduler.call_later(UNREACHABLE_AFTER_MS, self._report_unreachable)
        is_patient = self._is_reported or self.presence is Presence.GONE
        backoff_ms = min(RETRY_BACKOFF_MS, FIRST_RETRY_MS << min(self._failures - 1, 10))
        self._retry_after(LOOK_AGAIN_MS if is_patient else backoff_ms)

    def _lost(self, failure: PeerFailure) -> None:
        # A refusal long after the end of the connection does not show how that ended.
        if self._is_connected or failure is PeerFailure.TIMED_OUT:
            self._was_closed = failure is PeerFailure.CLOSED
        self._is_connected = False

    def _report_unreachable(self) -> None:
        self._is_reported = True
        _logger.warning(
            "broker %d cannot be reached at %s:%d (listener %s): %s. It counts as alive while its ZooKeeper session "
            "lasts; check its advertised.listeners, and the firewalls between this broker and that address",
            self.broker.broker_id,
            self._endpoint.host,
            self._endpoint.port,
            self._endpoint.listener_name,
            self._failure.value,
        )

    def _reached(self) -> None:
        """It answers, or is known to have ended."""
        if self._report is not None:
            self._report.cancel()
            self._report = None
        if self._is_reported and self._answers:
            _logger.info("broker %d is reached at %s:%d", self.broker.broker_id, *self._endpoint[2:])
        self._is_reported = False

    def _retry_after(self, delay_ms: int) -> None:
        if not self._is_closed and self._timer is None:
            self._timer = self._scheduler.call_later(delay_ms, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._next()

    def _broke(self, failure: PeerFailure) -> None:
        self._lost(failure)
        self._next()


class Channels:
    """Those of one controller."""

    def __init__(self, way: Way, scheduler: Scheduler, listener: PresenceListener) -> None:
        self._way = way
        self._scheduler = scheduler
        self._listener = listener
        self._channels: dict[int, Channel] = {}

    def open(self, broker: BrokerInfo, presence: Presence = Presence.UNKNOWN) -> None:
        """Also anew, for a broker that registered anew: what was to be sent to its former self is not."""
        self.close(broker.broker_id)
        try:
            channel = Channel(broker, self._way, self._scheduler, self._listener, presence)
        except ValueError as error:
            _logger.error("the controller cannot reach a broker: %s", error)
            return
        self._channels[broker.broker_id] = channel

    def close(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def close_all(self) -> None:
        for broker_id in list(self._channels):
            self.close(broker_id)

    @property
    def unreachable_count(self) -> int:
        return sum(channel.is_unreachable for channel in self._channels.values())

    def send(self, broker_id: int, api_key: int, version: int, body: cold.Answer | bytes, then: Then) -> None:
        """Send a request once, after all that was sent to this broker before; `then` gets the answer.

        There is no answer if the broker is gone first.
        """
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.send(_Request(api_key, version, body, then))
