"""Counts the bytes that readers gain when the high watermark or the last stable offset advances.

A reader that waits for a number of bytes is told each gain. Where the exact number is not known, bytes are told twice:
a fetch that wakes for less than it wanted is better than one that misses what it waits for.
"""

from __future__ import annotations

from collections import deque


class ReadableBytes:
    """Bytes are counted from the start of the broker on."""

    __slots__ = ("_appended", "_published", "_sizes", "_stable", "_transaction_starts")

    def __init__(self) -> None:
        self._appended = 0
        self._published = 0
        """Told to readers below the high watermark."""
        self._stable = 0
        """Told to readers below the last stable offset."""
        self._transaction_starts: dict[int, int] = {}
        """By the first offset of a transaction, the bytes that were appended before it."""
        self._sizes: deque[tuple[int, int, int]] = deque()
        """(first offset, next offset, bytes appended up to that) of what the high watermark has not passed."""

    def appended(self, first_offset: int, next_offset: int, size_bytes: int) -> None:
        self._appended += size_bytes
        self._sizes.append((first_offset, next_offset, self._appended))

    def transaction_begins(self, offset: int) -> None:
        """`appended` is called with the first batch of the transaction next."""
        self._transaction_starts[offset] = self._appended

    def gained_below_high_watermark(self, offset: int, log_end_offset: int) -> int:
        """The high watermark came to `offset`."""
        before = gained_to = self._published
        sizes = self._sizes
        if offset >= log_end_offset:
            sizes.clear()
            self._published = self._appended
            return self._appended - before
        while sizes and sizes[0][0] < offset:
            _, next_offset, gained_to = sizes[0]
            if next_offset > offset:
                break
            self._published = gained_to
            sizes.popleft()
        return gained_to - before

    def all_published_is_stable(self) -> None:
        self._stable = self._published

    def gained_below_stable_offset(self, offset: int, log_end_offset: int) -> int:
        """The last stable offset came to `offset`."""
        starts = self._transaction_starts
        stable = starts.get(offset, self._appended)
        gained = stable - self._stable
        if offset in starts or offset >= log_end_offset:
            self._stable = stable
        while starts and (first_offset := next(iter(starts))) < offset:
            del starts[first_offset]
        return gained

    def truncated(self) -> None:
        """Records are gone, and nobody waits for bytes of them."""
        self._sizes.clear()
        self._transaction_starts.clear()
        self._published = self._stable = self._appended
