"""The compression codecs of record batches, in formats that every Kafka client can read.

lz4 is a frame of independent blocks, as Kafka's own reader requires; snappy is one raw block, as in librdkafka.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from highwater.spark_loadgen.errors import LoadSetupError

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: Final[tuple[Codec, ...]] = get_args(Codec)
"""The index of a codec is its number in a batch's attributes."""
DEFAULT_LEVEL: Final = -1
# The defaults of librdkafka and of Kafka's own client.
_GZIP_LEVEL: Final = 6
_GZIP_LEVEL_MAX: Final = 9
_ZSTD_LEVEL: Final = 3
_LZ4_LEVEL: Final = 0


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec. number: its number in a batch's attributes."""

    number: int
    compress: Callable[[memoryview], bytes]


def compression_of(codec: Codec, level: int = DEFAULT_LEVEL) -> Compression | None:
    """None for "none". Raises LoadSetupError where the package is missing: executors need it only for these codecs."""
    if codec == "none":
        return None
    try:
        import cramjam
    except ImportError as error:
        raise LoadSetupError(
            f"executor {socket.gethostname()} lacks the package cramjam, which the wire driver needs for {codec}: "
            "install it there, or use the client driver"
        ) from error
    return Compression(CODECS.index(codec), _compressor(cramjam, codec, level))


def compressions() -> dict[str, Compression]:
    """Each codec that compresses, at its usual level. Raises LoadSetupError where the package is missing."""
    return {codec: compression for codec in CODECS if (compression := compression_of(codec)) is not None}


def _compressor(cramjam: Any, codec: Codec, level: int) -> Callable[[memoryview], bytes]:
    match codec:
        case "gzip":
            gzip_level = _GZIP_LEVEL if level == DEFAULT_LEVEL else min(level, _GZIP_LEVEL_MAX)
            return lambda records: bytes(cramjam.gzip.compress(records, gzip_level))
        case "snappy":
            return lambda records: bytes(cramjam.snappy.compress_raw(records))
        case "lz4":
            return lambda records: _lz4_frame(cramjam, _LZ4_LEVEL if level == DEFAULT_LEVEL else level, records)
        case _:
            zstd_level = _ZSTD_LEVEL if level == DEFAULT_LEVEL else level
            return lambda records: bytes(cramjam.zstd.compress(records, zstd_level))


def _lz4_frame(cramjam: Any, level: int, records: memoryview) -> bytes:
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(bytes(records))
    return bytes(frame.finish())
