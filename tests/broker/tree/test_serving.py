"""What clients of the tree are told, and when: nothing before it is on the disk."""

from __future__ import annotations

import struct
from itertools import count

import pytest

from highwater.broker.cluster.zookeeper import Create, Set, ZooKeeperError
from highwater.broker.tree.serving import TICK_MS, Serving, TreeConnection
from highwater.broker.tree.tree import Tree
from highwater.broker.tree.wire import Op

TIMEOUT_MS = 2000


class Client:
    """The other end of a connection; `told` has a header of each answer, or the event and path of each watch."""

    def __init__(self, serving: Serving, group: int = 0, session: tuple[int, bytes] = (0, b"")) -> None:
        self.connection: TreeConnection = serving.connect(self._receive, self._closed, group)
        self.told: list[tuple[int, ...] | str] = []
        self.is_closed = False
        self.session = session
        self._data = b""
        self._xids = count(1)
        self._is_connected = False
        self.send_frame(struct.pack(">iqiq", 0, 0, TIMEOUT_MS, session[0]) + text(session[1]) + b"\0")

    def send_frame(self, frame: bytes) -> None:
        self.connection.receive(struct.pack(">i", len(frame)) + frame)

    def ask(self, op: int, body: bytes = b"") -> None:
        self.send_frame(struct.pack(">ii", next(self._xids), op) + body)

    def create(self, path: bytes, flags: int = 0) -> None:
        acl = struct.pack(">ii", 1, 31) + text(b"world") + text(b"anyone")
        self.ask(Op.CREATE, text(path) + text(b"data") + acl + struct.pack(">i", flags))

    def ping(self) -> None:
        self.send_frame(struct.pack(">ii", -2, Op.PING))

    def taken(self) -> list[tuple[int, ...] | str]:
        told, self.told = self.told, []
        return told

    def _closed(self) -> None:
        self.is_closed = True
        self.connection.lose()

    def _receive(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            (size,) = struct.unpack_from(">i", self._data)
            frame, self._data = self._data[4 : 4 + size], self._data[4 + size :]
            if not self._is_connected:
                self._is_connected = True
                self.session = struct.unpack_from(">q", frame, 8)[0], frame[20:36]
                self.told.append("connected" if self.session[0] else "expired")
                continue
            xid, _, error = struct.unpack_from(">iqi", frame)
            if xid == -1:
                (event,) = struct.unpack_from(">i", frame, 16)
                self.told.append(f"{event} {frame[28:].decode()}")
            else:
                self.told.append((xid, error))


def text(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def serving_of(tree: Tree) -> Serving:
    return Serving(tree, lambda: 5, lambda: b"p" * 16)


def sync(serving: Serving) -> None:
    _, zxid = serving.take_changes()
    serving.durable(zxid)


@pytest.fixture
def serving() -> Serving:
    return serving_of(Tree())


def connected(serving: Serving, group: int = 0) -> Client:
    client = Client(serving, group)
    sync(serving)
    assert client.taken() == ["connected"]
    return client


def test_nothing_is_told_before_it_is_on_the_disk(serving: Serving) -> None:
    writer, reader = connected(serving), connected(serving)
    reader.ask(Op.EXISTS, text(b"/a") + b"\1")
    assert reader.taken() == [(1, -101)]
    writer.create(b"/a")
    reader.ask(Op.EXISTS, text(b"/a") + b"\0")
    assert (writer.taken(), reader.taken()) == ([], [])
    reader.ping()
    assert reader.taken() == [(-2, 0)], "a slow disk expires no session"
    sync(serving)
    assert writer.taken() == [(1, 0)]
    assert reader.taken() == ["1 /a", (2, 0)]


def test_changes_come_to_the_journal_once(serving: Serving) -> None:
    woken: list[None] = []
    serving.has_changes = lambda: woken.append(None)
    client = connected(serving)
    client.create(b"/a")
    client.create(b"/a")
    client.ask(Op.GET_CHILDREN, text(b"/") + b"\0")
    assert len(woken) == 2
    payload, zxid = serving.take_changes()
    assert (zxid, b"/a" in payload) == (2, True)
    assert serving.take_changes() == (b"", 2)


def ticks(serving: Serving, begin_ms: int, duration_ms: int) -> int:
    for now_ms in range(begin_ms, begin_ms + duration_ms, TICK_MS):
        serving.tick(now_ms)
    return begin_ms + duration_ms


def test_a_session_that_is_not_heard_of_ends_with_its_nodes(serving: Serving) -> None:
    silent, pinging = connected(serving), connected(serving)
    silent.create(b"/e", flags=1)
    pinging.ask(Op.EXISTS, text(b"/e") + b"\1")
    sync(serving)
    now_ms = 10_000_000
    for _ in range(3):
        now_ms = ticks(serving, now_ms, TIMEOUT_MS // 2)
        pinging.ping()
    sync(serving)
    assert silent.is_closed
    assert not pinging.is_closed
    assert "2 /e" in pinging.taken()
    again = Client(serving, session=silent.session)
    assert again.taken() == ["expired"]
    assert again.is_closed


def test_a_stall_ends_no_session(serving: Serving) -> None:
    client = connected(serving)
    now_ms = ticks(serving, 0, TIMEOUT_MS // 2)
    serving.tick(now_ms + 100 * TIMEOUT_MS)
    client.ask(Op.GET_ACL, text(b"/"))
    assert client.taken() == [(1, 0)]
    ticks(serving, now_ms + 100 * TIMEOUT_MS + TICK_MS, 2 * TIMEOUT_MS)
    sync(serving)
    assert client.is_closed


def test_a_client_comes_again_in_its_session_with_its_password_alone(serving: Serving) -> None:
    client, other = connected(serving), connected(serving)
    client.create(b"/a")
    sync(serving)
    client.connection.lose()
    other.ask(Op.SET_DATA, text(b"/a") + text(b"new") + struct.pack(">i", -1))
    other.create(b"/b")
    sync(serving)
    stranger = Client(serving, session=(client.session[0], b"x" * 16))
    assert stranger.taken() == ["expired"]
    again = Client(serving, session=client.session)
    assert again.session == client.session
    paths = [[b"/a", b"/gone", b"/"], [b"/b", b"/later"], [b"/", b"/a"]]
    body = b"".join(struct.pack(">i", len(kind)) + b"".join(map(text, kind)) for kind in paths)
    again.ask(Op.SET_WATCHES, struct.pack(">q", 3) + body)
    assert again.taken() == ["connected", "3 /a", "2 /gone", "1 /b", "4 /", (1, 0)]
    other.create(b"/later")
    other.create(b"/a/c")
    sync(serving)
    assert again.taken() == ["1 /later", "4 /a"]


def test_the_last_connection_of_a_session_counts(serving: Serving) -> None:
    first = connected(serving)
    second = Client(serving, session=first.session)
    assert first.is_closed
    second.create(b"/a")
    first.connection.lose()
    sync(serving)
    assert second.taken() == ["connected", (1, 0)]


def test_a_process_that_died_takes_its_sessions_along(serving: Serving) -> None:
    dead, living = connected(serving, group=1), connected(serving, group=2)
    dead.create(b"/e", flags=1)
    living.create(b"/f", flags=1)
    serving.end_sessions_of(1)
    sync(serving)
    assert (dead.is_closed, living.is_closed) == (True, False)
    assert list(serving.tree.nodes) == ["/", "/f"]
    serving.end_all_sessions()
    assert list(serving.tree.nodes) == ["/"]


def test_sessions_outlive_a_restart_until_their_time_out() -> None:
    tree = Tree()
    serving = serving_of(tree)
    client = connected(serving)
    client.create(b"/e", flags=1)
    sync(serving)
    restarted = serving_of(tree)
    ticks(restarted, 0, TIMEOUT_MS // 2)
    again = Client(restarted, session=client.session)
    assert again.taken() == ["connected"]
    restarted = serving_of(tree)
    ticks(restarted, 0, 2 * TIMEOUT_MS)
    assert list(tree.nodes) == ["/"]


def test_an_orderly_end_is_answered_and_cut(serving: Serving) -> None:
    client = connected(serving)
    client.create(b"/e", flags=1)
    client.ask(Op.CLOSE_SESSION)
    assert client.taken() == []
    sync(serving)
    assert client.taken() == [(1, 0), (2, 0)]
    assert client.is_closed
    assert list(serving.tree.nodes) == ["/"]


def test_what_is_not_served_is_told_so(serving: Serving) -> None:
    client = connected(serving)
    client.create(b"/container", flags=4)
    client.ask(77)
    client.ask(Op.CHECK, text(b"/") + struct.pack(">i", 0))
    client.ask(Op.GET_ACL, text(b"/"))
    client.ask(Op.SYNC, text(b"/"))
    client.ask(Op.AUTH, b"\0\0\0\0")
    assert client.taken() == [(1, -6), (2, -6), (3, -6), (4, 0), (5, 0), (6, 0)]


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", struct.pack(">ii", 1, Op.CREATE) + struct.pack(">i", 1 << 30)])
def test_a_frame_that_is_no_request_cuts_the_client_off(serving: Serving, frame: bytes) -> None:
    client, other = connected(serving), connected(serving)
    client.send_frame(frame)
    assert client.is_closed
    other.ping()
    assert other.taken() == [(-2, 0)]


def test_a_frame_beyond_the_limit_cuts_the_client_off(serving: Serving) -> None:
    client = connected(serving)
    client.connection.receive(b"GET ")
    assert client.is_closed


def test_a_client_from_the_future_is_refused(serving: Serving) -> None:
    """It has seen what this tree does not have: the tree was put back from a copy."""
    client = connected(serving)
    client.connection.receive(b"")
    stranger: list[bytes] = []
    closed: list[None] = []
    connection = serving.connect(stranger.append, lambda: closed.append(None))
    frame = struct.pack(">iqiq", 0, 99, TIMEOUT_MS, 0) + text(b"")
    connection.receive(struct.pack(">i", len(frame)) + frame)
    assert (stranger, len(closed)) == ([], 1)


def test_the_administrator_writes_to_the_tree_itself(serving: Serving) -> None:
    client = connected(serving)
    client.ask(Op.EXISTS, text(b"/a") + b"\1")
    assert not isinstance(serving.tree.execute(0, Create("/a"), 1), ZooKeeperError)
    assert not isinstance(serving.tree.execute(0, Set("/a", b"1"), 1), ZooKeeperError)
    sync(serving)
    assert client.taken() == [(1, -101), "1 /a"]
