"""The clock of a lab: the fields of RFC 4330 that a client judges; chrony itself asks it in guest_story.py."""

from __future__ import annotations

import struct

from tests.lab.clock import answer, timestamp

ASKED_AT = 0x0123456789ABCDEF
REQUEST = bytes([4 << 3 | 3, 0, 6, 0]) + bytes(36) + struct.pack(">Q", ASKED_AT)


def test_an_answer_has_the_question_it_belongs_to_and_both_times() -> None:
    told = answer(REQUEST, 1_000_000_000_500_000_000, 1_000_000_001_250_000_000)
    assert told is not None
    assert len(told) == 48
    leap, version, mode = told[0] >> 6, told[0] >> 3 & 7, told[0] & 7
    assert (leap, version, mode) == (0, 4, 4)
    assert 0 < told[1] < 16
    assert told[2] == 6
    reference, originate, receive, transmit = struct.unpack(">4Q", told[16:])
    assert originate == ASKED_AT
    assert reference == receive == timestamp(1_000_000_000_500_000_000)
    assert (receive & 0xFFFFFFFF, transmit & 0xFFFFFFFF) == (1 << 31, 1 << 30)
    assert (transmit >> 32) - (receive >> 32) == 1


def test_the_epoch_of_ntp_is_1900() -> None:
    assert timestamp(0) >> 32 == 2_208_988_800


def test_what_is_no_question_has_no_answer() -> None:
    answered = bytes([4 << 3 | 4]) + REQUEST[1:]
    assert [answer(data, 0, 0) for data in (b"", REQUEST[:47], answered)] == [None, None, None]
