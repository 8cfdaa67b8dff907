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

from highwater.bench.results.histogram_log import HIGHEST_VALUE_NS, LOWEST_VALUE_NS, SIGNIFICANT_FIGURES
from highwater.spark_loadgen import Histogram
from highwater.spark_loadgen.histogram import COUNTS_LENGTH

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


def read_intervals(path: Path) -> list[Interval]:
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
    if not payloads:
        return []
    return [Interval(*pair) for pair in zip(starts, _histograms(payloads), strict=True)]


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


def _histograms(payloads: list[bytes]) -> list[Histogram]:
    octets = np.frombuffer(b"".join(payloads), np.uint8)
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    last = octets < 0x80
    ends = np.flatnonzero(last)
    stops = np.cumsum(lengths)
    if not len(ends):
        return [_empty() for _ in payloads]
    # An interval must end with the end of a number.
    if not last[stops[lengths > 0] - 1].all():
        raise ValueError("a number is cut off")
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts + 1
    if int(sizes.max()) > _LONGEST_NUMBER:
        raise ValueError("a count is too large")
    position = np.arange(len(octets)) - np.repeat(starts, sizes)
    zigzag = np.add.reduceat((octets & np.uint8(0x7F)).astype(np.int64) << (7 * position), starts)
    numbers = (zigzag >> 1) ^ -(zigzag & 1)
    steps = np.where(numbers < 0, -numbers, 1)
    before = np.cumsum(steps) - steps
    found = []
    first_number = 0
    for stop in np.searchsorted(ends, stops - 1, side="right").tolist():
        chosen = slice(first_number, stop)
        first_number = stop
        counts = numbers[chosen]
        if not len(counts):
            found.append(_empty())
            continue
        indices = before[chosen] - before[chosen.start]
        filled = counts > 0
        if int(indices[-1] + steps[stop - 1]) > COUNTS_LENGTH:
            raise ValueError("a histogram has more buckets than its format")
        found.append(Histogram(indices[filled], counts[filled]))
    return found


def _empty() -> Histogram:
    return Histogram(np.zeros(0, np.int64), np.zeros(0, np.int64))
