"""Sends requests to the controller, whichever broker it is, until it answers or time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster.peers import Endpoint, Peer, PeerFailure, Peers, ask
from highwater.kafka.protocol import cold

RETRY_BACKOFF_MS: Final = 100
"""The same as in Kafka's NodeToControllerChannelManager (DEFAULT_RETRY_BACKOFF_MS)."""


class _Question:
    __slots__ = ("api_key", "deadline_ms", "fields", "is_refused", "then", "version")

    def __init__(
        self,
        api_key: int,
        version: int,
        fields: Callable[[], cold.Answer],
        then: Callable[[Any | None], None],
        is_refused: Callable[[Any], bool],
        deadline_ms: int | None,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.fields = fields
        self.then = then
        self.is_refused = is_refused
        self.deadline_ms = deadline_ms


class ControllerChannel:
    """One connection to the current controller."""

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
        """`controller` returns the controller's inter-broker endpoint; None while it is unknown."""
        self._peers = peers
        self._controller = controller
        self._clock = clock
        self._scheduler = scheduler
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._connected: tuple[Endpoint, Peer] | None = None
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
        """Call back with the answer of the controller, or with None when none came within `timeout_ms`.

        `is_refused` returns whether an answer came from a broker that is not the controller. `fields` may be
        a function that is called for each attempt. Never calls back before this returns.
        """
        make = fields if callable(fields) else lambda: fields
        deadline_ms = None if timeout_ms is None else self._now_ms() + timeout_ms
        question = _Question(api_key, version, make, then, is_refused, deadline_ms)
        self._scheduler.call_soon(lambda: self._try(question))

    def close(self) -> None:
        """Stop all callbacks."""
        self._is_closed = True
        self._disconnect()

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000

    def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected[1].close()

    def _peer(self) -> Peer | None:
        endpoint = self._controller()
        if endpoint is None:
            return None
        if self._connected is None or self._connected[0] != endpoint:
            if self._connected is not None:
                # What is under way there gets its answer or its failure before it is closed.
                self._scheduler.call_later(self._request_timeout_ms, self._connected[1].close)
            self._connected = endpoint, self._peers.connect(endpoint, self._client_id, name="the controller")
        return self._connected[1]

    def _try(self, question: _Question) -> None:
        if self._is_closed:
            return
        timeout_ms = self._request_timeout_ms
        if question.deadline_ms is not None:
            timeout_ms = min(timeout_ms, question.deadline_ms - self._now_ms())
            if timeout_ms <= 0:
                question.then(None)
                return
        peer = self._peer()
        if peer is None:
            self._try_later(question)
            return

        def answered(answer: Any | PeerFailure) -> None:
            if self._is_closed:
                return
            if isinstance(answer, PeerFailure) or question.is_refused(answer):
                self._try_later(question)
            else:
                question.then(answer)

        ask(peer, question.api_key, question.version, question.fields(), answered, timeout_ms=timeout_ms)

    def _try_later(self, question: _Question) -> None:
        delay_ms = RETRY_BACKOFF_MS
        if question.deadline_ms is not None:
            delay_ms = max(0, min(delay_ms, question.deadline_ms - self._now_ms()))
        self._scheduler.call_later(delay_ms, lambda: self._try(question))
