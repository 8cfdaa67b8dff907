"""Compression codecs in the framing of Kafka's Java client, with a bound on decompressed size.

- gzip: RFC 1952, one or more members.
- snappy: written as blocks of 32 KiB behind the header of xerial's snappy-java; read with or without that framing,
  since librdkafka and others send one bare block.
- lz4: the LZ4 frame format with independent blocks of 64 KiB (KIP-57); Kafka's reader refuses dependent blocks, which
  is what most libraries' frame functions make, so the frame is put together here from blocks.
- zstd: one frame (KIP-110).
"""

from __future__ import annotations

import mmap
import struct
from typing import Final

import cramjam

from highwater.kafka.records.batch import Codec, CorruptBatch, ReadableBuffer

DEFAULT_LIMIT_BYTES: Final = 256 * 1024 * 1024


class TooLargeError(CorruptBatch):
    """The data unfolds to more than is allowed, whether it is damaged behind that or not."""


Unfolded = bytes | mmap.mmap
"""Decompressed bytes. Each item of both is an integer, each slice is bytes."""

_BLOCK_LENGTH: Final = struct.Struct(">i")
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

# Magic, FLG (version 1, independent blocks), BD (64 KiB blocks), and the header checksum of just these two bytes.
_LZ4_HEADER: Final = bytes.fromhex("04224d18 6040 82")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_BLOCK_LENGTH: Final = struct.Struct("<I")
_LZ4_STORED_BIT: Final = 0x8000_0000
_LZ4_END_MARK: Final = _LZ4_BLOCK_LENGTH.pack(0)

_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3

_OUTPUT_IS_FULL: Final = "failed to write whole buffer"
"""What cramjam says of it, in Rust's words."""
_FIRST_GUESS_BYTES: Final = 64 * 1024
_FIRST_GUESS_RATIO: Final = 8


def compress(codec: Codec, data: ReadableBuffer | mmap.mmap, level: int | None = None) -> bytes:
    """Compress `data`. `level` is a level of gzip or zstd; None is Kafka's default. Other codecs have no levels."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(_plain(data), _GZIP_LEVEL if level in (None, -1) else level))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            return _compress_lz4(memoryview(data))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(_plain(data), _ZSTD_LEVEL if level is None else level))


def _plain(data: ReadableBuffer | mmap.mmap) -> bytes | mmap.mmap:
    return data if isinstance(data, mmap.mmap) else bytes(data)


def decompress(codec: Codec, data: ReadableBuffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Return the decompressed bytes. Raises CorruptBatch for damage, or for more than `limit_bytes`."""
    body = unfold(codec, data, limit_bytes=limit_bytes)
    return body if isinstance(body, bytes) else body[:]


def unfold(codec: Codec, data: ReadableBuffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Unfolded:
    """The same without a copy of what is large, during which no other thread would run."""
    try:
        match codec:
            case Codec.NONE:
                return bytes(data)
            case Codec.SNAPPY:
                return _decompress_snappy(memoryview(data), limit_bytes)
            case Codec.GZIP | Codec.LZ4 | Codec.ZSTD:
                return _decompress_bounded(codec, bytes(data), limit_bytes)
    except cramjam.DecompressionError as error:
        if str(error) == _OUTPUT_IS_FULL:
            raise TooLargeError(f"{codec.name.lower()} data unfolds to more than {limit_bytes} bytes") from error
        raise CorruptBatch(f"{codec.name.lower()} data cannot be decompressed: {error}") from error


def _decompress_bounded(codec: Codec, data: bytes, limit_bytes: int) -> Unfolded:
    """Decompress formats that may not store their size: try a likely size first, then the limit.

    The large buffer is mapped: its pages cost nothing until they are written, where a bytearray's are all zeroed first.
    """
    into = {
        Codec.GZIP: cramjam.gzip.decompress_into,
        Codec.LZ4: cramjam.lz4.decompress_into,
        Codec.ZSTD: cramjam.zstd.decompress_into,
    }[codec]
    guess_bytes = max(_FIRST_GUESS_BYTES, _FIRST_GUESS_RATIO * len(data))
    if guess_bytes < limit_bytes:
        output = bytearray(guess_bytes)
        try:
            return bytes(memoryview(output)[: into(data, output)])
        except cramjam.DecompressionError:
            pass  # The guess was too small, or the data is damaged: the second try shows which.
    pages = mmap.mmap(-1, limit_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    size = into(data, pages)
    if not size:
        return b""
    pages.resize(size)
    return pages


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(data[start : start + _XERIAL_BLOCK_BYTES])))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(bytes(data), limit_bytes)
    parts = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _BLOCK_LENGTH.size:
            raise CorruptBatch("snappy data ends inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(data) - position:
            raise CorruptBatch(f"snappy block of {length} bytes where {len(data) - position} are left")
        part = _decompress_snappy_block(bytes(data[position : position + length]), limit_bytes)
        limit_bytes -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, limit_bytes: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit_bytes:
        raise TooLargeError(f"snappy block unfolds to {size} bytes, more than the {limit_bytes} allowed")
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_lz4(data: memoryview) -> bytes:
    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = bytes(data[start : start + _LZ4_BLOCK_BYTES])
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_BLOCK_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_BLOCK_LENGTH.pack(len(plain) | _LZ4_STORED_BIT), plain)
    parts.append(_LZ4_END_MARK)
    return b"".join(parts)
