from __future__ import annotations

import struct

import numpy as np

from highwater.spark_loadgen.stamp import STAMP_BYTES, decode_stamps, encode_stamps


def test_the_layout_is_the_documented_one() -> None:
    stamps = encode_stamps(3, 0xFEEDFACE, 41, np.array([1_000, 2_500], dtype=np.int64))
    assert [len(stamp) for stamp in stamps] == [STAMP_BYTES] * 2
    assert struct.unpack("<IIQq", stamps[1]) == (3, 0xFEEDFACE, 42, 2_500)


def test_stamps_come_back() -> None:
    intended_ns = np.array([0, 5, 1 << 60], dtype=np.int64)
    stamps = decode_stamps(b"".join(encode_stamps(9, 1, 1 << 40, intended_ns)))
    assert stamps["worker"].tolist() == [9, 9, 9]
    assert stamps["sequence"].tolist() == [1 << 40, (1 << 40) + 1, (1 << 40) + 2]
    assert np.array_equal(stamps["intended_ns"], intended_ns)
