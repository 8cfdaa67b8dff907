"""What a broker asks of the controller, whoever that is by now: again and again until it answers or time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.clock import Clock
from broker.cluster.peers import Endpoint, Peer, Peers
from broker.protocol import cold
from broker.replica.waiters import Scheduler

RETRY_BACKOFF_MS: Final = 100
"""Kafka's BrokerToControllerChannelManager waits as long (DEFAULT_RETRY_BACKOFF_MS)."""


class ControllerChannel:
    """One connection, to the controller that this broker knows of."""

    def __init__(
        self,
        peers: Peers,
        controller: Callable[[], Endpoint | None],
        clock: Clock,
        scheduler: Scheduler,
        *,
        client_id: str,
        request_timeout_ms: int,
    ) -> None:
        """`controller` tells where it is now, at the inter-broker listener; None while that is not known."""
        self._peers = peers
        self._controller = controller
        self._clock = clock
        self._scheduler = scheduler
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._endpoint: Endpoint | None = None
        self._peer: Peer | None = None
        self._is_closed = False

    def ask(
        self,
        api_key: int,
        version: int,
        fields: Callable[[], cold.Answer] | cold.Answer,
        then: Callable[[Any | None], None],
        *,
        is_refused: Callable[[Any], bool],
        timeout_ms: int | None = None,
    ) -> None:
        """Call back with the answer of the controller, or with None when there was none within `timeout_ms`.

        `is_refused` says of an answer whether it came from one who is not the controller (any more). `fields` may be
        made anew for each attempt.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Nobody is called back any more."""
