"""One client's connection: frames in, answers out, in the order of the requests.

A request whose answer has to wait does not hold up the ones behind it; their answers wait in line. All whole frames of
one wake-up are handled before anything is written, and their answers leave in one write.

Back-pressure: while too many answers are outstanding, too many bytes of answers wait in line, a large one is yet to
come, the client does not take what it is sent, or it is over its quota, nothing more is read from it, and frames
already received stay where they are. So a connection holds WRITE_HIGH_BYTES and one answer more at most.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

from highwater.broker.handlers.shared.reply import (
    Answered,
    Client,
    CloseConnection,
    Deferred,
    Listener,
    PendingResponse,
    TakeRun,
)
from highwater.broker.security.authorizer import java_address
from highwater.broker.server.strangers import Strangers, not_kafka
from highwater.kafka.protocol.foreign import HEAD_BYTES
from highwater.kafka.protocol.frame import FrameReceiver, Part
from highwater.kafka.protocol.primitives import MalformedRequestError

if TYPE_CHECKING:
    from highwater.broker.security.sasl import SaslSettings  # most brokers have no listener with SASL

_logger = logging.getLogger(__name__)

MAX_OUTSTANDING: Final = 100
"""Answers that one connection may wait for at a time; clients keep far fewer in flight, but need not."""
LOGIN_TIMEOUT_MS: Final = 30_000
"""How long a client may take to log in, or to send its first byte where there is no login. Clients give up by then:
librdkafka after `socket.connection.setup.timeout.ms`, Java's after `request.timeout.ms`, both 30 s. Kafka has
`connections.max.idle.ms` alone, 10 minutes, which begin anew with each byte that comes."""
WRITE_HIGH_BYTES: Final = 1024 * 1024
WRITE_LOW_BYTES: Final = 256 * 1024


Dispatch = Callable[[memoryview, Client, int], list[Part] | PendingResponse | None]
"""`Dispatcher.dispatch`: a frame, who sent it, and when it was there."""


class _Slot:
    """The place of one answer in the line."""

    __slots__ = ("deferred", "parts")

    def __init__(self, parts: list[Part] | None, deferred: Deferred | None) -> None:
        self.parts = parts
        self.deferred = deferred


class _EndedTransport(asyncio.Transport):
    """Replaces the transport of a connection that was lost."""

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


_ENDED: Final = _EndedTransport()


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_client",
        "_closing",
        "_dispatch",
        "_end_reason",
        "_flush_scheduled",
        "_frames",
        "_is_held",
        "_line_bytes",
        "_login_since_ms",
        "_loop",
        "_max_frame_bytes",
        "_mute_timer",
        "_on_lost",
        "_on_made",
        "_out",
        "_out_bytes",
        "_principal_of_certificate",
        "_reading_paused",
        "_received_ns",
        "_slots",
        "_stopping",
        "_strangers",
        "_take_run",
        "_transport",
        "_writing_paused",
        "idle_since_ms",
        "peer",
        "was_active",
    )

    def __init__(
        self,
        dispatch: Dispatch,
        listener: Listener,
        loop: asyncio.AbstractEventLoop,
        *,
        strangers: Strangers,
        max_frame_bytes: int,
        take_run: TakeRun | None = None,
        sasl: SaslSettings | None = None,
        principal_of_certificate: Callable[[bytes | None], str] | None = None,
        on_made: Callable[[Connection], None],
        on_lost: Callable[[Connection], None],
    ) -> None:
        self._dispatch = dispatch
        self._take_run = take_run
        self._client = Client(
            listener,
            authentication=None if sasl is None else sasl.of_connection(),
            connected_ns=monotonic_ns(),
        )
        self._principal_of_certificate = principal_of_certificate
        self._strangers = strangers
        self._loop = loop
        self._on_made = on_made
        self._on_lost = on_lost
        self._max_frame_bytes = max_frame_bytes
        # Who has not said who he is makes the broker hold no large frames.
        self._frames = FrameReceiver(max_frame_bytes if sasl is None else min(sasl.max_token_bytes, max_frame_bytes))
        self._slots: deque[_Slot] = deque()
        self._out: list[Part] = []
        self._out_bytes = 0
        self._line_bytes = 0
        self._is_held = False
        self._flush_scheduled = False
        self._reading_paused = False
        self._writing_paused = False
        self._closing = False
        self._stopping = False
        self._mute_timer: asyncio.TimerHandle | None = None
        self._received_ns = 0
        self.peer = "?"
        self.was_active = True
        self.idle_since_ms = 0
        self._login_since_ms: int | None = None
        self._end_reason: str | None = None
        """Why the connection closes after the last answer that waits; None while it does not."""

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Not before: a handshake of TLS that fails would leave a cycle with all buffers of TLS to the collector.
        self._client.connect(self.mute, self._hang_up_in_order, self._allow_large_frames)
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        address = transport.get_extra_info("peername")
        self._client.host = java_address(address[0]) if address else ""
        self._client.port = address[1] if address else 0
        self.peer = f"{address[0]}:{address[1]}" if address else "?"
        if self._principal_of_certificate is not None:
            certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self._client.principal = self._principal_of_certificate(certificate)
        self._on_made(self)

    def _allow_large_frames(self) -> None:
        self._frames.max_frame_bytes = self._max_frame_bytes

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self.was_active = True
        self._received_ns = monotonic_ns()
        self._frames.received(nbytes)
        self._handle_frames()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        for slot in self._slots:
            if slot.deferred is not None:
                slot.deferred.cancel()
        self._slots.clear()
        self._out.clear()
        self._on_lost(self)
        self._client.disconnect()
        # TLS of the event loop refers to this object, so that all its buffers would wait for the collector.
        self._transport = _ENDED

    # Requests

    @property
    def _must_wait(self) -> bool:
        return (
            self._stopping
            or self._writing_paused
            or self._mute_timer is not None
            or self._is_held
            or self._line_bytes >= WRITE_HIGH_BYTES
            or len(self._slots) >= MAX_OUTSTANDING
        )

    def _handle_frames(self) -> None:
        answer: list[Part] | PendingResponse | None
        try:
            while not (self._closing or self._must_wait or self._frames.is_empty):
                answer = self._answer_of_run()
                if answer is None:
                    frame = self._frames.next()
                    if frame is None:
                        break
                    answer = self._dispatch(frame, self._client, self._received_ns)
                if not answer:
                    continue
                if isinstance(answer, PendingResponse):
                    self._wait_for(answer)
                elif self._slots:
                    self._line_up(answer)
                else:
                    self._put(answer)
        except Exception as error:
            self._failed(error)
        self._flush()
        # While a fetch waits and nothing came after it, reading goes on: only so is it noticed that the client left.
        only_listens = self._is_held and self._frames.is_empty
        if self._must_wait and not only_listens and not self._reading_paused and not self._closing:
            self._reading_paused = True
            self._transport.pause_reading()

    def _answer_of_run(self) -> list[Part] | PendingResponse | None:
        """The answers to the requests at the front that are handled as one; None if there are none such."""
        if self._take_run is None:
            return None
        buffer, start, end = self._frames.untaken
        taken = self._take_run(buffer, start, end, self._frames.max_frame_bytes, self._client, self._received_ns)
        if taken is None:
            return None
        self._frames.skip_to(taken[0])
        return taken[1]

    def _failed(self, error: Exception) -> None:
        """Close the connection: a request has no answer that could say this."""
        if isinstance(error, MalformedRequestError):
            listener, has_sasl = self._client.listener, self._client.authentication is not None
            reason = not_kafka(self._frames.head(HEAD_BYTES), listener, has_sasl=has_sasl)
            self._strangers.tell(self.peer, reason or f"malformed request: {error}", self._received_ns // 1_000_000)
            self._abort()
        elif isinstance(error, CloseConnection):
            self._hang_up(str(error))
        else:
            text = "closing the connection of %s: a bug in the broker made a request fail"
            _logger.error(text, self.peer, exc_info=error)
            self._abort()

    def _line_up(self, parts: list[Part]) -> None:
        self._slots.append(_Slot(parts, None))
        self._line_bytes += sum(map(len, parts))

    def _wait_for(self, answer: PendingResponse) -> None:
        slot = _Slot(None, answer.deferred)
        self._slots.append(slot)
        if answer.keeps_frame:
            self._frames.give_away()
        if answer.deferred.holds_line:
            self._is_held = True
            answer.deferred.on_line_free = self._line_free

        def ready(reply: Answered) -> None:
            slot.deferred = None
            try:
                slot.parts = answer.frame(reply)
            except Exception as error:
                self._failed(error)
                return
            if answer.deferred.holds_line:
                self._is_held = False
            self._line_bytes += sum(map(len, slot.parts))
            self._send_ready()

        answer.deferred.on_ready(ready)

    def _line_free(self) -> None:
        self._is_held = False
        self._loop.call_soon(self._go_on)

    def _send_ready(self) -> None:
        """Send the answers at the head of the line that are there."""
        slots = self._slots
        while slots and (parts := slots[0].parts) is not None:
            slots.popleft()
            self._line_bytes -= sum(map(len, parts))
            self._put(parts)
        if self._end_reason is not None and not slots:
            self._hang_up(self._end_reason)
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flush_scheduled = False
        self._flush()
        self._go_on()

    def _go_on(self) -> None:
        """Take up reading again when what stopped it is over; first the frames that are here already."""
        if self._reading_paused and not self._must_wait and not self._closing:
            self._handle_frames()
            if not self._must_wait and not self._closing:
                self._reading_paused = False
                self._transport.resume_reading()

    def mute(self, duration_ms: int) -> None:
        """Take no requests for so long: the client is over a quota (KIP-219). Of two quotas the longer time counts."""
        if self._closing:
            return
        if self._mute_timer is not None:
            if self._mute_timer.when() >= self._loop.time() + duration_ms / 1000:
                return
            self._mute_timer.cancel()
        self._mute_timer = self._loop.call_later(duration_ms / 1000, self._unmute)
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _unmute(self) -> None:
        self._mute_timer = None
        self._go_on()

    # Answers

    def _put(self, parts: list[Part]) -> None:
        self._out += parts
        for part in parts:
            self._out_bytes += len(part)
        if self._out_bytes >= WRITE_HIGH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._out and not self._closing:
            out, self._out = self._out, []
            self._out_bytes = 0
            self._transport.writelines(out)

    # The end

    def _hang_up_in_order(self, reason: str) -> None:
        """Close the connection after the answers that wait: one that is complete may still be encoded in turns."""
        if self._slots:
            self._end_reason = reason
        else:
            self._hang_up(reason)

    def _hang_up(self, reason: str) -> None:
        _logger.warning("closing the connection of %s: %s", self.peer, reason)
        self._abort()

    def _abort(self) -> None:
        """Send the answers that are due, then close; what waits behind them is dropped."""
        self._flush()
        self._closing = True
        self._transport.close()

    def end_transactions_2(self) -> None:
        """Have a client come again whose version of transactions is not finalised any more.

        It learns that only from the answer to ApiVersions. Until then it would send to a Kafka 3.9 what is refused
        there: records of a partition that nobody added to its transaction.
        """
        if self._client.uses_transactions_2 and not self._closing:
            self._hang_up_in_order("the client is to ask again for features: transaction.version is below 2 now")

    def stop_reading(self) -> None:
        """Take no more requests; answers that are under way still go out."""
        self._stopping = True
        if not self._reading_paused and not self._closing:
            self._reading_paused = True
            self._transport.pause_reading()

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come or to be taken by the client."""
        return bool(self._slots or self._out) or (not self._closing and self._transport.get_write_buffer_size() > 0)

    def close(self) -> None:
        self._abort()

    def _client_has_left(self) -> bool:
        """The transport does not look while reading is paused, and what was not read yet hides the end from a peek."""
        own_socket = self._transport.get_extra_info("socket")
        if own_socket is None or own_socket.fileno() < 0:
            return False
        poller = select.poll()
        poller.register(own_socket.fileno(), select.POLLRDHUP)
        return bool(poller.poll(0))

    def sweep(self, now_ms: int, max_idle_ms: int) -> None:
        """Called from time to time: closes a connection that was idle or without a login for too long, or whose client
        left while nothing was read of it, and frees what it does not need."""
        if self._reading_paused and self._client_has_left():
            self._transport.abort()
            return
        if self._login_since_ms is None:
            self._login_since_ms = now_ms
        authentication = self._client.authentication
        is_known = self._received_ns > 0 if authentication is None else authentication.has_user
        if not is_known and now_ms - self._login_since_ms >= LOGIN_TIMEOUT_MS:
            what = "bytes" if authentication is None else "login"
            self._strangers.tell(self.peer, f"no {what} within {LOGIN_TIMEOUT_MS} ms", now_ms)
            self._transport.abort()
            return
        if self.was_active or self._slots or self._mute_timer is not None:
            self.was_active = False
            self.idle_since_ms = now_ms
            return
        self._frames.shrink()
        if self._closing:
            self._transport.abort()  # it does not take the answers before the end
        elif max_idle_ms >= 0 and now_ms - self.idle_since_ms >= max_idle_ms:
            _logger.debug("closing the connection of %s: idle", self.peer)
            self._abort()
