"""The network between processes: connections that delay, stall and break, and ends that are gone, paused or refuse.

Requests and answers are frames as on a wire, so what one broker encodes another decodes. A cut stalls what is under way
in its direction, as TCP does, until it is healed or an end gives up; a break loses what had not arrived, and the sender
cannot know what that was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from highwater.broker.cluster.peers import Endpoint, PeerFailure
from highwater.broker.handlers.dispatch import Dispatcher
from highwater.broker.handlers.shared.reply import Answered, Client, CloseConnection, Listener, PendingResponse
from highwater.broker.security.principal import ANONYMOUS
from highwater.kafka.protocol.frame import Part
from tests.broker.simulation.link import Link
from tests.broker.simulation.world import Process, World


class Server(Protocol):
    """A process that listens."""

    @property
    def process(self) -> Process: ...

    @property
    def dispatcher(self) -> Dispatcher: ...


class ConnectionUser(Protocol):
    """The client's end of a connection."""

    def established(self) -> None: ...

    def received(self, answer: bytes) -> None: ...

    def broken(self, failure: PeerFailure) -> None:
        """The end of it; also when it was never established."""


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """That were sent, by client id, host of the server and API."""
        self.min_delay_ms = 1
        self.max_delay_ms = 1
        self.slow_rate = 0.0
        """How many of the messages take up to `slow_ms`."""
        self.slow_ms = 0
        self.user_of: Callable[[str], str] = lambda host: ANONYMOUS
        """Who comes from a host."""
        self._servers: dict[str, Server] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._rejecting: set[str] = set()
        self._connections: dict[Connection, None] = {}

    def listen(self, host: str, server: Server) -> None:
        self._servers[host] = server

    def stop_listening(self, host: str) -> None:
        """The process there ended: its connections break, and new ones are refused."""
        self._servers.pop(host, None)
        for connection in list(self._connections):
            if host in (connection.client_host, connection.server_host):
                connection.break_off(PeerFailure.CLOSED)

    def server(self, host: str) -> Server | None:
        return self._servers.get(host)

    def cut(self, sender: str, receiver: str) -> None:
        self._cuts.add((sender, receiver))
        for connection in self._connections:
            connection.update()

    def heal(self, sender: str, receiver: str) -> None:
        self._cuts.discard((sender, receiver))
        for connection in list(self._connections):
            connection.update()

    def heal_all(self) -> None:
        self._rejecting.clear()
        for sender, receiver in list(self._cuts):
            self.heal(sender, receiver)

    def reject(self, host: str) -> None:
        """A firewall answers what clients send to this host with a reset, as `REJECT --reject-with tcp-reset` does.

        Connections that stand hear of it by what they send next; what the host itself asks others is let through.
        """
        self._rejecting.add(host)

    def reject_no_more(self, host: str) -> None:
        self._rejecting.discard(host)

    def is_rejecting(self, host: str) -> bool:
        return host in self._rejecting

    def is_cut(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self._cuts

    def break_some(self, chance: float, host: str | None = None) -> None:
        """Break connections that stand, each with this chance."""
        for connection in list(self._connections):
            if host in (None, connection.client_host, connection.server_host) and self.world.rng.random() < chance:
                connection.break_off()

    def delay_ms(self) -> int:
        rng = self.world.rng
        if self.slow_rate and rng.random() < self.slow_rate:
            return rng.randint(self.max_delay_ms, self.slow_ms)
        if self.min_delay_ms == self.max_delay_ms:
            return self.min_delay_ms
        return rng.randint(self.min_delay_ms, self.max_delay_ms)

    def connect(
        self,
        client: Process,
        host: str,
        endpoint: Endpoint,
        user: ConnectionUser,
    ) -> Connection:
        connection = Connection(self, client, host, endpoint, user)
        self._connections[connection] = None
        return connection

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)


class Connection:
    """Between a client and whoever listened at the endpoint when it was made."""

    def __init__(
        self,
        network: Network,
        client: Process,
        client_host: str,
        endpoint: Endpoint,
        user: ConnectionUser,
    ) -> None:
        self._network = network
        self.client_host = client_host
        self.server_host = endpoint.host
        self._endpoint = endpoint
        self._user = user
        self._to_client = Link(client, network.delay_ms)
        self._to_server: Link | None = None
        self._served: ServedConnection | None = None
        self._is_over = False
        self._is_asked = False
        self._sent_ms = -1
        self._segment: list[bytes] = []
        """What was sent to the server at that time, and arrives together as long as it has not arrived."""
        network.world.call_later(network.delay_ms(), self._arrive)

    @property
    def client_user(self) -> str:
        return self._network.user_of(self.client_host)

    def _arrive(self) -> None:
        """The first packet is there, unless it is lost on its way; then it is sent again when there is a way."""
        network = self._network
        if self._is_over or self._is_asked:
            return
        if network.is_cut(self.client_host, self.server_host) or network.is_cut(self.server_host, self.client_host):
            return
        self._is_asked = True
        server = network.server(self.server_host)
        if server is None or network.is_rejecting(self.server_host):
            self._to_client.send(lambda: self._end(PeerFailure.REFUSED))
            return
        self._to_server = Link(server.process, network.delay_ms)
        self._served = ServedConnection(self, server, self._endpoint)
        self.update()
        self._to_client.send(self._user.established)

    def update(self) -> None:
        """See what the network lets through by now."""
        network = self._network
        if not self._is_asked:
            network.world.call_later(network.delay_ms(), self._arrive)
        _hold(self._to_client, network.is_cut(self.server_host, self.client_host))
        if self._to_server is not None:
            _hold(self._to_server, network.is_cut(self.client_host, self.server_host))

    def send_to_server(self, frame: bytes) -> None:
        assert self._to_server is not None
        served = self._served
        assert served is not None
        if self._network.is_rejecting(self.server_host):
            self.break_off()
            return
        now_ms = self._network.world.now_ms
        if self._segment and self._sent_ms == now_ms:
            self._segment.append(frame)
            return
        self._sent_ms, self._segment = now_ms, [frame]
        segment = self._segment

        def arrive() -> None:
            frames = segment.copy()
            segment.clear()
            served.received(frames)

        self._to_server.send(arrive)

    def send_to_client(self, answer: bytes) -> None:
        if not self._is_over:
            self._to_client.send(lambda: self._user.received(answer))

    def close(self) -> None:
        """The client hangs up; the server hears of it after what was sent before."""
        if not self._is_over:
            self._is_over = True
            self._to_client.clear()
            self._network.forget(self)
            served = self._served
            if served is not None and self._to_server is not None:
                self._to_server.send(served.lost)

    def break_off(self, failure: PeerFailure = PeerFailure.DISCONNECTED) -> None:
        """Both ends hear that it broke, as soon as that can be heard; some of what was under way had arrived."""
        if self._is_over:
            return
        rng = self._network.world.rng
        server = self._served
        if server is not None and self._to_server is not None:
            was_held = self._to_server.is_held
            lost = self._to_server.clear()
            if not was_held:
                for arrive in lost[: rng.randint(0, len(lost))]:
                    self._to_server.send(arrive)
            self._to_server.send(server.lost)
        was_held = self._to_client.is_held
        lost = self._to_client.clear()
        if not was_held:
            for arrive in lost[: rng.randint(0, len(lost))]:
                self._to_client.send(arrive)
        self._to_client.send(lambda: self._end(failure))

    def _end(self, failure: PeerFailure) -> None:
        if not self._is_over:
            self._is_over = True
            self._to_client.clear()
            self._network.forget(self)
            self._user.broken(failure)


def _hold(link: Link, is_held: bool) -> None:
    if is_held and not link.is_held:
        link.hold()
    elif link.is_held and not is_held:
        link.release()


class _Slot:
    __slots__ = ("answer", "pending")

    def __init__(self, answer: bytes | None, pending: PendingResponse | None) -> None:
        self.answer = answer
        self.pending = pending


class ServedConnection:
    """The server's end: answers go out in the order of requests (highwater.broker.server.connection)."""

    def __init__(self, connection: Connection, server: Server, endpoint: Endpoint) -> None:
        self._connection = connection
        self._server = server
        self._client = Client(
            Listener(endpoint.listener_name, endpoint.host, endpoint.port),
            connection.client_host,
            hang_up=lambda reason: connection.break_off(),
        )
        self._client.principal = connection.client_user
        self._slots: deque[_Slot] = deque()
        self._waiting: deque[bytes] = deque()
        self._is_held = False
        self._is_lost = False

    def received(self, frames: Sequence[bytes]) -> None:
        self._waiting += frames
        self._handle()

    def lost(self) -> None:
        self._is_lost = True
        self._waiting.clear()
        for slot in self._slots:
            if slot.pending is not None:
                slot.pending.deferred.cancel()
        self._slots.clear()

    def _handle(self) -> None:
        while self._waiting and not self._is_held and not self._is_lost:
            try:
                if not self._take_run():
                    frame = memoryview(bytearray(self._waiting.popleft()))
                    self._take(self._server.dispatcher.dispatch(frame, self._client))
            except CloseConnection:
                self._connection.break_off()
                return
        self._send_ready()

    def _take_run(self) -> bool:
        """Have the requests at the front answered that are handled as one; False if there are none."""
        received = bytearray().join(len(frame).to_bytes(4, "big") + frame for frame in self._waiting)
        dispatcher, size = self._server.dispatcher, len(received)
        taken = dispatcher.take_run(memoryview(received), 0, size, size, self._client, dispatcher.monotonic_ns())
        if taken is None:
            return False
        end, answer = taken
        while end:
            end -= 4 + len(self._waiting.popleft())
        self._take(answer)
        return True

    def _take(self, answer: list[Part] | PendingResponse | None) -> None:
        if isinstance(answer, PendingResponse):
            self._wait_for(answer)
        elif answer:
            self._slots.append(_Slot(_joined(answer), None))

    def _wait_for(self, pending: PendingResponse) -> None:
        slot = _Slot(None, pending)
        self._slots.append(slot)
        deferred = pending.deferred
        if deferred.holds_line:
            self._is_held = True
            deferred.on_line_free = self._line_free

        def ready(reply: Answered) -> None:
            slot.answer = _joined(pending.frame(reply))
            slot.pending = None
            self._send_ready()
            if deferred.holds_line:
                self._line_free()

        deferred.on_ready(ready)

    def _line_free(self) -> None:
        self._is_held = False
        self._server.process.call_soon(self._handle)

    def _send_ready(self) -> None:
        while self._slots and (answer := self._slots[0].answer) is not None:
            self._slots.popleft()
            while answer:
                end = 4 + int.from_bytes(answer[:4], "big")
                self._connection.send_to_client(answer[:end])
                answer = answer[end:]


def _joined(parts: list[Part]) -> bytes:
    return b"".join(parts)
