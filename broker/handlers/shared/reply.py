"""The return values of handlers: an answer now, an answer later, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from highwater.broker.clock import Scheduler
from highwater.broker.security.authorizer import Authorizer, Permissions
from highwater.broker.security.principal import ANONYMOUS
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.frame import Part, Parts
from highwater.kafka.protocol.produce_run import ProduceShape

if TYPE_CHECKING:
    from highwater.broker.security.sasl import Authentication  # most brokers have no listener with SASL

_Outcome = TypeVar("_Outcome")

UNKNOWN_SOFTWARE: Final = "unknown"
"""Kafka's word for a client that did not name its software (ClientInformation)."""


class Listener(NamedTuple):
    """An address that is advertised to clients."""

    name: str
    host: str
    port: int


def _not_connected(_: int | str) -> None:
    """Do nothing: a client without a connection cannot be muted or disconnected."""


def _nobody_waits() -> None:
    """Do nothing: a client without a connection has no frames."""


class Client:
    """The client of a connection."""

    __slots__ = (
        "_on_authenticated",
        "_permissions",
        "authentication",
        "connected_ns",
        "hang_up",
        "host",
        "listener",
        "mute",
        "port",
        "principal",
        "produce_shape",
        "software_name",
        "software_version",
        "uses_transactions_2",
        "when_gone",
    )

    def __init__(
        self,
        listener: Listener,
        host: str = "",
        *,
        mute: Callable[[int], None] = _not_connected,
        hang_up: Callable[[str], None] = _not_connected,
        authentication: Authentication | None = None,
        connected_ns: int | None = None,
        on_authenticated: Callable[[], None] = _nobody_waits,
    ) -> None:
        self.listener = listener
        """The client's listener; answers have addresses of listeners with this name."""
        self.host = host
        """The address that the client connects from, as Java writes it: ACLs and descriptions of groups have it so."""
        self.port = 0
        """The port that the client connects from."""
        self.software_name = self.software_version = UNKNOWN_SOFTWARE
        """What the client said in ApiVersions (KIP-511)."""
        self.when_gone: Callable[[], None] | None = None
        """Called when the connection has ended."""
        self.mute = mute
        """Read no more requests of the client for this many ms; the answer to the current one is still sent."""
        self.hang_up = hang_up
        """Close the client's connection after the pending answers; the reason is logged."""
        self.authentication = authentication
        """None on a listener without SASL."""
        self.connected_ns = connected_ns
        """When the connection was made (CLOCK_MONOTONIC); None without one."""
        self.principal = ANONYMOUS
        self.uses_transactions_2 = False
        """Whether a request of the connection was of version 2 of transactions."""
        self.produce_shape: ProduceShape | None = None
        """What its last requests were like that came in a run (handlers/produce_run.py)."""
        self._on_authenticated = on_authenticated
        self._permissions: Permissions | None = None

    def permissions(self, authorizer: Authorizer) -> Permissions:
        """What the client may do as who it is now."""
        if self._permissions is None:
            self._permissions = Permissions(authorizer, f"User:{self.principal}", self.host)
        return self._permissions

    def connect(
        self, mute: Callable[[int], None], hang_up: Callable[[str], None], on_authenticated: Callable[[], None]
    ) -> None:
        self.mute, self.hang_up, self._on_authenticated = mute, hang_up, on_authenticated

    def disconnect(self) -> None:
        """Forget the connection, which has ended: it is freed at once, as there is no cycle."""
        self.mute = self.hang_up = _not_connected
        self._on_authenticated = _nobody_waits
        when_gone, self.when_gone = self.when_gone, None
        if when_gone is not None:
            when_gone()
        if self._permissions is not None:
            self._permissions.forget()

    def authenticated(self, user: str) -> None:
        self.principal = user
        self._permissions = None
        self._on_authenticated()


class RequestContext:
    __slots__ = ("client", "client_id", "size_bytes", "throttle_ms", "version")

    def __init__(
        self, version: int, client_id: str | None, client: Client, size_bytes: int = 0, throttle_ms: int = 0
    ) -> None:
        self.version = version
        self.client_id = client_id
        self.client = client
        self.size_bytes = size_bytes
        self.throttle_ms = throttle_ms
        """How long the client is throttled after the answer: its former requests took too much time (KIP-124)."""


Answered = Parts | Answer | Callable[[], Answer]
"""An answer that came later: encoded parts, a mapping, or a function that makes the mapping.

A function runs on a stack of its own. So it may go over a long request, which the maker of the answer may not: it is
called from the midst of a change of the broker's state.
"""


def answer_of(answered: Answered) -> Parts | Answer:
    return answered() if callable(answered) else answered


class Deferred:
    """A deferred answer. Its maker calls `complete` once; the connection waits with `on_ready`.

    When the client disconnects, the connection calls `cancel`, and the maker must drop the answer.
    """

    __slots__ = ("_on_ready", "answer", "holds_line", "is_cancelled", "keeps_frame", "on_cancel", "on_line_free")

    def __init__(self) -> None:
        self.answer: Answered | None = None
        self.keeps_frame = False
        """Whether the frame of the request is in use until the answer."""
        self.holds_line = False
        """Whether the connection reads no further request before this answer: the answer may be large, or the request
        is not handled yet."""
        self.on_line_free: Callable[[], None] | None = None
        """What the connection does when the answer holds the line no longer, and is still to come."""
        self.is_cancelled = False
        self._on_ready: Callable[[Answered], None] | None = None
        self.on_cancel: Callable[[], None] | None = None

    def complete(self, answer: Answered) -> None:
        if self.is_cancelled:
            return
        self.answer = answer
        # Both refer to this object: break the cycle, so that no memory waits for the garbage collector.
        on_ready, self._on_ready, self.on_cancel, self.on_line_free = self._on_ready, None, None, None
        if on_ready is not None:
            on_ready(answer)

    def complete_by(self, made: Callable[[_Outcome], Answer]) -> Callable[[_Outcome], None]:
        """Return a callback that completes the answer: it is made of what the callback gets, on a stack of its own."""
        return lambda outcome: self.complete(lambda: made(outcome))

    def free_line(self) -> None:
        """Let the connection read further requests before this answer."""
        if self.holds_line:
            self.holds_line = False
            if self.on_line_free is not None:
                self.on_line_free()

    def now_or_later(self) -> Parts | Answer | Deferred:
        """Return the answer if it is complete, else this object."""
        return self if self.answer is None else answer_of(self.answer)

    def on_ready(self, callback: Callable[[Answered], None]) -> None:
        if self.answer is not None:
            callback(self.answer)
        else:
            self._on_ready = callback

    def cancel(self) -> None:
        self.is_cancelled = True
        on_cancel, self._on_ready, self.on_cancel, self.on_line_free = self.on_cancel, None, None, None
        if on_cancel is not None:
            on_cancel()


class PendingResponse(NamedTuple):
    """A deferred answer, and how to encode it; that may raise what `Dispatcher.dispatch` raises."""

    deferred: Deferred
    frame: Callable[[Answered], list[Part]]
    keeps_frame: bool = False
    """Whether the frame of the request is still in use."""


TakeRun = Callable[[memoryview, int, int, int, Client, int], tuple[int, list[Part] | PendingResponse] | None]
"""`ProduceRuns.take`: the requests that are handled as one, at the front of what was received."""


class CloseConnection(Exception):  # noqa: N818 - an order, not an error
    """Close the connection, as no answer can report the problem; the text is logged."""


def answer_and_hang_up(client: Client, answer: Answer, reason: str, delay_ms: int, scheduler: Scheduler) -> Deferred:
    """Answer after `delay_ms`, take no requests until then, and close the connection."""
    deferred = Deferred()
    deferred.holds_line = True

    def finish() -> None:
        deferred.complete(answer)
        client.hang_up(reason)

    deferred.on_cancel = scheduler.call_later(delay_ms, finish).cancel
    return deferred


Reply = Parts | Answer | Deferred | None
"""Encoded parts, a mapping for kio to encode, an answer to come, or no answer at all."""
