"""Who may use the tree of a host's processes: the kernel names the user of each connection, whatever becomes of it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.protocol.serialization import Connect, Create
from kazoo.security import OPEN_ACL_UNSAFE

from highwater.broker.cluster.zookeeper import Exists, Stat, ZooKeeperError
from highwater.broker.server import tree_server
from tests.broker.running_tree import RunningTree, running_tree
from tests.broker.zookeeper_clients import RealClient, ask
from tests.waiting import wait_until

PATH = "/made"
ANOTHER_USER = 4_000_000
TRIES = 20


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[RunningTree]:
    with running_tree(tmp_path / "metadata") as running:
        yield running


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def write_and_leave(tree: RunningTree) -> None:
    """Open a session, make a node, and close the connection before anything is answered."""
    connect = Connect(0, 0, 30_000, 0, bytes(16), False)
    create = Create(PATH, b"", OPEN_ACL_UNSAFE, 0)
    with socket.socket(socket.AF_UNIX) as client, suppress(ConnectionError):
        client.connect("\0" + tree.connect.removeprefix("@"))
        client.sendall(
            frame(bytes(connect.serialize())) + frame(struct.pack(">ii", 1, create.type) + bytes(create.serialize()))
        )


def looked_up(tree: RunningTree) -> object:
    client = RealClient(tree.connect)
    try:
        return ask(client, Exists(PATH))[0]
    finally:
        client.close()


def test_a_client_of_the_same_user_that_has_left_is_served(tree: RunningTree) -> None:
    write_and_leave(tree)
    wait_until(lambda: isinstance(looked_up(tree), Stat), "the node that was asked for")


def test_a_client_of_another_user_is_not_served_even_if_it_leaves_at_once(
    tree: RunningTree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    user, process = os.geteuid(), os.getpid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: ANOTHER_USER)
        patched.setattr(tree_server, "_ROOT_USER", ANOTHER_USER)
        for _ in range(TRIES):
            write_and_leave(tree)
        with socket.socket(socket.AF_UNIX) as client:  # the last one is cut off after all before it
            client.connect("\0" + tree.connect.removeprefix("@"))
            assert client.recv(1) == b""
    assert looked_up(tree) is ZooKeeperError.NO_NODE
    told = (
        f"closing the connection of process {process}: its user {user} may not see the metadata; only user "
        f"{ANOTHER_USER} and root may"
    )
    assert [record.getMessage() for record in caplog.records if record.name.endswith("strangers")] == [told]
