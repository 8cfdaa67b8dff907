from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kafka.protocol.frame import (
    INITIAL_BUFFER_BYTES,
    READ_AHEAD_BUFFER_BYTES,
    FrameReceiver,
    frame_response,
    read_request_header,
)
from highwater.kafka.protocol.primitives import MalformedRequestError


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(receiver: FrameReceiver, stream: bytes, read_bytes: int) -> list[bytes]:
    """Frames of a stream that arrives in reads of at most `read_bytes`."""
    frames = []
    position = 0
    while position < len(stream):
        room = receiver.writable()
        piece = stream[position : position + min(read_bytes, len(room))]
        assert piece, "there must always be room"
        room[: len(piece)] = piece
        receiver.received(len(piece))
        position += len(piece)
        while (frame := receiver.next()) is not None:
            frames.append(bytes(frame))
    return frames


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3 * INITIAL_BUFFER_BYTES), max_size=8),
    read_bytes=st.sampled_from([1013, 40_000, 10**7]),
)
def test_frames_come_out_as_they_went_in(sizes: list[int], read_bytes: int) -> None:
    bodies = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    receiver = FrameReceiver(10**7)
    assert feed(receiver, b"".join(map(framed, bodies)), read_bytes) == bodies
    assert receiver.is_empty


def test_memory_follows_what_was_sent_not_what_was_claimed() -> None:
    receiver = FrameReceiver(100 * 1024 * 1024)
    feed(receiver, struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000, 10**7)
    assert receiver.capacity_bytes == INITIAL_BUFFER_BYTES
    feed(receiver, b"x" * 3_000_000, 10**7)
    assert receiver.capacity_bytes <= 8 * 1024 * 1024


def test_a_connection_that_says_nothing_has_no_buffer() -> None:
    assert FrameReceiver(10**8).capacity_bytes == 0


def test_a_buffer_that_grew_for_a_large_frame_is_given_back() -> None:
    receiver = FrameReceiver(10**8)
    body = bytes(3 * READ_AHEAD_BUFFER_BYTES)
    assert feed(receiver, framed(body), 10**8) == [body]
    receiver.shrink()
    assert receiver.capacity_bytes == 0
    assert feed(receiver, framed(b"a"), 10) == [b"a"]
    assert receiver.capacity_bytes == INITIAL_BUFFER_BYTES
    assert feed(receiver, framed(b"again"), 10**8) == [b"again"]


def test_a_buffer_with_half_a_frame_in_it_is_not_shrunk() -> None:
    receiver = FrameReceiver(10**8)
    body = bytes(range(256)) * 10_000
    stream = framed(body)
    assert feed(receiver, stream[:2_000_000], 10**8) == []
    receiver.shrink()
    assert feed(receiver, stream[2_000_000:], 10**8) == [body]


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_impossible_lengths_are_refused(length: int) -> None:
    with pytest.raises(MalformedRequestError, match=r"socket\.request\.max\.bytes allows 1000"):
        feed(FrameReceiver(1000), struct.pack(">i", length), 10**7)


@pytest.mark.parametrize("client_id", [None, "", "clïent"])
def test_request_headers(client_id: str | None) -> None:
    raw = b"" if client_id is None else client_id.encode()
    frame = struct.pack(">hhih", 3, 9, -5, -1 if client_id is None else len(raw)) + raw + b"body"
    header = read_request_header(memoryview(frame))
    assert (header.api_key, header.api_version, header.correlation_id) == (3, 9, -5)
    assert header.client_id == client_id
    assert frame[header.body_position :] == b"body"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03",
        struct.pack(">hhih", 3, 9, 1, 10) + b"short",
        struct.pack(">hhih", 3, 9, 1, -2),
        struct.pack(">hhih", 3, 9, 1, 1) + b"\xff",
    ],
)
def test_malformed_request_headers(frame: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        read_request_header(memoryview(frame))


@pytest.mark.parametrize("flexible", [False, True])
def test_responses_tell_their_length(flexible: bool) -> None:
    whole = b"".join(frame_response(77, [b"ab", bytearray(b"cde")], flexible_header=flexible))
    length, correlation_id = struct.unpack_from(">ii", whole)
    assert length == len(whole) - 4
    assert correlation_id == 77
    assert whole[8:] == (b"\x00abcde" if flexible else b"abcde")
