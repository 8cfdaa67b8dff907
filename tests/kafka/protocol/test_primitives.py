"""Limits of the decoder of requests."""

from __future__ import annotations

import pytest

from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError, TooManyItemsError

_TAGS = 3
_ARRAY = bytes((11,)) + bytes(10)  # ten items of one byte
_BYTES = bytes((6,)) + b"value"


def tagged(value: bytes) -> memoryview:
    fields = b"".join(bytes((tag, len(value))) + value for tag in range(_TAGS))
    return memoryview(bytes((_TAGS,)) + fields + _ARRAY)


def items_read(items_max: int) -> list[int]:
    decoder = Decoder(tagged(_ARRAY), flexible=True, items_max=items_max)
    return [*(section.array_length() for _, section in decoder.tags()), decoder.array_length()]


def test_items_in_tagged_fields_count_for_their_request() -> None:
    all_of_them = _TAGS + _TAGS * 10 + 10
    assert items_read(all_of_them) == [10] * (_TAGS + 1)
    for items_max in (all_of_them - 1, 25):
        with pytest.raises(TooManyItemsError, match=f"more than {items_max} items in all"):
            items_read(items_max)


def test_bytes_in_tagged_fields_count_for_their_request() -> None:
    decoder = Decoder(tagged(_BYTES), flexible=True, bytes_max=15)
    assert [section.copied_bytes() for _, section in decoder.tags()] == [b"value"] * _TAGS
    decoder = Decoder(tagged(_BYTES), flexible=True, bytes_max=14)
    with pytest.raises(MalformedRequestError, match="more than 14 bytes in all"):
        [section.copied_bytes() for _, section in decoder.tags()]
