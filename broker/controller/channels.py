"""The controller's connections to brokers: a queue for each, one request at a time, resent at need.

They also tell whether the broker's process is there. A connection is kept to every broker; when it breaks, it is made
anew at once, and when the host then refuses it, nobody listens there any more. A broker that is slow, stopped or out of
reach refuses nothing: of it only its session with ZooKeeper tells.
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
from highwater.broker.protocol import cold
from highwater.broker.protocol.apis import API_VERSIONS

_logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS: Final = 100
REFUSALS_OF_A_STRANGER: Final = 20
"""A broker that never answered here may be starting: it is gone when it refuses so often in a row."""
LOOK_AGAIN_MS: Final = 1000
ANSWERS_OF_A_RETURN: Final = 3
"""A broker that was gone is back when it answers so often in a row: one that was started anew would have told by then,
by registering anew."""

Then = Callable[[Any], None]


class Way(NamedTuple):
    """How brokers are reached."""

    peers: Peers
    listener_name: str
    """Of the brokers among themselves."""
    request_timeout_ms: int
    """controller.socket.timeout.ms."""


class Presence(Enum):
    """What is known of a broker's process."""

    UNKNOWN = "it has not answered yet"
    THERE = "it answers"
    GONE = "nobody listens where it did"


class PresenceListener(Protocol):
    def broker_is_gone(self, broker: BrokerInfo) -> None:
        """Its process is, though its registration still stands. Nothing more is sent to it."""

    def broker_is_back(self, broker: BrokerInfo) -> None:
        """The same registration, after `broker_is_gone`: it listens again, and has been told nothing meanwhile."""


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
        self._scheduler = scheduler
        self._listener = listener
        self._queue: deque[_Request] = deque()
        self._is_connected = False
        self._is_busy = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._refusals = 0
        self._answers = 0
        self._timeout_ms = way.request_timeout_ms
        self._peer = way.peers.connect(endpoint, "controller", on_break=self._broke)
        self._next()

    def send(self, request: _Request) -> None:
        if self.presence is not Presence.GONE:
            self._queue.append(request)
            self._next()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._peer.close()

    def _next(self) -> None:
        if self._is_busy or self._timer is not None or self._is_closed:
            return
        if self._queue:
            request = self._queue[0]
            self._ask(request.api_key, request.version, request.body, request)
        elif not self._is_connected or self.presence is Presence.GONE:
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

        ask(self._peer, api_key, version, body, answered, timeout_ms=self._timeout_ms)

    def _answered(self) -> None:
        if self._is_closed:
            return
        self._is_connected = True
        self._refusals = 0
        self._answers += 1
        if self.presence is Presence.UNKNOWN:
            self.presence = Presence.THERE
        elif self.presence is Presence.GONE:
            if self._answers < ANSWERS_OF_A_RETURN:
                self._retry_after(LOOK_AGAIN_MS)
                return
            self.presence = Presence.THERE
            _logger.info("broker %d responds again", self.broker.broker_id)
            self._listener.broker_is_back(self.broker)
        self._next()

    def _failed(self, failure: PeerFailure) -> None:
        self._is_connected = False
        self._answers = 0
        self._refusals = self._refusals + 1 if failure is PeerFailure.REFUSED else 0
        if self._refusals == 0:
            _logger.debug("no response from broker %d: %s", self.broker.broker_id, failure.value)
        elif self.presence is Presence.THERE or (
            self.presence is Presence.UNKNOWN and self._refusals >= REFUSALS_OF_A_STRANGER
        ):
            self.presence = Presence.GONE
            self._queue.clear()
            _logger.warning("broker %d refuses connections: its process has ended", self.broker.broker_id)
            self._listener.broker_is_gone(self.broker)
        self._retry_after(LOOK_AGAIN_MS if self.presence is Presence.GONE else RETRY_BACKOFF_MS)

    def _retry_after(self, delay_ms: int) -> None:
        if not self._is_closed and self._timer is None:
            self._timer = self._scheduler.call_later(delay_ms, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._next()

    def _broke(self) -> None:
        self._is_connected = False
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

    def send(self, broker_id: int, api_key: int, version: int, body: cold.Answer | bytes, then: Then) -> None:
        """Have this broker told once, after all that was sent to it before; `then` gets the answer.

        There is none when the broker is gone first.
        """
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.send(_Request(api_key, version, body, then))
