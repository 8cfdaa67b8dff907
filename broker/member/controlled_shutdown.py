"""Asks the controller to move the leaders away from a broker before it stops."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler, Timer
from highwater.broker.cluster.peers import Endpoint, Peer, PeerFailure, Peers, ask
from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.cluster.znodes import CONTROLLER, broker_path, parse_broker, parse_controller, read
from highwater.broker.cluster.zookeeper import Get, NodeData, Request, ZooKeeper, run
from highwater.broker.settings.config import BrokerConfig
from highwater.kafka.protocol.apis import CONTROLLED_SHUTDOWN

_logger = logging.getLogger(__name__)

_VERSION: Final = 3
_ZOOKEEPER_TIMEOUT_MS: Final = 5000
"""More than an ensemble needs to elect a leader. Without ZooKeeper no controller can move leaders either: to retry
for longer would only keep a broker from stopping cleanly, until somebody kills it."""


class ControlledShutdown:
    """Starts at once and calls back once, after success or failure (KafkaServer.controlledShutdown)."""

    def __init__(
        self,
        info: BrokerInfo,
        listener_name: str,
        config: BrokerConfig,
        scheduler: Scheduler,
        zookeeper: ZooKeeper,
        peers: Peers,
        then: Callable[[], None],
    ) -> None:
        self._info = info
        self._scheduler = scheduler
        self._zookeeper = zookeeper
        self._peers = peers
        self._then = then
        self._tries_left = max(config.integer("controlled.shutdown.max.retries"), 1)
        self._backoff_ms = config.integer("controlled.shutdown.retry.backoff.ms")
        self._timeout_ms = config.integer("controller.socket.timeout.ms")
        self._listener_name = listener_name
        self._peer: Peer | None = None
        self._timer: Timer | None = None
        self._try()

    def _try(self) -> None:
        """Find the controller, which may have changed, and send the request."""
        self._tries_left -= 1
        # ZooKeeper does not answer while it is unreachable.
        self._timer = self._scheduler.call_later(_ZOOKEEPER_TIMEOUT_MS, self._zookeeper_is_away)
        timer = self._timer

        def found(endpoint: Endpoint | None) -> None:
            if timer is not self._timer:
                return
            timer.cancel()
            if endpoint is None:
                self._failed("there is no controller")
                return
            self._peer = self._peers.connect(endpoint, f"broker-{self._info.broker_id}-shutdown", name="the controller")
            fields = {"broker_id": self._info.broker_id, "broker_epoch": self._info.epoch}
            ask(self._peer, CONTROLLED_SHUTDOWN, _VERSION, fields, self._answered, timeout_ms=self._timeout_ms)

        run(self._zookeeper, _controller_endpoint(self._listener_name), found)

    def _zookeeper_is_away(self) -> None:
        self._tries_left = 0
        self._failed("ZooKeeper does not answer")

    def _answered(self, answer: Any | PeerFailure) -> None:
        if isinstance(answer, PeerFailure):
            self._failed(answer.value)
        elif answer.error_code:
            self._failed(ErrorCode(answer.error_code).name)
        elif answer.remaining_partitions:
            self._failed(f"it still leads {len(answer.remaining_partitions)} partitions")
        else:
            _logger.info("the controller has taken over what broker %d led", self._info.broker_id)
            self._finish()

    def _failed(self, reason: str) -> None:
        self._timer = None
        self._close_peer()
        if self._tries_left:
            _logger.info("controlled shutdown: %s; trying again in %d ms", reason, self._backoff_ms)
            self._scheduler.call_later(self._backoff_ms, self._try)
        else:
            _logger.warning("stopping without a controlled shutdown: %s", reason)
            self._finish()

    def _finish(self) -> None:
        self._close_peer()
        self._then()

    def _close_peer(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _controller_endpoint(listener_name: str) -> Generator[Sequence[Request], list[Any], Endpoint | None]:
    (controller,) = yield [Get(CONTROLLER)]
    if not isinstance(controller, NodeData):
        return None
    broker_id = read(controller.data, parse_controller)
    (broker,) = yield [Get(broker_path(broker_id))]
    if not isinstance(broker, NodeData):
        return None
    info = read(broker.data, lambda value: parse_broker(broker_id, broker.stat.czxid, value))
    return info.endpoint(listener_name)
