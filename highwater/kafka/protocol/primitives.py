"""Kafka's primitive types: a bounds-checked decoder over one request, and encoders for answers.

The decoder is the first to touch what a stranger sent, so its rule is: every length and count is checked against
the bytes that are really there before anything is allocated or sliced.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.arrays import array
from highwater.kafka.pacing import FEW_ITEMS, each, give_way

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ReadInteger = Callable[[memoryview, int], tuple[int]]
_read_int8: Final[_ReadInteger] = struct.Struct(">b").unpack_from
_read_int16: Final[_ReadInteger] = _INT16.unpack_from
_read_int32: Final[_ReadInteger] = _INT32.unpack_from
_read_int64: Final[_ReadInteger] = struct.Struct(">q").unpack_from
_VARINT_SHIFTS: Final = (0, 7, 14, 21, 28)
_SHORT_VARINTS: Final = tuple(bytes((value,)) for value in range(0x80))

NO_TAGS: Final = b"\x00"
"""An empty tagged-field section, which ends every structure of a flexible version (KIP-482)."""
ZERO_UUID: Final = UUID(int=0)
_INTEGERS_AT_ONCE: Final = 8_192
_INTEGERS_PER_ITEM: Final = 8
"""An integer of an array takes four bytes on the wire and few more in memory, where a structure takes hundreds."""
MAX_ITEMS: Final = 200_000
"""Array items and tags in one request. An item may be a single byte on the wire and is hundreds in memory, so a frame
whose size is allowed could still fill the memory. Kafka's largest clusters have about so many partitions."""


MAX_BYTES: Final = 8 << 20
"""Subscriptions, assignments, tokens and keys in one request, each of which is copied in one step, more than once.
Kafka stores a group as one record, which has at most 1 MiB by default."""
LONGEST_STRING: Final = 65_535
"""Kafka refuses more than 32,767 bytes. Below this limit handlers answer with an error that says what is too long."""


class MalformedRequestError(Exception):
    """Bytes that are not the request they claim to be. The connection they came from cannot be trusted further."""


class TooManyItemsError(MalformedRequestError):
    """The request has more array items than its reader allows."""


class Decoder:
    """Reads one request from a buffer. `flexible` selects the compact encodings and tagged fields of KIP-482."""

    __slots__ = (
        "_buffer",
        "_bytes_left",
        "_bytes_max",
        "_end",
        "_items_left",
        "_items_max",
        "flexible",
        "position",
    )

    def __init__(
        self,
        buffer: memoryview,
        position: int = 0,
        *,
        flexible: bool = False,
        items_max: int = MAX_ITEMS,
        bytes_max: int = sys.maxsize,
    ) -> None:
        self._buffer = buffer
        self._end = len(buffer)
        self._items_left = self._items_max = items_max
        self._bytes_left = self._bytes_max = bytes_max
        self.position = position
        self.flexible = flexible

    @property
    def remaining(self) -> int:
        return self._end - self.position

    # One integer is read with no further call: what a hot request consists of are mostly these.

    def int8(self) -> int:
        position = self.position
        self.position = position + 1
        try:
            return _read_int8(self._buffer, position)[0]
        except struct.error:
            raise _cut_off(1, position) from None

    def int16(self) -> int:
        position = self.position
        self.position = position + 2
        try:
            return _read_int16(self._buffer, position)[0]
        except struct.error:
            raise _cut_off(2, position) from None

    def int32(self) -> int:
        position = self.position
        self.position = position + 4
        try:
            return _read_int32(self._buffer, position)[0]
        except struct.error:
            raise _cut_off(4, position) from None

    def int64(self) -> int:
        position = self.position
        self.position = position + 8
        try:
            return _read_int64(self._buffer, position)[0]
        except struct.error:
            raise _cut_off(8, position) from None

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        """Several fields of fixed size at once."""
        position = self.position
        self.position = position + form.size
        try:
            return form.unpack_from(self._buffer, position)
        except struct.error:
            raise MalformedRequestError(f"the request ends inside {form.size} bytes at byte {position}") from None

    def boolean(self) -> bool:
        return self.int8() != 0

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self.take(16)))

    def unsigned_varint(self) -> int:
        position = self.position
        if position < self._end and (byte := self._buffer[position]) < 0x80:
            self.position = position + 1
            return byte
        return self._long_unsigned_varint()

    def _long_unsigned_varint(self) -> int:
        buffer, position = self._buffer, self.position
        value = 0
        try:
            for shift in _VARINT_SHIFTS:
                byte = buffer[position]
                position += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    self.position = position
                    return value
        except IndexError:
            pass
        raise MalformedRequestError(f"a varint at byte {self.position} has no end")

    def take(self, length: int) -> memoryview:
        """The next `length` bytes, not copied."""
        position = self.position
        end = position + length
        if length < 0 or end > self._end:
            raise self._overrun(length)
        self.position = end
        return self._buffer[position:end]

    def _overrun(self, length: int) -> MalformedRequestError:
        return MalformedRequestError(
            f"a field at byte {self.position} claims {length} bytes; {self._end - self.position} are left"
        )

    def nullable_string(self) -> str | None:
        length = self.unsigned_varint() - 1 if self.flexible else self.int16()
        if length == -1:
            return None
        if length > LONGEST_STRING:
            raise MalformedRequestError(
                f"a string at byte {self.position} claims {length} bytes; {LONGEST_STRING} are allowed"
            )
        position = self.position
        end = position + length
        if length < 0 or end > self._end:
            raise self._overrun(length)
        self.position = end
        try:
            return str(self._buffer[position:end], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequestError(f"a string before byte {self.position} is not UTF-8: {error.reason}") from None

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedRequestError(f"a string before byte {self.position} is null where it must not be")
        return value

    def nullable_bytes(self) -> memoryview | None:
        length = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if length == -1:
            return None
        position = self.position
        end = position + length
        if length < 0 or end > self._end:
            raise self._overrun(length)
        self.position = end
        return self._buffer[position:end]

    def copied_bytes(self) -> bytes | None:
        """Nullable bytes that outlive the buffer."""
        value = self.nullable_bytes()
        if value is None:
            return None
        self._bytes_left -= len(value)
        if self._bytes_left < 0:
            raise MalformedRequestError(
                f"fields of bytes before byte {self.position} have more than {self._bytes_max:,} bytes in all"
            )
        return bytes(value)

    def array_length(self, least_item_bytes: int = 1) -> int:
        """The item count of an array, -1 for null. A count that cannot fit in what is left is refused here."""
        count = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if count < -1 or count * least_item_bytes > self._end - self.position:
            raise MalformedRequestError(f"an array before byte {self.position} claims {count} items")
        self._take_items(count)
        return count

    def int32_array(self) -> tuple[int, ...] | None:
        """An array of integers; None for null."""
        count = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if count == -1:
            return None
        position = self.position
        end = position + 4 * count
        if count < 0 or end > self._end:
            raise MalformedRequestError(f"an array before byte {position} claims {count} items")
        self._take_items(count // _INTEGERS_PER_ITEM)
        self.position = end
        if count <= FEW_ITEMS:
            return struct.unpack_from(f">{count}i", self._buffer, position)
        values: list[int] = []
        while position < end:
            some = min(_INTEGERS_AT_ONCE, (end - position) // 4)
            values += struct.unpack_from(f">{some}i", self._buffer, position)
            position += 4 * some
            give_way()
        return array(values)

    def items(self, least_item_bytes: int = 1) -> Iterable[int]:
        """Begin an array, and go over the numbers of its items. A long one gives way; none for null."""
        return each(range(self.array_length(least_item_bytes)))

    def _take_items(self, count: int) -> None:
        self._items_left -= count
        if self._items_left < 0:
            raise TooManyItemsError(f"arrays have more than {self._items_max:,} items in all; send them in parts")

    def skip_tags(self) -> None:
        """Step over a tagged-field section whose tags all may be ignored; nothing to do in older versions."""
        if not self.flexible:
            return
        position = self.position
        if position < self._end and not self._buffer[position]:
            self.position = position + 1
            return
        for _ in self.tags():
            continue

    def tags(self) -> Iterator[tuple[int, Decoder]]:
        """Each tagged field of the section that begins here, as its tag and a decoder of its value.

        What the caller reads of a value before it asks for the next one counts for the limits of this decoder.
        """
        count = self.unsigned_varint()
        self._take_items(count)
        for _ in each(range(count)):
            tag = self.unsigned_varint()
            section = Decoder(
                self.take(self.unsigned_varint()), flexible=True, items_max=self._items_max, bytes_max=self._bytes_max
            )
            section._items_left, section._bytes_left = self._items_left, self._bytes_left
            yield tag, section
            self._items_left, self._bytes_left = section._items_left, section._bytes_left


def error_code_of(number: int) -> ErrorCode:
    """One of a broker that is newer than we are is UNKNOWN_SERVER_ERROR."""
    if not number:
        return ErrorCode.none
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.unknown_server_error


def _cut_off(size: int, position: int) -> MalformedRequestError:
    return MalformedRequestError(f"the request ends inside a {size}-byte integer at byte {position}")


def unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return _SHORT_VARINTS[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def array_length(count: int, flexible: bool) -> bytes:
    return unsigned_varint(count + 1) if flexible else _INT32.pack(count)


def string(value: str, flexible: bool) -> bytes:
    raw = value.encode()
    return (unsigned_varint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def nullable_string(value: str | None, flexible: bool) -> bytes:
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    return string(value, flexible)


def bytes_length(length: int, flexible: bool) -> bytes:
    return unsigned_varint(length + 1) if flexible else _INT32.pack(length)


def int32_array(values: list[int], flexible: bool) -> bytes:
    return array_length(len(values), flexible) + struct.pack(f">{len(values)}i", *values)
