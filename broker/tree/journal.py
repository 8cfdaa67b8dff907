"""The journal of a tree on the disk: a change is there before it is answered, and no kill loses it.

DIR/snapshot.ZXID   the whole tree after that transaction
DIR/journal.ZXID    the transactions after it

A frame holds changes: magic, length, CRC-32C of its position and its payload, payload. One frame is written at a time,
and synced to the disk before the next, so that only the last one can be incomplete; no client knows what it holds.
A snapshot is one frame, and is written under another name first.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import Final

from highwater.broker.log.files import TEMPORARY_SUFFIX, FileOperations, write_durably
from highwater.broker.settings.store import MetadataError
from highwater.broker.tree.changes import ChangeError, decode_changes
from highwater.broker.tree.snapshot import decode_tree, encode_tree
from highwater.broker.tree.tree import Tree
from highwater.kafka.records.checksum import crc32c

_logger = logging.getLogger(__name__)

_MAGIC: Final = b"HWzJ"
_HEAD: Final = struct.Struct(">4sII")
_SNAPSHOT: Final = "snapshot."
_JOURNAL: Final = "journal."
SNAPSHOT_FROM_BYTES: Final = 4 << 20
"""A journal below this size is not replaced by a snapshot, however small that would be."""


class Journal:
    """All methods block; one thread at a time may call them."""

    def __init__(self, files: FileOperations, directory: Path, snapshot_from_bytes: int = SNAPSHOT_FROM_BYTES) -> None:
        """Open the journal of a directory, or begin one, and recover `tree` from it.

        The caller has the directory's lock. Raises MetadataError if the files are damaged, OSError if the disk fails.
        """
        self._files = files
        self._directory = directory
        self._snapshot_from_bytes = snapshot_from_bytes
        self._descriptor = -1
        self.size_bytes = 0
        """The size of the journal's file."""
        self._snapshot_bytes = 0
        self.tree = self._recover()

    def append(self, payload: bytes) -> None:
        """Bring changes to the disk. After an OSError the same payload, and no other, may be tried again."""
        frame = _frame(payload, self.size_bytes)
        self._files.pwrite(self._descriptor, frame, self.size_bytes)
        self._files.sync(self._descriptor)
        self.size_bytes += len(frame)

    @property
    def wants_snapshot(self) -> bool:
        return self.size_bytes >= max(self._snapshot_from_bytes, 2 * self._snapshot_bytes)

    def begin_anew(self, snapshot: bytes, zxid: int) -> None:
        """Replace the journal by a snapshot (`encode_tree`) of the tree after its last change, which is `zxid`.

        After an OSError the old journal goes on, if the snapshot is not there (`wants_snapshot` stays true).
        """
        journal = self._path(_JOURNAL, zxid)
        descriptor = self._files.open(journal, create=True, is_private=True)
        frame = _frame(snapshot, 0)
        try:
            self._files.truncate(descriptor, 0)
            self._files.sync_directory(self._directory)
            write_durably(self._files, self._path(_SNAPSHOT, zxid), frame, is_private=True)
        except OSError:
            self._files.close(descriptor)
            raise
        self.close()
        self._descriptor, self.size_bytes, self._snapshot_bytes = descriptor, 0, len(frame)
        self._remove_older(zxid)

    def has_snapshot(self, zxid: int) -> bool:
        """Whether a start would begin with it."""
        return self._files.exists(self._path(_SNAPSHOT, zxid))

    def close(self) -> None:
        if self._descriptor >= 0:
            self._files.close(self._descriptor)
            self._descriptor = -1

    # Recovery

    def _recover(self) -> Tree:
        if not self._files.exists(self._directory):
            self._files.make_directory(self._directory)
            self._files.sync_directory(self._directory.parent)
        names = [entry.name for entry in self._files.list(self._directory)]
        for name in names:
            if name.endswith(TEMPORARY_SUFFIX):
                self._files.remove(self._directory / name)
        snapshots = _numbers(names, _SNAPSHOT)
        if not snapshots:
            for zxid in _numbers(names, _JOURNAL):
                # The first start may have been killed before its snapshot; a journal with changes has one.
                if zxid or self._files.read(self._path(_JOURNAL, zxid)):
                    raise MetadataError(f"{self._path(_SNAPSHOT, zxid)} is missing; restore it from a copy")
            tree = Tree()
            self.begin_anew(encode_tree(tree), 0)
            return tree
        begin = max(snapshots)
        tree = self._load_snapshot(begin)
        self._descriptor = self._files.open(self._path(_JOURNAL, begin), create=True, is_private=True)
        try:
            self._files.sync_directory(self._directory)
            self._replay(tree, begin)
            self._remove_older(begin)
        except BaseException:
            self.close()
            raise
        return tree

    def _load_snapshot(self, zxid: int) -> Tree:
        path = self._path(_SNAPSHOT, zxid)
        data = self._files.read(path)
        payload = _payload_at(data, 0)
        try:
            if payload is None or len(payload) + _HEAD.size != len(data):
                raise ChangeError("its checksum is wrong")
            tree = decode_tree(payload)
        except ChangeError as error:
            raise MetadataError(f"{path} is damaged: {error}; restore it from a copy") from None
        self._snapshot_bytes = len(data)
        return tree

    def _replay(self, tree: Tree, begin: int) -> None:
        path = self._path(_JOURNAL, begin)
        data = self._files.read(path)
        position = 0
        while (payload := _payload_at(data, position)) is not None:
            try:
                for change in decode_changes(payload):
                    if change.zxid != tree.zxid + 1:
                        raise ChangeError(f"transaction {change.zxid} stands behind {tree.zxid}")
                    tree.apply(change)
            except (ChangeError, KeyError) as error:
                raise MetadataError(f"{path} is damaged at byte {position}: {error}; restore it from a copy") from None
            position += _HEAD.size + len(payload)
        if position < len(data):
            self._cut_off(path, data, position)
        self.size_bytes = position

    def _cut_off(self, path: Path, data: bytes, position: int) -> None:
        """Cut off an incomplete last frame; what is no frame but stands before one is damage."""
        at = position
        while (at := data.find(_MAGIC, at + 1)) >= 0:
            if _payload_at(data, at) is not None:
                raise MetadataError(
                    f"{path} is damaged between bytes {position} and {at}, in the middle; restore it from a copy"
                )
        _logger.info("%s: cut off %d bytes of a change that nobody was told of", path, len(data) - position)
        self._files.truncate(self._descriptor, position)
        self._files.sync(self._descriptor)

    def _remove_older(self, zxid: int) -> None:
        for entry in self._files.list(self._directory):
            for prefix in (_SNAPSHOT, _JOURNAL):
                if any(number < zxid for number in _numbers([entry.name], prefix)):
                    self._files.remove(self._directory / entry.name)

    def _path(self, prefix: str, zxid: int) -> Path:
        return self._directory / f"{prefix}{zxid:016x}"


def _frame(payload: bytes, position: int) -> bytes:
    return _HEAD.pack(_MAGIC, len(payload), _checksum(payload, position)) + payload


def _payload_at(data: bytes, position: int) -> bytes | None:
    """Returns the payload of the frame that begins there; None if no whole frame does."""
    begin = position + _HEAD.size
    if begin > len(data):
        return None
    magic, size, checksum = _HEAD.unpack_from(data, position)
    payload = data[begin : begin + size]
    if magic != _MAGIC or len(payload) != size or _checksum(payload, position) != checksum:
        return None
    return payload


def _checksum(payload: bytes, position: int) -> int:
    # With the position, so that a frame within the data of a znode is none.
    checksum: int = crc32c(payload, crc32c(position.to_bytes(8, "big")))
    return checksum


def _numbers(names: list[str], prefix: str) -> list[int]:
    found = []
    for name in names:
        digits = name.removeprefix(prefix)
        if digits != name and len(digits) == 16 and set(digits) <= set("0123456789abcdef"):
            found.append(int(digits, 16))
    return found
