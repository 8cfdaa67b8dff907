"""A file system in memory that can fail at a chosen operation, kill the process there, or lose power.

What a power cut leaves of each file is its content at the last sync and an arbitrary part of what was written since, by
512-byte sectors, with zeros in the holes; of each directory, its names at the last sync and a prefix of the changes
since, in order. That is more than a journaling file system loses, and no less.
"""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from highwater.broker.log.files import Entry, FilePiece, Stamp
from highwater.kafka.records.batch import ReadableBuffer

_SECTOR_BYTES = 512
_VERSIONS = itertools.count()


class Killed(BaseException):
    """The process died here; what it wrote is in the page cache."""


class _File:
    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = content
        self.changes: list[tuple[int, bytes | None]] = []
        """Since the last sync: (position, data) of a write, (size, None) of a truncation."""
        self.version = next(_VERSIONS)

    def write(self, position: int, data: bytes) -> None:
        _write(self.content, position, data)
        self.changes.append((position, data))
        self.version = next(_VERSIONS)

    def truncate(self, size: int) -> None:
        _truncate(self.content, size)
        self.changes.append((size, None))
        self.version = next(_VERSIONS)

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.changes.clear()

    def after_power_cut(self, rng: random.Random) -> _File:
        content = bytearray(self.durable)
        loses_sectors = rng.random() < 0.5
        for position, data in self.changes[: rng.randint(0, len(self.changes))]:
            if data is None:
                _truncate(content, position)
                continue
            _write(content, position + len(data), b"")
            at = 0
            while at < len(data):
                size = _SECTOR_BYTES - (position + at) % _SECTOR_BYTES
                if not (loses_sectors and rng.random() < 0.3):
                    _write(content, position + at, data[at : at + size])
                at += size
        return _File(bytes(content))


class _Directory:
    def __init__(self) -> None:
        self.nodes: dict[str, _File | _Directory] = {}
        self.durable: dict[str, _File | _Directory] = {}
        self.changes: list[dict[str, _File | _Directory | None]] = []
        self.version = next(_VERSIONS)

    def change(self, change: dict[str, _File | _Directory | None]) -> None:
        _apply(self.nodes, change)
        self.changes.append(change)
        self.version = next(_VERSIONS)

    def sync(self) -> None:
        self.durable = dict(self.nodes)
        self.changes.clear()

    def after_power_cut(self, rng: random.Random) -> _Directory:
        nodes = dict(self.durable)
        for change in self.changes[: rng.randint(0, len(self.changes))]:
            _apply(nodes, change)
        survivor = _Directory()
        survivor.nodes = {name: node.after_power_cut(rng) for name, node in nodes.items()}
        survivor.sync()
        return survivor


class _Least(random.Random):
    """Chance at its worst."""

    def randint(self, a: int, b: int) -> int:
        return a


class SimulatedFiles:
    """Implements `FileOperations`."""

    def __init__(self, root: _Directory | None = None) -> None:
        self._root = root or _Directory()
        self._open: dict[int, _File | None] = {}
        self._locked: dict[int, Path] = {}
        self._names: dict[int, Path] = {}
        self._next_descriptor = 1000
        self.now_ms = 0
        """When all files were last written."""
        self.changes_made = 0
        """Operations so far that could have failed for want of space or by a broken disk."""
        self.fail_at: dict[int, int] = {}
        """Which of those operations fail, by number, with which errno; half of a failing write is done."""
        self.full_during = range(0)
        """Which of those operations, by number, find no space, if they need any."""
        self.kill_at: int | None = None
        self.is_in_cache: Callable[[FilePiece], bool] = lambda piece: True
        """Whether the page cache has a part of a file; its name is the one that it was opened by."""

    @property
    def open_descriptors(self) -> int:
        return len(self._open)

    def restarted(self) -> SimulatedFiles:
        """The same disk after a kill -9: the page cache is whole, locks and descriptors are gone."""
        return SimulatedFiles(self._root)

    def after_power_cut(self, seed: int) -> SimulatedFiles:
        return SimulatedFiles(self._root.after_power_cut(random.Random(seed)))

    def as_synced(self) -> SimulatedFiles:
        """After a power cut that left nothing of what was not synced."""
        return SimulatedFiles(self._root.after_power_cut(_Least()))

    # FileOperations

    def open(self, path: Path, *, create: bool = False, empty: bool = False, is_private: bool = False) -> int:
        directory = self._directory(path.parent)
        node = directory.nodes.get(path.name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", str(path))
            self._change(needs_space=True)
            node = _File()
            directory.change({path.name: node})
        elif empty:
            assert isinstance(node, _File)
            self._change()
            node.truncate(0)
        assert isinstance(node, _File)
        descriptor = self._descriptor(node)
        self._names[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        del self._open[descriptor], self._names[descriptor]
        self._locked.pop(descriptor, None)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        return bytes(self._file(descriptor).content[position : position + size])

    def pread_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        data = self.pread(descriptor, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pread_cached(self, descriptor: int, size: int, position: int) -> bytes | None:
        data = self.pread(descriptor, size, position)
        return data if len(data) == size and self.is_cached(descriptor, size, position) else None

    def is_cached(self, descriptor: int, size: int, position: int) -> bool:
        return self.is_in_cache(FilePiece(self._names[descriptor], position, size))

    def bring_into_cache(self, piece: FilePiece) -> None:
        self.close(self.open(piece.path))

    def pwrite(self, descriptor: int, data: ReadableBuffer, position: int) -> None:
        file = self._file(descriptor)
        try:
            self._change(needs_space=True)
        except (OSError, Killed):
            file.write(position, bytes(data[: len(data) // 2]))
            raise
        file.write(position, bytes(data))

    def pwritev(self, descriptor: int, pieces: Sequence[ReadableBuffer], position: int) -> None:
        self.pwrite(descriptor, b"".join(pieces), position)

    def truncate(self, descriptor: int, size: int) -> None:
        self._change()
        self._file(descriptor).truncate(size)

    def preallocate(self, descriptor: int, size: int) -> None:
        self._change(needs_space=True)
        assert size >= len(self._file(descriptor).content)

    def sync(self, descriptor: int) -> None:
        self._change()
        self._file(descriptor).sync()

    def sync_directory(self, path: Path) -> None:
        directory = self._directory(path)
        self._change()
        directory.sync()

    def read(self, path: Path) -> bytes:
        node = self._node(path)
        assert isinstance(node, _File)
        return bytes(node.content)

    def exists(self, path: Path) -> bool:
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    def list(self, path: Path) -> list[Entry]:
        return [
            Entry(name, isinstance(node, _Directory), len(node.content) if isinstance(node, _File) else 0)
            for name, node in self._directory(path).nodes.items()
        ]

    def volume_size(self, path: Path) -> tuple[int, int]:
        return 1 << 40, 1 << 39

    def stamp(self, path: Path) -> Stamp:
        node = self._node(path)
        size_bytes = len(node.content) if isinstance(node, _File) else 0
        return Stamp(size_bytes, self.now_ms * 1_000_000 + node.version % 1_000_000)

    def make_directory(self, path: Path) -> None:
        self._change(needs_space=True)
        self._directory(path.parent).change({path.name: _Directory()})

    def rename(self, old: Path, new: Path) -> None:
        self._change(needs_space=True)
        assert old.parent == new.parent
        self._directory(old.parent).change({old.name: None, new.name: self._node(old)})

    def remove(self, path: Path) -> None:
        self._node(path)
        self._change()
        self._directory(path.parent).change({path.name: None})

    def remove_directory(self, path: Path) -> None:
        assert not self._directory(path).nodes
        self.remove(path)

    def lock(self, path: Path) -> int | None:
        if path in self._locked.values():
            return None
        descriptor = self.open(path, create=True)
        self._locked[descriptor] = path
        return descriptor

    # For tests that damage files

    def overwrite(self, path: Path, content: bytes) -> None:
        """Make the file hold `content`, whether or not it is there."""
        directory = self._directory(path.parent)
        file = directory.nodes.setdefault(path.name, _File())
        assert isinstance(file, _File)
        file.truncate(0)
        file.write(0, content)
        directory.version = next(_VERSIONS)

    def _change(self, *, needs_space: bool = False) -> None:
        number = self.changes_made
        self.changes_made += 1
        if number == self.kill_at:
            raise Killed
        if number in self.fail_at:
            raise OSError(self.fail_at[number], "injected failure")
        if needs_space and number in self.full_during:
            raise OSError(errno.ENOSPC, "injected want of space")

    def _descriptor(self, file: _File) -> int:
        self._next_descriptor += 1
        self._open[self._next_descriptor] = file
        return self._next_descriptor

    def _file(self, descriptor: int) -> _File:
        file = self._open[descriptor]
        assert file is not None
        return file

    def _node(self, path: Path) -> _File | _Directory:
        node: _File | _Directory = self._root
        for name in path.parts[1:]:
            if not isinstance(node, _Directory) or name not in node.nodes:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            node = node.nodes[name]
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._node(path)
        assert isinstance(node, _Directory)
        return node


def _write(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _apply(nodes: dict[str, _File | _Directory], change: dict[str, _File | _Directory | None]) -> None:
    for name, node in change.items():
        if node is None:
            nodes.pop(name, None)
        else:
            nodes[name] = node
