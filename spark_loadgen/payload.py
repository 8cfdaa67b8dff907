"""Pools of value bodies, made before the clock starts: generated JSON log lines, or lines of a real text file.

A worker walks through one common pool from a starting point of its own. The pool is larger than a batch, so that a
compressor finds in a batch what the payload has to offer and not the same record twice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from spark_loadgen.model import GeneratedPayload, LoadSetupError
from spark_loadgen.stamp import STAMP_BYTES

POOL_BYTES: Final = 4 << 20
_BODIES_MIN: Final = 16
_BODIES_MAX: Final = 32_768
FILE_BYTES_MAX: Final = 8 << 20

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)
_LEVELS: Final = ("DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR")
_SERVICES: Final = ("cart", "catalogue", "checkout", "gateway", "inventory", "payment", "search", "shipping")
_PHRASES: Final = (
    "request finished with status 200 after",
    "request finished with status 404 after",
    "cache miss for key of session, reading from the store",
    "connection from pool reused, idle for",
    "retrying call to upstream, attempt",
    "user signed in from address 10.0.3.17 with token of device",
    "order accepted and queued for delivery, items",
    "garbage collection paused the process, ms",
    "slow query on table orders, rows examined",
    "health check passed in",
)


def body_pool(payload: GeneratedPayload | bytes, record_bytes: int | None, seed: int) -> list[bytes]:
    """The bodies that follow the stamps; `payload` as bytes is the text of a payload file."""
    if isinstance(payload, bytes):
        return _file_bodies(payload, record_bytes)
    assert record_bytes is not None, "LoadPlan demands record_bytes with a generated payload"
    return _log_lines(record_bytes - STAMP_BYTES, payload.compress_ratio, seed)


def pool_start(worker: int, workers: int, pool: Sequence[bytes]) -> int:
    """Where in the pool a worker's record 0 takes its body."""
    return worker * len(pool) // workers


def _pool_count(body_bytes: int) -> int:
    return min(_BODIES_MAX, max(_BODIES_MIN, POOL_BYTES // max(1, body_bytes)))


def _log_lines(body_bytes: int, random_share: float, seed: int) -> list[bytes]:
    count = _pool_count(body_bytes)
    random_bytes = round(body_bytes * random_share)
    text_bytes = body_bytes - random_bytes
    choose = random.Random(seed)
    noise = _ALPHABET[np.random.default_rng(seed).integers(0, 64, count * random_bytes)].tobytes()
    wording = " ".join(f"{choose.choice(_PHRASES)} {choose.randrange(1000)}" for _ in range(2000)).encode()
    wording *= 1 + text_bytes // len(wording)
    lines = []
    for number in range(count):
        head = (
            f'{{"time":"2024-05-14T09:{number // 60 % 60:02}:{number % 60:02}.{choose.randrange(1000):03}Z",'
            f'"level":"{choose.choice(_LEVELS)}","service":"{choose.choice(_SERVICES)}","message":"'
        ).encode()
        start = choose.randrange(len(wording) - text_bytes + 1)
        token = noise[number * random_bytes : (number + 1) * random_bytes]
        message_bytes = text_bytes - len(head) - len(b'","trace":""}')
        if message_bytes >= 0:
            lines.append(b'%b%b","trace":"%b"}' % (head, wording[start : start + message_bytes], token))
        else:  # too short for a whole line: as much of it as fits
            lines.append((head + wording[start : start + text_bytes])[:text_bytes] + token)
    return lines


def _file_bodies(text: bytes, record_bytes: int | None) -> list[bytes]:
    if record_bytes is None:
        return [line for line in text.splitlines() if line]
    body_bytes = record_bytes - STAMP_BYTES
    if body_bytes == 0:
        return [b""]
    count = min(_pool_count(body_bytes), max(1, len(text) // body_bytes))
    text *= 1 + body_bytes // len(text)
    return [text[i * body_bytes : (i + 1) * body_bytes] for i in range(count)]


def read_payload_file(path: str) -> bytes:
    """The first 8 MiB of a text file, in whole lines. Raises LoadSetupError when it cannot be read or holds no text."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LoadSetupError(f"cannot read the payload file {path}: {error.strerror}") from error
    if len(text) > FILE_BYTES_MAX:
        text = text[: text.rfind(b"\n", 0, FILE_BYTES_MAX) + 1] or text[:FILE_BYTES_MAX]
    if not text.strip():
        raise LoadSetupError(f"the payload file {path} holds no text")
    return text
