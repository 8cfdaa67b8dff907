"""What stands before a value of a registry: a zero, the id of the schema, for Protobuf a path. Pure.

The format is Confluent's, which Apicurio and Karapace share: one byte 0, the id as four bytes, big-endian.
"""

from __future__ import annotations

from typing import Final

from highwater.pipeline.errors import PipelineError, SettingsError

_MAGIC: Final = 0
_SAID_MAX: Final = 200
_PREFIX_BYTES: Final = 5
_VARINT_BITS: Final = 7
_VARINT_BYTES_MAX: Final = 5


class UnreadableValueError(PipelineError):
    """A value does not have the format that it should have."""


class Reading:
    """Whatever a library raises over bytes that anybody may have written is one error of ours.

    Libraries promise no list of what they raise: OverflowError for a date, RecursionError for brackets, and others.
    """

    def __init__(self, what: str, raises: type[PipelineError]) -> None:
        """what: is wrong, such as `it is no JSON`. raises: passes as it is."""
        self._what = what
        self._raises = raises

    def __enter__(self) -> None:
        """Nothing is held."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A library that is missing is no fault of the bytes.
        if isinstance(error, Exception) and not isinstance(error, (self._raises, ImportError)):
            said = " ".join(str(error).split())[:_SAID_MAX]
            raise self._raises(f"{self._what}: {said or type(error).__name__}") from None


def reading_value(kind: str) -> Reading:
    return Reading(f"it is not {kind} of its schema", UnreadableValueError)


def reading_schema(kind: str) -> Reading:
    return Reading(f"the registry has a schema that is not {kind}", SettingsError)


def split(payload: bytes) -> tuple[int, bytes]:
    """The id of the schema, and what follows it. Raises UnreadableValueError for bytes that no serialiser wrote."""
    if len(payload) < _PREFIX_BYTES or payload[0] != _MAGIC:
        raise UnreadableValueError("no serialiser of a registry wrote it: it lacks the byte 0 and the id of a schema")
    return int.from_bytes(payload[1:_PREFIX_BYTES], "big"), payload[_PREFIX_BYTES:]


def split_message_path(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Split Protobuf into the path of indexes of the message in its file, and the message itself."""
    count, at = _varint(payload, 0)
    if count == 0:
        return (0,), payload[at:]
    path = []
    for _ in range(count):
        index, at = _varint(payload, at)
        path.append(index)
    return tuple(path), payload[at:]


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where it ends."""
    value = 0
    for number, octet in enumerate(payload[at : at + _VARINT_BYTES_MAX]):
        value |= (octet & 0x7F) << (_VARINT_BITS * number)
        if not octet & 0x80:
            return (value >> 1) ^ -(value & 1), at + number + 1
    raise UnreadableValueError("the path of the message is damaged")
