"""The rules of a tree of znodes beyond the contract, and that its changes are all there is of it."""

from __future__ import annotations

import random

from highwater.broker.cluster.zookeeper import (
    Check,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Multi,
    Request,
    Set,
    WatchEvent,
    ZooKeeperError,
)
from highwater.broker.tree.changes import Change, decode_changes, encode_change
from highwater.broker.tree.snapshot import decode_tree, encode_tree
from highwater.broker.tree.tree import Tree


def test_sequential_nodes_of_one_transaction_have_different_numbers() -> None:
    tree = Tree()
    number = Create("/n_", is_sequential=True)
    results = tree.execute(0, Multi((number, number, Delete("/n_0000000000"), number)), 1)
    assert [result.path for result in results if result] == ["/n_0000000000", "/n_0000000001", "/n_0000000002"]
    assert list(tree.nodes["/"].children) == ["n_0000000001", "n_0000000002"]


def test_a_transaction_sees_what_it_did_and_leaves_nothing_when_it_fails() -> None:
    tree = Tree()
    tree.execute(0, Create("/a"), 1)
    before = encode_tree(tree)
    failed = tree.execute(0, Multi((Set("/a", b"1"), Check("/a", 1), Create("/a/b"), Delete("/a"), Create("/c"))), 2)
    assert failed[3] is ZooKeeperError.NOT_EMPTY
    assert failed.count(ZooKeeperError.ROLLED_BACK) == 4
    assert encode_tree(tree) == before
    done = tree.execute(0, Multi((Create("/a/b"), Delete("/a/b"), Delete("/a"), Create("/a"), Check("/a", 0))), 2)
    assert not any(isinstance(result, ZooKeeperError) for result in done)
    assert tree.nodes["/a"].czxid == tree.zxid


def test_paths_that_zookeeper_refuses_are_refused() -> None:
    tree = Tree()
    for path in ("", "a", "/a/", "//", "/a//b", "/.", "/a/../b", "/a\0"):
        assert tree.execute(0, Create(path), 1) is ZooKeeperError.MALFORMED, path
    assert tree.execute(0, Delete("/"), 1) is ZooKeeperError.MALFORMED
    assert tree.execute(0, Create("/"), 1) is ZooKeeperError.NODE_EXISTS
    assert isinstance(tree.execute(0, Set("/", b"x"), 1), tuple)
    assert tree.execute(0, Create("/", is_sequential=True), 1).path == "/0000000000"


def test_a_session_takes_its_nodes_along_in_one_transaction() -> None:
    fired: list[tuple[str, WatchEvent]] = []
    tree = Tree(lambda path, event: fired.append((path, event)))
    session_id = tree.open_session(b"secret", 6000, 1)
    for path in ("/e", "/f"):
        tree.execute(session_id, Create(path, is_ephemeral=True), 1)
    tree.execute(0, Delete("/f"), 1)
    fired.clear()
    zxid = tree.zxid
    tree.close_session(session_id, 2)
    tree.close_session(session_id, 2)
    assert tree.zxid == zxid + 1
    assert fired == [("/e", WatchEvent.DELETED), ("/", WatchEvent.CHILDREN)]
    assert tree.execute(0, Exists("/e"), 2) is ZooKeeperError.NO_NODE
    assert tree.open_session(b"", 6000, 3) != session_id


def test_changes_make_the_same_tree_again() -> None:
    """Through their bytes, and from a snapshot in the middle on."""
    changes: list[Change] = []
    tree = Tree(recorded=changes.append)
    rng = random.Random(7)
    sessions = [tree.open_session(bytes([number]), 1000, 0) for number in range(3)]
    middle = b""
    for time_ms in range(600):
        if time_ms == 300:
            middle = encode_tree(tree)
        if rng.random() < 0.02:
            tree.close_session(sessions.pop(0), time_ms)
            sessions.append(tree.open_session(rng.randbytes(16), 1000, time_ms))
        tree.execute(rng.choice(sessions), random_request(rng), time_ms)
    replayed = Tree()
    for change in decode_changes(b"".join(map(encode_change, changes))):
        replayed.apply(change)
    assert encode_tree(replayed) == encode_tree(tree)
    later = decode_tree(middle)
    for change in changes:
        if change.zxid > later.zxid:
            later.apply(change)
    assert encode_tree(later) == encode_tree(tree)
    assert later.sessions == tree.sessions
    assert later.nodes == tree.nodes


def random_request(rng: random.Random) -> Request:
    def one() -> Create | Set | Delete:
        path = "/" + "/".join(rng.choices("abc", k=rng.randint(1, 3)))
        return rng.choice(
            (
                Create(path, rng.randbytes(rng.randint(0, 9)), rng.random() < 0.3, rng.random() < 0.2),
                Create(path),
                Set(path, rng.randbytes(5), rng.choice((-1, 0, 1))),
                Delete(path, rng.choice((-1, 0, 1))),
            )
        )

    return one() if rng.random() < 0.7 else Multi((one(), one()))


def test_a_stat_tells_who_made_and_wrote_a_node() -> None:
    tree = Tree()
    made = tree.execute(0, Create("/a", b"1"), 5)
    assert isinstance(made, Created)
    tree.execute(0, Set("/a", b"2"), 7)
    node, stat = tree.nodes["/a"], tree.execute(0, Get("/a"), 8).stat
    assert (stat.version, stat.czxid, stat.mzxid, stat.created_ms) == (1, made.stat.czxid, made.stat.czxid + 1, 5)
    assert node.modified_ms == 7
