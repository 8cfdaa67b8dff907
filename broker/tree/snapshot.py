"""A whole tree of znodes as bytes, so that no journal need be kept from the beginning."""

from __future__ import annotations

import struct

from highwater.broker.tree.changes import ChangeError, Reader, encode_bytes, encode_text
from highwater.broker.tree.tree import ROOT, Tree, TreeSession, Znode, parent_of

_HEAD = struct.Struct(">qII")
_SESSION = struct.Struct(">qi")
_NODE = struct.Struct(">qqqqqiiq")


def encode_tree(tree: Tree) -> bytes:
    parts = [_HEAD.pack(tree.zxid, len(tree.sessions), len(tree.nodes))]
    for session_id, session in tree.sessions.items():
        parts += _SESSION.pack(session_id, session.timeout_ms), encode_bytes(session.password)
    # Nodes stand in the order in which they were made, so a parent stands before its children.
    for path, node in tree.nodes.items():
        numbers = node.czxid, node.mzxid, node.pzxid, node.created_ms, node.modified_ms
        parts += encode_text(path), encode_bytes(node.data)
        parts.append(_NODE.pack(*numbers, node.version, node.creations, node.owner))
    return b"".join(parts)


def decode_tree(data: bytes) -> Tree:
    """Raises ChangeError for bytes that no tree has."""
    reader = Reader(data)
    tree = Tree()
    tree.zxid, session_count, node_count = reader.unpack(_HEAD)
    for _ in range(session_count):
        session_id, timeout_ms = reader.unpack(_SESSION)
        tree.sessions[session_id] = TreeSession(reader.bytes(), timeout_ms)
    for _ in range(node_count):
        path = reader.text()
        data = reader.bytes()
        czxid, mzxid, pzxid, created_ms, modified_ms, version, creations, owner = reader.unpack(_NODE)
        node = Znode(data, czxid, mzxid, pzxid, created_ms, modified_ms, version, creations, owner)
        tree.nodes[path] = node
        try:
            if path != ROOT:
                tree.nodes[parent_of(path)].children[path.rpartition("/")[2]] = None
            if node.owner:
                tree.sessions[node.owner].ephemerals[path] = None
        except KeyError as error:
            raise ChangeError(f"{path} without {error}") from None
    if not reader.is_at_end or ROOT not in tree.nodes:
        raise ChangeError("it is not a tree")
    return tree
