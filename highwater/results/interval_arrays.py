"""Decodes HdrHistogram V2 interval logs into arrays, all seconds of a log at once.

A log of a minute takes some milliseconds, a tenth of what HdrHistogram's own reader takes; tests compare the two.
A payload is a row of ZigZag LEB128 numbers: a count of the next bucket, or −n for n empty buckets.
"""

from __future__ import annotations

import binascii
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from highwater.results.histogram import COUNTS_LENGTH, Histogram
from highwater.results.histogram_log import HIGHEST_VALUE_NS, LOWEST_VALUE_NS, SIGNIFICANT_FIGURES

_COMPRESSED_COOKIE: Final = 0x1C849304
_PAYLOAD_COOKIE: Final = 0x1C849303
_WORD_SIZE: Final = 0xF0
_OUTER: Final = struct.Struct(">II")
_INNER: Final = struct.Struct(">IIIIQQd")
# Nine bytes would be counts above 2^55, and their last byte has another meaning.
_LONGEST_NUMBER: Final = 8


class Interval(NamedTuple):
    """What was recorded in the interval that starts at `start_s` since T0."""

    start_s: float
    histogram: Histogram


class IntervalArrays(NamedTuple):
    """All intervals of a log: interval i starts at `starts_s[i]` and has the buckets from `offsets[i]` to the next."""

    starts_s: list[float]
    offsets: NDArray[np.int64]
    buckets: NDArray[np.int64]
    counts: NDArray[np.int64]

    def intervals(self) -> list[Interval]:
        """The same as one histogram for each interval; they share the memory of these arrays."""
        bounds = self.offsets.tolist()
        return [
            Interval(start_s, Histogram(self.buckets[start:stop], self.counts[start:stop]))
            for start_s, start, stop in zip(self.starts_s, bounds[:-1], bounds[1:], strict=True)
        ]


def read_interval_arrays(path: Path) -> IntervalArrays:
    """The intervals of a log in its order. Raises OSError when it is missing, ValueError when it is damaged."""
    starts, payloads = [], []
    for number, line in enumerate(path.read_text("ascii").splitlines(), start=1):
        if not line or line.startswith(("#", '"')):
            continue
        fields = line.split(",")
        try:
            starts.append(float(fields[0]))
            payloads.append(_payload(fields[3]))
        except (IndexError, ValueError, struct.error, zlib.error, binascii.Error) as error:
            raise ValueError(f"line {number}: {error or type(error).__name__}") from error
    return IntervalArrays(starts, *_buckets_and_counts(payloads))


def _payload(encoded: str) -> bytes:
    """The numbers of one interval, uncompressed."""
    raw = binascii.a2b_base64(encoded, strict_mode=True)
    cookie, length = _OUTER.unpack_from(raw)
    if cookie & ~_WORD_SIZE != _COMPRESSED_COOKIE or length != len(raw) - _OUTER.size:
        raise ValueError("no compressed histogram of HdrHistogram's format V2")
    inner = zlib.decompress(raw[_OUTER.size :])
    cookie, length, offset, figures, lowest, highest, _ = _INNER.unpack_from(inner)
    if cookie & ~_WORD_SIZE != _PAYLOAD_COOKIE or length != len(inner) - _INNER.size:
        raise ValueError("no histogram of HdrHistogram's format V2")
    if (offset, figures, lowest, highest) != (0, SIGNIFICANT_FIGURES, LOWEST_VALUE_NS, HIGHEST_VALUE_NS):
        raise ValueError("the histogram has other buckets than those of a result directory")
    return inner[_INNER.size :]


def _buckets_and_counts(payloads: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(offsets, buckets, counts) of all payloads one after the other, without empty buckets."""
    octets = np.frombuffer(b"".join(payloads), np.uint8)
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    last = octets < 0x80
    ends = np.flatnonzero(last)
    stops = np.cumsum(lengths)
    # An interval must end with the end of a number.
    if not last[stops[lengths > 0] - 1].all():
        raise ValueError("a number is cut off")
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    sizes = ends - starts + 1
    if int(sizes.max(initial=0)) > _LONGEST_NUMBER:
        raise ValueError("a count is too large")
    zigzag = (octets[starts] & np.uint8(0x7F)).astype(np.int64)
    # Almost all numbers have one octet: the others are few.
    longer = np.flatnonzero(sizes > 1)
    place = 1
    while len(longer):
        zigzag[longer] |= (octets[starts[longer] + place] & np.uint8(0x7F)).astype(np.int64) << (7 * place)
        place += 1
        longer = longer[sizes[longer] > place]
    numbers = (zigzag >> 1) ^ -(zigzag & 1)
    # Where the buckets of each number end, counted through all payloads; a number without a payload before it is at 0.
    reached = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(-numbers, 1))))
    number_bounds = np.concatenate((np.zeros(1, np.int64), np.searchsorted(ends, stops - 1, side="right")))
    origins = reached[number_bounds]
    if int(np.diff(origins).max(initial=0)) > COUNTS_LENGTH:
        raise ValueError("a histogram has more buckets than its format")
    filled = np.flatnonzero(numbers > 0)
    offsets = np.searchsorted(filled, number_bounds)
    return offsets, reached[filled] - np.repeat(origins[:-1], np.diff(offsets)), numbers[filled]
