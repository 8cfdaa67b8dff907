"""Where the fields of records are, for many batches at once: no Python object for a record. Pure.

A record is laid out as `kafka.records.record` says. Records are found one after the other, as each begins with its
length: one of every batch in a step, or a run of records of equal length by one comparison. Large batches are divided
for that. All other fields are then read column by column.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Octets = NDArray[np.uint8]

_VARINT_BITS_MAX: Final = 63
_MORE: Final = np.uint8(0x80)
"""The bit of an octet of a varint that is not the last."""
_BITS: Final = np.uint8(0x7F)
_FIELD_BYTES_MAX: Final = (1 << 31) - 1
_RUN_MIN: Final = 32
"""Records in a run for which a comparison costs less than a step for each."""
_EQUAL_MAX: Final = 64
"""Equal lengths in a row after which a run is looked for in any case."""
_LOCKSTEP_MIN: Final = 24
"""Batches for which a step of all together costs less than a step for each."""
_PART_RECORDS: Final = 128
"""The records in a part of a batch, about: more of them are more steps, and fewer guesses."""
_PART_RECORDS_MIN: Final = _PART_RECORDS // 2
_PARTS_MIN: Final = 16
"""Parts of a batch for which the guesses cost less than they save."""
_SAMPLED: Final = 3
_ALIKE_BYTES: Final = 4
"""How much the widths of numbers make the sizes of records differ that are else equal."""
_PREFIX_BYTES_MAX: Final = 32
"""More than the fields before the key take."""
_NO_GUESS: Final = (sys.maxsize, 0)
_NULL: Final = -1


class MalformedRecords(Exception):  # noqa: N818 - it names the thing found
    """The bytes of a batch are no records; the text says why, without the place."""


@dataclass(frozen=True, slots=True)
class Region:
    """The records of one batch, uncompressed: from `start` to `end` in the bytes, `count` records."""

    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True)
class Fields:
    """Positions and numbers of records, an element for each record. A length of −1 means null."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s
    header_count: Int64s
    headers_start: Int64s
    end: Int64s

    def where(self, mask: NDArray[np.bool_]) -> Fields:
        return Fields(*(getattr(self, name)[mask] for name in self.__slots__))


def find_starts(body: memoryview, octets: Octets, regions: Sequence[Region]) -> Int64s:
    """The position of each record's length. `octets` are the bytes of `body`. Raises MalformedRecords."""
    parts = _parts_of(body, octets, regions)
    if len(parts) > len(regions):
        try:
            return _walk(body, octets, parts)
        except MalformedRecords:
            # A place only looked like a record, or offsets have gaps.
            pass
    return _walk(body, octets, regions)


def _parts_of(body: memoryview, octets: Octets, regions: Sequence[Region]) -> list[Region]:
    """The regions; a large one of records that vary in length is in parts that can be walked together.

    They begin where it looks like the beginning of a record. The walk proves each of these guesses: the records that
    are counted up to it have to end there.
    """
    divided = [each for each in regions if each.count // _PART_RECORDS >= _PARTS_MIN and not _are_alike(body, each)]
    guesses = iter(_likely_records(octets, divided) if divided else ())
    place, offset_delta = next(guesses, _NO_GUESS)
    found: list[Region] = []
    for region in regions:
        start, number = region.start, 0
        while place < region.end:
            if offset_delta - number >= _PART_RECORDS_MIN:
                found.append(Region(start, place, offset_delta - number))
                start, number = place, offset_delta
            place, offset_delta = next(guesses, _NO_GUESS)
        found.append(Region(start, region.end, region.count - number))
    return found


def _are_alike(body: memoryview, region: Region) -> bool:
    """Whether the first records are about as long as all are on average: there are runs of equal lengths then."""
    average = (region.end - region.start) / region.count
    at = region.start
    for _ in range(_SAMPLED):
        if at >= region.end:
            return True
        stride = _long_stride(body, at, region.end)[1]
        if abs(stride - average) > _ALIKE_BYTES:
            return False
        at += stride
    return True


def _likely_records(octets: Octets, regions: Sequence[Region]) -> list[tuple[int, int]]:
    """Where records probably begin, and their offset deltas, in ascending order: some of each part if any look so."""
    places = [_zeros(octets, region) for region in regions]
    number = np.repeat(np.arange(len(regions)), [len(each) for each in places])
    # A record begins with its length, in up to three bytes, and attributes, which are 0.
    attributes = np.concatenate(places)
    two = octets[attributes - 2] >= _MORE
    place = attributes - 1 - two - (two & (octets[attributes - 3] >= _MORE))
    following, offset_delta = _prefix(octets, place)
    end = np.array([region.end for region in regions])[number]
    likely = (following > attributes) & (following < end - _PREFIX_BYTES_MAX)
    likely &= (offset_delta > 0) & (offset_delta < np.array([region.count for region in regions])[number])
    place, following, offset_delta = (each[likely] for each in (place, following, offset_delta))
    # Where no record begins, the next one hardly ever has the next number.
    after, next_delta = _prefix(octets, following)
    likely = (after > following) & (next_delta == offset_delta + 1)
    return list(zip(place[likely].tolist(), offset_delta[likely].tolist(), strict=True))


def _zeros(octets: Octets, region: Region) -> Int64s:
    """Where the bytes are 0 in the beginning of each part of a region but the first, a few records of it."""
    size = region.end - region.start
    parts = region.count // _PART_RECORDS
    step = size // parts
    first = region.start + step
    width = 2 * size // region.count + _PREFIX_BYTES_MAX
    looked_at = octets[first : first + (parts - 1) * step].reshape(parts - 1, step)[:, :width]
    part, column = np.divmod(np.flatnonzero(looked_at == 0), width)
    return first + part * step + column


def _prefix(octets: Octets, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Where the records end that begin at `starts`, −1 if none can begin there, and their offset deltas."""
    length, at = _short_varints(octets, starts)
    end = np.where(octets[at] == 0, at + length, -1)
    _, at = _short_varints(octets, at + 1)
    offset_delta, _ = _short_varints(octets, at)
    return end, offset_delta


def _short_varints(octets: Octets, at: Int64s) -> tuple[Int64s, Int64s]:
    """Return what `read_varints` does, but of three bytes at most: a longer number is read wrongly."""
    octet, second, third = (octets[at + index].astype(np.int64) for index in range(3))
    two = octet >= 0x80
    three = two & (second >= 0x80)
    value = (octet & 0x7F) | two * (second & 0x7F) << 7 | three * (third & 0x7F) << 14
    return value >> 1 ^ -(value & 1), at + 1 + two + three


def _walk(body: memoryview, octets: Octets, regions: Sequence[Region]) -> Int64s:
    count = np.array([region.count for region in regions], np.int64)
    first_of = np.cumsum(count) - count
    starts = np.empty(int(count.sum()), np.int64)
    position = np.array([region.start for region in regions], np.int64)
    steps = 0
    if len(regions) >= _LOCKSTEP_MIN:
        steps = int(np.sort(count)[-_LOCKSTEP_MIN])
        position = _walk_together(octets, position, count, steps, starts, first_of)
    for region, at, row in zip(regions, position.tolist(), first_of.tolist(), strict=True):
        if region.count > steps:
            _walk_alone(body, octets, Region(at, region.end, region.count - steps), starts[row + steps :])
        elif at != region.end:
            raise MalformedRecords(_off_by(at, region))
    return starts


def _walk_together(octets: Octets, position: Int64s, count: Int64s, steps: int, starts: Int64s, row: Int64s) -> Int64s:
    """Find up to `steps` records of each batch, one of each batch at a time; returns the positions after them."""
    order = np.argsort(-count, kind="stable")
    at, row = position[order], row[order]
    # How many batches have a record in each step: those are the first in this order.
    busy = np.searchsorted(-count[order], -np.arange(steps), side="left")
    pair_at = np.ndarray(max(len(octets) - 1, 0), "<u2", octets, strides=(1,))
    try:
        for step, batches in enumerate(busy.tolist()):
            here = at[:batches]
            starts[row[:batches] + step] = here
            stride = _STRIDE_OF_PAIR[pair_at[here]]
            if stride.min() < 0:
                length, after = read_varints(octets, here)
                if length.min() < 0:
                    raise MalformedRecords("a record has a negative length")
                stride = after - here + length
            at[:batches] += stride
    except IndexError:
        raise MalformedRecords("a record lies beyond the end of its batch") from None
    found = np.empty_like(at)
    found[order] = at
    return found


def _strides_of_pairs() -> NDArray[np.int64]:
    """The distance to the next record by a record's first two bytes, little-endian; −1 for a longer or bad length."""
    pair = np.arange(1 << 16, dtype=np.int64)
    first, second = pair & 0xFF, pair >> 8
    length = np.where(first < 0x80, first, first & 0x7F | second << 7)
    stride = np.where(first < 0x80, 1, 2) + (length >> 1)
    return np.where((length & 1 == 1) | (first >= 0x80) & (second >= 0x80), -1, stride)


_STRIDE_OF_PAIR: Final = _strides_of_pairs()


def _walk_alone(body: memoryview, octets: Octets, region: Region, starts: Int64s) -> None:
    """Find the records of one batch, one after the other, or a run of records of equal length at once."""
    position, end, left = region.start, region.end, region.count
    single: list[int] = []
    row = last_stride = equal = 0
    promising = 1
    while left:
        if position + 1 >= end:
            raise MalformedRecords(f"{left} of {region.count} records are missing")
        octet = body[position]
        if octet < 0x80:
            stride = 1 + (octet >> 1)
        elif (second := body[position + 1]) < 0x80:
            stride = 2 + ((octet & 0x7F | second << 7) >> 1)
        else:
            _, stride = _long_stride(body, position, end)
        if stride != last_stride:
            last_stride, equal = stride, 0
        elif equal < promising or left < _RUN_MIN:
            equal += 1
        else:
            run = _run(body, octets, position, min(left, (end - position) // stride))
            starts[row : row + len(single)] = single
            row += len(single)
            single.clear()
            starts[row : row + run] = np.arange(position, position + run * stride, stride)
            row += run
            position += run * stride
            left -= run
            # Lengths that are equal by chance make short runs, for which a comparison costs too much.
            promising = min(2 * promising, _EQUAL_MAX) if run < _RUN_MIN else 1
            equal = 0
            continue
        single.append(position)
        position += stride
        left -= 1
    if position != end:
        raise MalformedRecords(_off_by(position, region))
    starts[row : row + len(single)] = single


def _off_by(position: int, region: Region) -> str:
    return f"the records end {region.end - position} bytes off the end of their batch"


def _long_stride(body: memoryview, position: int, end: int) -> tuple[int, int]:
    """The width of the length that begins at `position`, and the distance to the next record."""
    value = shift = 0
    at = position
    while True:
        if at >= end or shift > _VARINT_BITS_MAX:
            raise MalformedRecords("the length of a record does not end")
        octet = body[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            break
        shift += 7
    if value & 1:
        raise MalformedRecords("a record has a negative length")
    return at - position, at - position + (value >> 1)


def _run(body: memoryview, octets: Octets, position: int, at_most: int) -> int:
    """How many records from `position` on have the same length; one at least."""
    width, stride = _long_stride(body, position, len(body))
    same = np.ones(max(at_most, 1), np.bool_)
    if at_most > 1:
        for at in range(position, position + width):
            same &= octets[at : at + (at_most - 1) * stride + 1 : stride] == octets[at]
    return len(same) if same.all() else int(same.argmin())


def read_varints(octets: Octets, at: Int64s) -> tuple[Int64s, Int64s]:
    """Read a signed varint at each position; returns the values and the positions after them.

    Raises MalformedRecords for a varint that does not end. What has one or two bytes, as most has, is reckoned in
    numbers of 8 and 16 bits: a pass over them costs less.
    """
    try:
        first = octets[at]
        goes_on = first >= _MORE
        if not goes_on.any():
            return _signed(first, np.int8), at + 1
        at = at + goes_on
        second = octets[at] * goes_on
        zigzag = (first & _BITS).astype(np.uint16) | (second & _BITS).astype(np.uint16) << 7
        at += 1
        goes_on = second >= _MORE
        if not goes_on.any():
            return _signed(zigzag, np.int16), at
        more = np.flatnonzero(goes_on)
        value = zigzag.astype(np.int64)
        shift = 14
        while more.size:
            if shift > _VARINT_BITS_MAX:
                raise MalformedRecords("a variable-length integer does not end")
            octet = octets[at[more]]
            value[more] |= (octet & _BITS).astype(np.int64) << shift
            at[more] += 1
            more = more[octet >= _MORE]
            shift += 7
    except IndexError:
        raise MalformedRecords("a field lies beyond the end of the records") from None
    return _signed(value.view(np.uint64), np.int64), at


def _signed(zigzag: NDArray[Any], kind: type[np.signedinteger[Any]]) -> Int64s:
    """What unsigned numbers of zigzag mean, in which the sign is the last bit; `kind` is as wide as they are."""
    return (zigzag >> 1 ^ -(zigzag & 1)).view(kind).astype(np.int64, copy=False)


def read_fields(octets: Octets, starts: Int64s) -> Fields:
    """Read where the fields of the records at `starts` are. Raises MalformedRecords if a field leaves its record."""
    length, at = read_varints(octets, starts)
    end = at + length
    timestamp_delta, at = read_varints(octets, at + 1)  # One byte of attributes, which no version uses.
    offset_delta, at = read_varints(octets, at)
    key_length, key_start = read_varints(octets, at)
    value_length, value_start = read_varints(octets, _after_field("key", key_start, key_length, end))
    header_count, headers_start = read_varints(octets, _after_field("value", value_start, value_length, end))
    if header_count.any() or (headers_start != end).any():
        if ((header_count < 0) | (headers_start > end)).any():
            raise MalformedRecords("a record's number of headers cannot be")
        if ((headers_start != end) & (header_count == 0)).any():
            raise MalformedRecords("a record ends before its length does")
    return Fields(
        timestamp_delta,
        offset_delta,
        key_start,
        key_length,
        value_start,
        value_length,
        header_count,
        headers_start,
        end,
    )


def _after_field(name: str, start: Int64s, length: Int64s, end: Int64s) -> Int64s:
    """Where the fields end that begin at `start`: not behind the `end` of their records."""
    if not length.size:
        return start
    least, most = length.min(), length.max()
    after = start if most <= 0 else start + np.maximum(length, 0)
    # A length can be so large that the sum would begin again from below.
    if least < _NULL or most > _FIELD_BYTES_MAX or (after > end).any():
        raise MalformedRecords(f"a {name} does not fit into its record")
    return after


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """Positions of record headers, all headers of a record together, an element for each header."""

    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s


def read_headers(octets: Octets, fields: Fields) -> HeaderFields:
    """Read where the headers of all records are. Raises MalformedRecords."""
    counts = fields.header_count
    # A header takes two bytes at least: more than half the bytes would be read beyond the record.
    if (counts > (fields.end - fields.headers_start) // 2).any():
        raise MalformedRecords("a record claims more headers than its bytes can hold")
    first_of = np.cumsum(counts) - counts
    found = [np.empty(int(counts.sum()), np.int64) for _ in HeaderFields.__slots__]
    left = np.flatnonzero(counts)
    at = fields.headers_start[left]
    number = 0
    while left.size:
        end = fields.end[left]
        key_length, key_start = read_varints(octets, at)
        after_key = _after_field("header's key", key_start, key_length, end)
        if (key_length < 0).any():
            raise MalformedRecords("a record header has no key")
        value_length, value_start = read_varints(octets, after_key)
        at = _after_field("header's value", value_start, value_length, end)
        place = first_of[left] + number
        for array, values in zip(found, (key_start, key_length, value_start, value_length), strict=True):
            array[place] = values
        number += 1
        more = counts[left] > number
        if (at[~more] != end[~more]).any():
            raise MalformedRecords("a record ends before its length does")
        left, at = left[more], at[more]
    return HeaderFields(*found)
