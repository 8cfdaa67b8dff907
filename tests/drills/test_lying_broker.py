"""What the lies of the drill do to frames. The drill itself is one of `make drills`."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from highwater.bench.native.clients import record_batch
from tests.broker.proxy import Link
from tests.drills.lying_broker.batches import (
    Batch,
    batches,
    flip_last_value,
    forget_producer,
    mend_crc,
    move_offset,
)
from tests.drills.lying_broker.lies import PRODUCE, DamagedOnTheWay, Held, Reordered

HEAD = b"\x00\x00\x00\x07 twos before it: \x02\x02\x02" + bytes(20)


def frame_of(count: int) -> bytes:
    return HEAD + b"".join(record_batch(3, 10) + b"\x02" for _ in range(count))


def test_every_batch_of_a_frame_is_found() -> None:
    frame, size = frame_of(3), len(record_batch(3, 10))
    starts = [len(HEAD) + number * (size + 1) for number in range(3)]
    assert list(batches(frame)) == [Batch(start, start + size) for start in starts]


def test_a_frame_without_batches_has_none() -> None:
    assert list(batches(HEAD)) == []
    assert list(batches(HEAD + record_batch(3, 10)[:-1])) == []


@pytest.mark.parametrize("change", [mend_crc, forget_producer, lambda frame, batch: move_offset(frame, batch, 5)])
def test_what_should_pass_for_a_batch_does(change: Callable[[bytearray, Batch], None]) -> None:
    frame = bytearray(frame_of(1))
    (batch,) = batches(frame)
    flip_last_value(frame, batch)
    mend_crc(frame, batch)
    change(frame, batch)
    assert list(batches(frame)) == [batch]


def test_one_bit_of_a_value_is_flipped() -> None:
    before, after = frame_of(1), bytearray(frame_of(1))
    (batch,) = batches(before)
    flip_last_value(after, batch)
    assert [at for at in range(len(before)) if before[at] != after[at]] == [batch.end - 2]
    assert list(batches(after)) == [], "a checksum is not mended by itself"


@pytest.mark.parametrize(("kind", "is_first"), [(DamagedOnTheWay, True), (Reordered, False)])
def test_a_batch_is_held_until_the_next_one_comes(kind: Callable[[], Held], is_first: bool) -> None:
    ours, brokers = socket.socketpair()
    with ours, brokers:
        link = Link(ours, ours)
        lie = kind()
        for _ in range(lie.every - 1):
            lie.due()
        held, following = frame_of(1), frame_of(2)
        lie.request(link, PRODUCE, held)
        lie.request(link, PRODUCE, following)
        brokers.settimeout(10)
        first = int.from_bytes(brokers.recv(4), "big")
        assert first == len(held if is_first else following)
        assert lie.told == 1
