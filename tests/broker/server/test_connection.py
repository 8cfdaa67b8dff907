"""One connection on a transport and a loop that are not there."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from highwater.broker.handlers.shared.reply import Client as Peer
from highwater.broker.handlers.shared.reply import CloseConnection, Deferred, PendingResponse
from highwater.broker.security.sasl import PlainExchange, SaslSettings
from highwater.broker.server.connection import LOGIN_TIMEOUT_MS, MAX_OUTSTANDING, WRITE_HIGH_BYTES, Connection
from highwater.broker.server.strangers import Strangers
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.primitives import MalformedRequestError
from tests.broker.handlers.harness import LISTENER, ManualScheduler


class Transport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_reading = True
        self.is_closing = False
        self.is_aborted = False
        self.socket: socket.socket | None = None
        self.peer: tuple[Any, ...] = ("192.0.2.7", 4711)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert high > low

    def get_extra_info(self, name: str) -> Any:
        return {"peername": self.peer, "socket": self.socket}.get(name)

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, parts: list[Part]) -> None:
        assert not self.is_closing
        self.writes.append(b"".join(map(bytes, parts)))

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def close(self) -> None:
        self.is_closing = True

    def abort(self) -> None:
        self.is_aborted = True


class Echo:
    """Answers a frame with itself, at once or, for those beginning with "later", when told to."""

    def __init__(self) -> None:
        self.later: dict[bytes, Deferred] = {}
        self.seen: list[bytes] = []
        self.client: Peer | None = None

    def dispatch(self, frame: memoryview, client: Peer, received_ns: int) -> list[Part] | PendingResponse | None:
        request = bytes(frame)
        self.seen.append(request)
        self.client = client
        if request == b"malformed":
            raise MalformedRequestError("it makes no sense")
        if request == b"hang up":
            raise CloseConnection("as told")
        if request == b"bug":
            raise ZeroDivisionError
        if request == b"mute":
            client.mute(5000)
        if request == b"silent":
            return None
        if request.startswith(b"later"):
            deferred = self.later[request] = Deferred()
            deferred.holds_line = request == b"later large"
            return PendingResponse(deferred, lambda answer: list(cast(list[Part], answer)))
        return [request + b";"]

    def take_run(
        self, buffer: memoryview, start: int, end: int, most_frame_bytes: int, client: Peer, received_ns: int
    ) -> tuple[int, list[Part] | PendingResponse] | None:
        """Requests of one byte each are handled as one; "x" are answered later, as one too."""
        first, position = bytes(buffer[start + 4 : start + 5]), start
        while bytes(buffer[position : position + 5]) == b"\0\0\0\1" + first and position < end:
            position += 5
        if first not in (b"r", b"x") or position == start:
            return None
        answer = first * ((position - start) // 5)
        if first == b"r":
            return position, [answer]
        deferred = self.later[first] = Deferred()
        return position, PendingResponse(deferred, lambda _: [answer])


class Client:
    def __init__(
        self, sasl: SaslSettings | None = None, peer: tuple[Any, ...] | None = None, *, takes_runs: bool = False
    ) -> None:
        self.echo = Echo()
        self.loop = ManualScheduler()
        self.transport = Transport()
        self.transport.peer = peer or self.transport.peer
        self.lost: list[Connection] = []
        self.connection = Connection(
            cast(Any, self.echo.dispatch),
            LISTENER,
            cast(Any, self.loop),
            strangers=Strangers(),
            max_frame_bytes=1000,
            take_run=cast(Any, self.echo.take_run) if takes_runs else None,
            sasl=sasl,
            on_made=lambda _: None,
            on_lost=self.lost.append,
        )
        self.connection.connection_made(cast(Any, self.transport))

    def send(self, *requests: bytes) -> None:
        self.send_raw(b"".join(struct.pack(">i", len(request)) + request for request in requests))

    def send_raw(self, data: bytes) -> None:
        while data:
            room = self.connection.get_buffer(65536)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)

    def complete(self, request: bytes) -> None:
        self.echo.later[request].complete([request + b";"])

    @property
    def received(self) -> bytes:
        return b"".join(self.transport.writes)


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),  # a listener of IPv6 that takes IPv4 too
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_the_host_of_a_client_is_as_java_writes_it(address: str, host: str) -> None:
    client = Client(peer=(address, 4711, 0, 0))
    client.send(b"request")
    assert client.echo.client is not None
    assert client.echo.client.host == host
    assert client.connection.peer == f"{address}:4711"


def test_answers_of_one_wake_up_leave_in_one_write(client: Client) -> None:
    client.send(b"a", b"b", b"silent", b"c")
    assert client.transport.writes == [b"a;b;c;"]


def test_answers_keep_the_order_of_requests_whatever_order_they_come_in(client: Client) -> None:
    client.send(b"a", b"later 1", b"b", b"later 2", b"later 3", b"c")
    assert client.received == b"a;"
    client.complete(b"later 2")
    client.loop.run()
    assert client.received == b"a;"
    client.complete(b"later 1")
    client.loop.run()
    assert client.received == b"a;later 1;b;later 2;"
    client.complete(b"later 3")
    client.loop.run()
    assert client.received == b"a;later 1;b;later 2;later 3;c;"
    client.send(b"d")
    assert client.received.endswith(b"c;d;")


def test_answers_of_requests_that_are_handled_as_one_keep_their_place() -> None:
    client = Client(takes_runs=True)
    client.send(b"a", b"r", b"r", b"r", b"b")
    assert client.transport.writes == [b"a;rrrb;"]
    client.send(b"x", b"x", b"r", b"r", b"c")
    assert client.received == b"a;rrrb;"
    client.complete(b"x")
    client.loop.run()
    assert client.received == b"a;rrrb;xxrrc;"
    assert client.echo.seen == [b"a", b"b", b"c"]


def test_a_refusal_that_is_still_encoded_is_sent_before_the_connection_closes(client: Client) -> None:
    client.send(b"later refusal")
    assert client.echo.client is not None
    client.echo.client.hang_up("Authentication failed")
    assert not client.transport.is_closing
    client.complete(b"later refusal")
    client.loop.run()
    assert (client.received, client.transport.is_closing) == (b"later refusal;", True)


def test_answers_that_come_together_leave_in_one_write(client: Client) -> None:
    client.send(b"later 1", b"later 2")
    client.complete(b"later 1")
    client.complete(b"later 2")
    client.loop.run()
    assert client.transport.writes == [b"later 1;later 2;"]


def test_too_many_outstanding_answers_stop_the_reading(client: Client) -> None:
    requests = [b"later %d" % number for number in range(MAX_OUTSTANDING + 5)]
    client.send(*requests)
    assert len(client.echo.seen) == MAX_OUTSTANDING
    assert not client.transport.is_reading
    for request in requests[:MAX_OUTSTANDING]:
        client.complete(request)
    client.loop.run()
    assert client.echo.seen == requests
    assert client.transport.is_reading


def test_a_client_that_does_not_take_its_answers_is_not_read_from(client: Client) -> None:
    client.connection.pause_writing()
    client.send(b"a")
    assert client.echo.seen == []
    assert not client.transport.is_reading
    client.connection.resume_writing()
    assert client.received == b"a;"
    assert client.transport.is_reading


def test_a_long_burst_is_written_in_pieces(client: Client) -> None:
    count = WRITE_HIGH_BYTES // 900 + 10
    client.send(*[b"x" * 900] * count)
    assert len(client.received) == 901 * count
    assert max(map(len, client.transport.writes)) <= WRITE_HIGH_BYTES + 1000


@pytest.mark.parametrize(
    ("request_bytes", "said"),
    [
        (b"malformed", "closing the connection of 192.0.2.7:4711: malformed request: it makes no sense"),
        (b"hang up", "closing the connection of 192.0.2.7:4711: as told"),
    ],
)
def test_a_bad_request_closes_the_connection_with_one_line_after_the_answers_before_it(
    client: Client, caplog: pytest.LogCaptureFixture, request_bytes: bytes, said: str
) -> None:
    client.send(b"before", request_bytes, b"after")
    assert client.received == b"before;"
    assert client.transport.is_closing
    assert client.echo.seen[-1] == request_bytes
    assert caplog.messages == [said]


def test_an_impossible_frame_length_closes_the_connection(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.send_raw(struct.pack(">i", 1001))
    assert client.transport.is_closing
    assert "socket.request.max.bytes allows 1000" in caplog.text


def test_a_bug_is_logged_with_its_traceback_and_closes_the_connection(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(b"bug")
    assert client.transport.is_closing
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_a_lost_connection_cancels_what_it_waits_for(client: Client) -> None:
    client.send(b"later 1", b"later 2")
    cancelled: list[str] = []
    for name, deferred in client.echo.later.items():
        deferred.on_cancel = _append_to(cancelled, name.decode())
    client.connection.connection_lost(None)
    assert cancelled == ["later 1", "later 2"]
    assert client.lost == [client.connection]
    client.complete(b"later 1")
    client.loop.run()
    assert client.received == b""


def _append_to(into: list[str], name: str) -> Callable[[], None]:
    return lambda: into.append(name)


def test_a_stopping_connection_takes_no_requests_but_gives_its_answers(client: Client) -> None:
    client.send(b"later 1")
    client.connection.stop_reading()
    is_waiting = [client.connection.is_waiting]
    client.complete(b"later 1")
    client.loop.run()
    is_waiting.append(client.connection.is_waiting)
    assert client.received == b"later 1;"
    assert is_waiting == [True, False]
    assert not client.transport.is_reading


def test_idle_connections_are_closed_and_waiting_ones_are_not(client: Client) -> None:
    connection = client.connection
    connection.sweep(0, 1000)
    connection.sweep(999, 1000)
    assert not client.transport.is_closing
    client.send(b"later 1")
    for now_ms in (2000, 4000, 6000):
        connection.sweep(now_ms, 1000)
    assert not client.transport.is_closing
    client.complete(b"later 1")
    client.loop.run()
    connection.sweep(7000, 1000)
    assert client.transport.is_closing


def test_before_the_login_a_client_may_hold_a_frame_of_the_size_for_it_and_no_more() -> None:
    settings = SaslSettings({"PLAIN": lambda: PlainExchange({"ada": "secret"})}, max_token_bytes=300)
    holding, greedy = Client(settings), Client(settings)
    holding.send_raw(struct.pack(">i", 300) + bytes(299))
    assert not holding.transport.is_closing
    greedy.send_raw(struct.pack(">i", 301))
    assert greedy.transport.is_closing


def test_a_client_that_does_not_log_in_in_time_is_cut() -> None:
    settings = SaslSettings({"PLAIN": lambda: PlainExchange({"ada": "secret"})})
    slow, quick = Client(settings), Client(settings)
    for client in (slow, quick):
        client.connection.sweep(0, -1)
    authentication = quick.connection._client.authentication
    assert authentication is not None
    authentication.handshake("PLAIN", 1)
    assert authentication.authenticate(b"\0ada\0secret", 0).user == "ada"
    for now_ms in range(1000, LOGIN_TIMEOUT_MS, 1000):
        slow.send(b"a")  # a byte now and then does not help
        for client in (slow, quick):
            client.connection.sweep(now_ms, -1)
        assert not slow.transport.is_aborted
    for client in (slow, quick):
        client.connection.sweep(LOGIN_TIMEOUT_MS, -1)
    assert slow.transport.is_aborted
    assert not quick.transport.is_aborted


def test_a_client_that_says_nothing_is_cut_in_time_where_there_is_no_login(caplog: pytest.LogCaptureFixture) -> None:
    silent, quick = Client(), Client()
    quick.send(b"x")
    for now_ms in (0, LOGIN_TIMEOUT_MS - 1):
        for each in (silent, quick):
            each.connection.sweep(now_ms, -1)
        assert not silent.transport.is_aborted
    for each in (silent, quick):
        each.connection.sweep(LOGIN_TIMEOUT_MS, -1)
    assert silent.transport.is_aborted
    assert not quick.transport.is_aborted
    assert [f"no bytes within {LOGIN_TIMEOUT_MS} ms" in line for line in caplog.messages] == [True]


def test_idle_connections_stay_when_no_limit_is_set(client: Client) -> None:
    client.send(b"x")
    client.connection.sweep(0, -1)
    client.connection.sweep(10**12, -1)
    assert not client.transport.is_closing
    assert not client.transport.is_aborted


def test_a_closed_connection_whose_client_takes_nothing_is_cut(client: Client) -> None:
    client.send(b"malformed")
    client.connection.sweep(0, -1)
    client.connection.sweep(10_000, -1)
    assert client.transport.is_aborted


def test_a_muted_client_gets_its_answer_and_is_not_heard_until_its_time_is_up(client: Client) -> None:
    client.send(b"mute", b"a")
    assert client.received == b"mute;"
    assert not client.transport.is_reading
    client.loop.run(4)
    assert client.echo.seen == [b"mute"]
    client.connection.sweep(0, 1)
    client.connection.sweep(10**6, 1)
    assert not client.transport.is_closing
    client.loop.run(1)
    assert client.received == b"mute;a;"
    assert client.transport.is_reading


def test_the_timer_of_a_muted_client_goes_with_it(client: Client) -> None:
    client.send(b"mute")
    client.connection.connection_lost(None)
    assert client.loop.pending_timers == 0


def test_nothing_is_taken_before_an_answer_that_may_be_large(client: Client) -> None:
    client.send(b"later large")
    is_reading = [client.transport.is_reading]
    client.send(b"a")
    is_reading.append(client.transport.is_reading)
    assert client.echo.seen == [b"later large"]
    client.complete(b"later large")
    client.loop.run()
    assert client.received == b"later large;a;"
    is_reading.append(client.transport.is_reading)
    assert is_reading == [True, False, True]


def test_an_answer_before_a_large_one_does_not_open_the_line(client: Client) -> None:
    client.send(b"later 1", b"later large", b"a")
    client.complete(b"later 1")
    client.loop.run()
    assert client.echo.seen == [b"later 1", b"later large"]
    client.complete(b"later large")
    client.loop.run()
    assert client.received == b"later 1;later large;a;"


def test_many_bytes_waiting_in_line_stop_the_reading(client: Client) -> None:
    count = WRITE_HIGH_BYTES // 900 + 100
    client.send(b"later 1")
    client.send(*[b"x" * 900] * count)
    assert len(client.echo.seen) < WRITE_HIGH_BYTES // 900 + 3
    assert not client.transport.is_reading
    client.complete(b"later 1")
    client.loop.run()
    assert len(client.received) == len(b"later 1;") + 901 * count


def test_a_client_that_leaves_while_nothing_is_read_of_it_is_noticed(client: Client) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client.transport.socket = ours
        client.send(b"mute")
        theirs.sendall(b"not read yet")
        client.connection.sweep(1000, 60_000)
        assert not client.transport.is_aborted
        theirs.close()
        client.connection.sweep(2000, 60_000)
        assert client.transport.is_aborted
