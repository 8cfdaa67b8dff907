"""Dispatches the requests of a connection with faults; it stands before the broker's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler, Timer
from highwater.broker.faults import effects
from highwater.broker.faults.answers import decode_request, names_topics, refused, rewritten, with_error
from highwater.broker.faults.injector import Hit, Injector
from highwater.broker.faults.machine import FaultyClock, FaultyFiles
from highwater.broker.faults.request import FaultRequest
from highwater.broker.handlers.shared.reply import Answered, Client, CloseConnection, Deferred, PendingResponse
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, METADATA, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from highwater.kafka.protocol.frame import Part, RequestHeader, read_request_header

_Effect = TypeVar("_Effect", bound=effects.Effect)
Dispatch = Callable[[memoryview, Client, int], list[Part] | PendingResponse | None]
_BEFORE_LOGIN: Final = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)


class Surroundings(Protocol):
    """What faults may do to the broker, and what they need to know of it."""

    injector: Injector
    files: FaultyFiles
    clock: FaultyClock
    scheduler: Scheduler

    def topic_name(self, topic: object) -> str:
        """The name of a topic that a request has as name or id."""

    def move_log_start(self, topic: str) -> None: ...


class FaultyDispatch:
    """The requests of one connection."""

    def __init__(
        self,
        surroundings: Surroundings,
        dispatch: Dispatch,
        number: int,
        slow_down: Callable[[int], None],
    ) -> None:
        """`number`: of the connection. `slow_down` gets the bytes per second that it may send from now on."""
        self.surroundings = surroundings
        self.handle = dispatch
        self.number = number
        self.slow_down = slow_down
        self.swapped: _Course | None = None
        """The request whose answer goes out after that of the next one."""

    def dispatch(self, frame: memoryview, client: Client, received_ns: int) -> list[Part] | PendingResponse | None:
        """Return and raise what `Dispatcher.dispatch` does."""
        surroundings = self.surroundings
        if surroundings.injector.is_idle and self.swapped is None:
            return self.handle(frame, client, received_ns)
        authentication = client.authentication
        if authentication is not None and authentication.takes_bare_tokens:
            return self.handle(frame, client, received_ns)
        header = read_request_header(frame)
        api = APIS.get(header.api_key)
        is_stranger = authentication is not None and not authentication.has_user
        if api is None or not api.serves(header.api_version) or (is_stranger and api.key not in _BEFORE_LOGIN):
            return self.handle(frame, client, received_ns)
        kept = memoryview(bytes(frame))
        request = FaultRequest(
            api,
            header.api_version,
            header.correlation_id,
            header.client_id or "",
            client.principal,
            client.listener.name,
            self.number,
            read_topics=partial(self._topics, header, kept),
        )
        hit = surroundings.injector.on_request(request, surroundings.clock.monotonic_ns() // 1_000_000)
        if hit is None and self.swapped is None:
            return self.handle(frame, client, received_ns)
        return _Course(self, header, kept, client, received_ns, hit, request).begin()

    def _topics(self, header: RequestHeader, frame: memoryview) -> tuple[str, ...]:
        request = decode_request(APIS[header.api_key], header.api_version, frame, header.body_position)
        return tuple(map(self.surroundings.topic_name, names_topics(request)))


class _Place:
    """The place of an answer in the line of its connection."""

    def __init__(self) -> None:
        self.deferred = Deferred()
        self._parts: list[Part] = []
        self._error: Exception | None = None

    def pending(self) -> PendingResponse:
        return PendingResponse(self.deferred, self._result)

    def end(self, parts: list[Part], error: Exception | None = None) -> None:
        self._parts, self._error = parts, error
        self.deferred.complete(parts)

    def _result(self, _: Answered) -> list[Part]:
        error, self._error = self._error, None  # Its traceback refers to this object.
        if error is not None:
            raise error
        return self._parts


class _Course:
    """One request that is hit: from its frame to the bytes of its answer."""

    def __init__(
        self,
        owner: FaultyDispatch,
        header: RequestHeader,
        frame: memoryview,
        client: Client,
        received_ns: int,
        hit: Hit | None,
        request: FaultRequest,
    ) -> None:
        self._owner = owner
        self._header = header
        self._api = APIS[header.api_key]
        self._frame = frame
        self._client = client
        self._received_ns = received_ns
        self._hit = hit
        self._request = request
        self._place = _Place()
        self._swapped_answer: bytes | None = None
        self._swap_timer: Timer | None = None
        self._is_refused = False
        """Whether the answer was made without the broker."""

    def _all(self, kind: type[_Effect]) -> list[_Effect]:
        return [] if self._hit is None else [effect for effect in self._hit.effects if isinstance(effect, kind)]

    def begin(self) -> PendingResponse:
        surroundings = self._owner.surroundings
        for slow in self._all(effects.Slow):
            self._owner.slow_down(slow.bytes_per_s)
        for jump in self._all(effects.JumpClock):
            surroundings.clock.moved_ms += jump.ms
        if self._all(effects.MoveLogStart):
            for topic in self._request.topics:
                surroundings.move_log_start(topic)
        # As with Kafka, which takes one request of a connection at a time. The client of swapped answers sends on.
        place, swaps = self._place, self._all(effects.Swap)
        place.deferred.holds_line = not swaps
        if self._owner.swapped is not None:
            self._owner.swapped.swap_places(self)
        elif swaps:
            self._owner.swapped = self
            self._swap_timer = surroundings.scheduler.call_later(swaps[0].wait_ms, self._end_swap)
        self._after(sum(delay.before_ms for delay in self._all(effects.Delay)), self._handle)
        return place.pending()

    def swap_places(self, following: _Course) -> None:
        """Exchange the places with the next request, whether the answer to this one is there or still to come."""
        assert self._swap_timer is not None
        self._swap_timer.cancel()
        following._place.deferred.on_cancel = self._place.deferred.on_cancel
        self._place, following._place = following._place, self._place
        self._end_swap()

    def _end_swap(self) -> None:
        if self._owner.swapped is self:
            self._owner.swapped = None
            if self._swapped_answer is not None:
                self._end([self._swapped_answer])

    def _after(self, delay_ms: int, then: Callable[[], None]) -> None:
        if delay_ms:
            self._place.deferred.on_cancel = self._owner.surroundings.scheduler.call_later(delay_ms, then).cancel
        else:
            then()

    def _end(self, parts: list[Part], error: Exception | None = None) -> None:
        if self._owner.swapped is self:
            self._owner.swapped = None
        self._place.end(parts, error)

    def _handle(self) -> None:
        try:
            self._handle_now()
        except Exception as error:
            self._end([], error)

    def _handle_now(self) -> None:
        if any(not drop.is_handled for drop in self._all(effects.Drop)):
            raise CloseConnection("a fault drops it")
        if any(not silence.is_handled for silence in self._all(effects.Silence)):
            return
        for fail in self._all(effects.Fail):
            refusal = self._refusal(fail)
            if refusal is not None:
                self._is_refused = True
                self._answer(refusal)
                return
        reply = None
        with self._owner.surroundings.files.failing(self._all(effects.Disk)):
            for _ in range(1 + len(self._all(effects.Twice))):
                # A copy, as an append writes offsets into the records.
                frame = memoryview(bytearray(self._frame))
                reply = self._owner.handle(frame, self._client, self._received_ns)
        if reply is None:
            self._end([])
        elif isinstance(reply, PendingResponse):
            self._place.deferred.on_cancel = reply.deferred.cancel
            reply.deferred.on_ready(partial(self._late, reply))
        else:
            self._answer(b"".join(reply))

    def _refusal(self, fail: effects.Fail) -> bytes | None:
        """The answer to a request that is not handled; None if it has to be handled to have one.

        Those are requests that name nothing, and all of Metadata: a client that gets an error still needs the brokers.
        """
        header = self._header
        if header.api_key == METADATA:
            return None
        request = decode_request(self._api, header.api_version, self._frame, header.body_position)
        if header.api_key == PRODUCE and request.acks == 0:
            raise CloseConnection("a fault fails a Produce without an answer")
        return refused(self._api, header.api_version, header.correlation_id, request, fail.error)

    def _late(self, reply: PendingResponse, answered: Answered) -> None:
        try:
            self._answer(b"".join(reply.frame(answered)))
        except Exception as error:
            self._end([], error)

    def _answer(self, answer: bytes) -> None:
        if any(drop.is_handled for drop in self._all(effects.Drop)):
            raise CloseConnection("a fault drops it")
        if any(silence.is_handled for silence in self._all(effects.Silence)):
            return
        version = self._header.api_version
        errors = [report.error for report in self._all(effects.Report)]
        if not self._is_refused:
            errors += [fail.error for fail in self._all(effects.Fail)]
        for error in errors:
            answer = rewritten(self._api, version, answer, partial(_reported, error))
        for rewrite in self._all(effects.Rewrite):
            answer = rewritten(self._api, version, answer, rewrite.change)
        for spoil in self._all(effects.Spoil):
            assert self._hit is not None
            answer = spoil.change(answer, self._hit.random)
        self._after(sum(delay.after_ms for delay in self._all(effects.Delay)), partial(self._send, answer))

    def _send(self, answer: bytes) -> None:
        if self._owner.swapped is self:
            self._swapped_answer = answer
            return
        cuts = self._all(effects.Cut)
        hang_ups = self._all(effects.HangUp)
        if cuts or hang_ups:
            for cut in cuts:
                answer = answer[: len(answer) * cut.percent // 100]
            # Later, when the connection knows that this answer is to come.
            later = self._owner.surroundings.scheduler.call_later(0, partial(self._send_and_hang_up, answer))
            self._place.deferred.on_cancel = later.cancel
            return
        self._end([answer])

    def _send_and_hang_up(self, answer: bytes) -> None:
        self._end([answer])
        self._client.hang_up("a fault ends it after this answer")


def _reported(error: ErrorCode, answer: Any) -> Any:
    return with_error(answer, error)[0]
