"""Decides how far to read ahead of those who read files that are not in the page cache.

A first read, which may be the only one, is followed by as much again. Each further one that goes on where the reads
ahead of it end, or before, doubles that, up to MAX_BYTES. So a disk keeps working while a consumer takes what it has.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Final

from highwater.broker.log.files import FilePiece

MAX_BYTES: Final = 16 * 1024 * 1024
MOST_FILES: Final = 256
"""Files that are remembered; of a forgotten one the next read counts as the first."""


class ReadAhead:
    def __init__(self) -> None:
        self._claims: OrderedDict[Path, tuple[int, int]] = OrderedDict()
        """(end, size) of the last piece to read ahead of each file."""

    def after(self, piece: FilePiece) -> FilePiece | None:
        """What to read ahead when `piece` is read; None if enough was claimed before."""
        path, position, size = piece
        end = position + size
        claims = self._claims
        start, ahead_bytes = end, min(size, MAX_BYTES)
        if (claim := claims.get(path)) is not None:
            claimed_to, claimed_bytes = claim
            if claimed_to - 2 * claimed_bytes - size <= position <= claimed_to:
                if claimed_to - end > claimed_bytes // 2:
                    return None
                start, ahead_bytes = max(end, claimed_to), min(2 * claimed_bytes, MAX_BYTES)
        claims[path] = start + ahead_bytes, ahead_bytes
        claims.move_to_end(path)
        if len(claims) > MOST_FILES:
            claims.popitem(last=False)
        return FilePiece(path, start, ahead_bytes)
