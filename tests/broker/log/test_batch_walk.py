"""The walk over batches: as Python and as machine code it finds the same, whatever the bytes are."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from struct import pack_into
from typing import Any

import pytest
from crc32c import crc32c

from highwater.broker.log import batch_walk
from highwater.broker.log.batch_walk import BAD_CRC, OBSERVE, OUT_OF_ORDER, TOO_FAR, WHOLE, Walk
from highwater.broker.log.files import RealFiles
from highwater.broker.log.segment_indexes import SegmentIndexes
from highwater.broker.log.segment_names import SegmentNames
from tests.broker.log.building import ROOT, batch

SOURCE = Path(__file__).parents[3] / "broker/log/native_walk.c"
UNFIT = 2**31
# Where a header has: base offset, length, leader epoch, magic, last offset delta, max timestamp, producer, records.
FIELDS = ((0, "q"), (8, "i"), (12, "i"), (16, "b"), (23, "i"), (35, "q"), (43, "q"), (57, "i"))
INTEGERS = (-(2**31), -2, -1, 0, 1, 2, 48, 49, 61, 1000, 2**31 - 1)
VALUES = {"b": (-1, 0, 1, 2, 3), "i": INTEGERS, "q": (*INTEGERS, -(2**63), 2**63 - 1)}


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    if shutil.which("cc") is None or "sse4_2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no compiler, or a processor for which there is no machine code")
    made = tmp_path_factory.mktemp("native") / f"native_walk{EXTENSION_SUFFIXES[0]}"
    include = sysconfig.get_path("include")
    subprocess.run(
        ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}", SOURCE, "-o", made], check=True
    )
    spec = importlib.util.spec_from_file_location("native_walk", made)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    walk: Walk = module.walk
    return walk


def seal(window: bytearray, at: int, size: int) -> None:
    pack_into(">I", window, at + 17, crc32c(memoryview(window)[at + 21 : at + size]))


def segments(seed: int) -> Iterator[bytearray]:
    """Windows of batches, some of which are changed, with a CRC that fits or not."""
    rng = random.Random(seed)
    for _ in range(150):
        window = bytearray()
        offset = 0
        for _ in range(rng.randint(0, 8)):
            made = bytearray(batch(*[rng.randbytes(rng.choice((0, 10, 900, 5_000)))] * rng.randint(1, 3)))
            offset += rng.choice((0, 0, 0, 5))
            pack_into(">q", made, 0, offset)
            pack_into(">i", made, 12, rng.choice((-1, 0, 0, 1)))
            if rng.random() < 0.3:
                pack_into(">q", made, 43, rng.choice((-1, 7)))
                made[22] = rng.choice((0, 0x10, 0x30))
            if rng.random() < 0.2:
                place, form = rng.choice(FIELDS)
                pack_into(f">{form}", made, place, rng.choice(VALUES[form]))
            if rng.random() < 0.95:
                seal(made, 0, len(made))
            offset += 3
            window += made
        if rng.random() < 0.3:
            del window[rng.randint(0, len(window)) :]
        yield window


@pytest.mark.parametrize("seed", range(8))
def test_both_find_the_same(native: Walk, seed: int) -> None:
    rng = random.Random(seed)
    ends = set()
    for window in segments(seed):
        view = memoryview(window)
        at, why = 0, OBSERVE
        more = (rng.choice((-1, 0, 10)), rng.choice((0, 1, 70, 4096)), rng.choice((0, 10_000)), -1, 0)
        next_offset = rng.choice((0, 0, 3))
        while why == OBSERVE:
            arguments = (view, at, 7_000, next_offset, rng.choice((UNFIT, UNFIT, 6)), *more)
            found = native(*arguments)
            assert found == batch_walk.walk(*arguments)
            at, why, next_offset = found[:3]
            ends.add(why)
            more = (more[0], more[1], *found[5:8])
        assert at <= len(window)
    assert ends == {WHOLE, OBSERVE, BAD_CRC, OUT_OF_ORDER, TOO_FAR}


@pytest.mark.parametrize(("base_offset", "why"), [(2**63 - 3, WHOLE), (2**63 - 2, TOO_FAR), (2**63 - 1, TOO_FAR)])
def test_each_record_needs_an_offset_after_it(native: Walk, base_offset: int, why: int) -> None:
    window = bytearray(batch(b"first", b"second"))
    pack_into(">q", window, 0, base_offset)
    seal(window, 0, len(window))
    indexes = SegmentIndexes(RealFiles(), SegmentNames(ROOT, base_offset, ""), 4096, has_aborted=False)
    indexes.begin()
    found = indexes.add_all(memoryview(window), 0, 0, base_offset, 0)
    assert found.why == why
    arguments = (memoryview(window), 0, 0, base_offset, 2**63 - 1, 0, 4096, 0, -1, base_offset)
    assert native(*arguments) == batch_walk.walk(*arguments) == found


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 3071, 3072, 3073, 6144, 10_000, 300_000])
def test_the_crc_is_right_at_each_length(native: Walk, size: int) -> None:
    window = bytearray(batch(random.Random(size).randbytes(size)))
    whole = native(memoryview(window), 0, 0, 0, UNFIT, 0, 4096, 0, -1, 0)
    assert whole[:2] == (len(window), WHOLE)
    for at in (21, len(window) - 1, random.Random(size).randrange(21, len(window))):
        window[at] ^= 1
        assert native(memoryview(window), 0, 0, 0, UNFIT, 0, 4096, 0, -1, 0)[1] == BAD_CRC
        window[at] ^= 1
