"""The stamp: the first 24 bytes of every value, by which consumers check delivery and latency.

Little-endian: worker u32, magic u32, sequence u64, intended send time in ns since T0 i64. Each run draws a new magic,
so that consumers recognise records of another run in the same topic.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

STAMP_BYTES: Final = 24
STAMP: Final = np.dtype([("worker", "<u4"), ("magic", "<u4"), ("sequence", "<u8"), ("intended_ns", "<i8")])


def encode_stamps(worker: int, magic: int, first_sequence: int, intended_ns: NDArray[np.int64]) -> list[bytes]:
    """The stamps of consecutive records of one worker."""
    stamps = np.empty(len(intended_ns), dtype=STAMP)
    write_stamps(stamps, worker, magic, first_sequence, intended_ns)
    # A view as void type, because tolist() then returns one bytes object per record.
    encoded: list[bytes] = stamps.view(f"V{STAMP_BYTES}").tolist()
    return encoded


def write_stamps(
    stamps: NDArray[np.void], worker: int, magic: int, first_sequence: int, intended_ns: NDArray[np.int64]
) -> None:
    """Fill an array of type STAMP, or a field of that type."""
    stamps["worker"] = worker
    stamps["magic"] = magic
    stamps["sequence"] = np.arange(first_sequence, first_sequence + len(intended_ns))
    stamps["intended_ns"] = intended_ns


def decode_stamps(joined: bytes) -> NDArray[np.void]:
    """Read-only view of concatenated stamps, as an array with the fields of STAMP."""
    return np.frombuffer(joined, dtype=STAMP)
