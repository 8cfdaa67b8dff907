"""Pools of value bodies, made before T0: generated JSON log lines, or lines of a text file.

All workers cycle through one common pool, each from its own starting point. The pool is larger than a batch, so that no
record repeats within a batch and compression ratios stay realistic. When sizes vary, the pool contains each size with
its planned frequency, in random order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload, Sizes, WeightedSizes
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.traces import TracedSizes

POOL_BYTES: Final = 4 << 20
_BODIES_MIN: Final = 16
_BODIES_MAX: Final = 32_768
# With sizes that vary, the pool has at least this many bodies.
_VARIED_BODIES_MIN: Final = 1_000
# The pool is never larger than this, except for a single larger body.
_POOL_BYTES_MAX: Final = 64 << 20
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


def body_pool(payload: GeneratedPayload | bytes, sizes: Sizes | None, seed: int) -> list[bytes]:
    """The bodies after the stamps. `payload` as bytes is the text of a file; without sizes each line is a body."""
    if sizes is None:
        assert isinstance(payload, bytes), "LoadPlan demands sizes with a generated payload"
        return [line for line in payload.splitlines() if line]
    bodies_bytes = [size - STAMP_BYTES for size in value_sizes(sizes, seed)]
    if isinstance(payload, bytes):
        return _cut(payload, bodies_bytes)
    return _log_lines(bodies_bytes, payload.compress_ratio, seed)


def value_sizes(sizes: Sizes, seed: int) -> list[int]:
    """The sizes of all values of the pool, stamps included."""
    least = _BODIES_MIN if isinstance(sizes, FixedSize) else _VARIED_BODIES_MIN
    wanted = min(_BODIES_MAX, max(least, int(POOL_BYTES / max(1, sizes.mean_bytes - STAMP_BYTES))))
    count = max(1, min(wanted, int(_POOL_BYTES_MAX / sizes.mean_bytes)))
    if isinstance(sizes, FixedSize):
        return [sizes.bytes] * count
    if isinstance(sizes, WeightedSizes):
        chosen = _apportioned(sizes.weights, count)
    elif isinstance(sizes, TracedSizes):
        chosen = sizes.quantiles(count)
    else:
        chosen = np.linspace(sizes.min_bytes, sizes.max_bytes, count).round().astype(int).tolist()
    random.Random(seed).shuffle(chosen)
    return chosen


def _apportioned(weights: Sequence[tuple[int, float]], count: int) -> list[int]:
    """`count` sizes, each with a frequency in proportion to its weight; a rare size occurs at least once."""
    total = sum(weight for _, weight in weights)
    bounds = [0, *(round(count * share / total) for share in accumulate(weight for _, weight in weights))]
    times = [max(1, end - start) for start, end in pairwise(bounds)]
    return [size for (size, _), many in zip(weights, times, strict=True) for _ in range(many)]


def pool_start(worker: int, workers: int, pool: Sequence[bytes]) -> int:
    """The index in the pool of the body of a worker's record 0."""
    return worker * len(pool) // workers


def _log_lines(bodies_bytes: Sequence[int], random_share: float, seed: int) -> list[bytes]:
    choose = random.Random(seed)
    randoms_bytes = [round(body_bytes * random_share) for body_bytes in bodies_bytes]
    noise = _ALPHABET[np.random.default_rng(seed).integers(0, 64, sum(randoms_bytes))].tobytes()
    wording = " ".join(f"{choose.choice(_PHRASES)} {choose.randrange(1000)}" for _ in range(2000)).encode()
    wording *= 1 + max(bodies_bytes) // len(wording)
    lines = []
    noise_at = 0
    for number, (body_bytes, random_bytes) in enumerate(zip(bodies_bytes, randoms_bytes, strict=True)):
        text_bytes = body_bytes - random_bytes
        head = (
            f'{{"time":"2024-05-14T09:{number // 60 % 60:02}:{number % 60:02}.{choose.randrange(1000):03}Z",'
            f'"level":"{choose.choice(_LEVELS)}","service":"{choose.choice(_SERVICES)}","message":"'
        ).encode()
        start = choose.randrange(len(wording) - text_bytes + 1)
        token = noise[noise_at : noise_at + random_bytes]
        noise_at += random_bytes
        message_bytes = text_bytes - len(head) - len(b'","trace":""}')
        if message_bytes >= 0:
            lines.append(b'%b%b","trace":"%b"}' % (head, wording[start : start + message_bytes], token))
        else:  # too short for a whole line: cut it
            lines.append((head + wording[start : start + text_bytes])[:text_bytes] + token)
    return lines


def _cut(text: bytes, bodies_bytes: Sequence[int]) -> list[bytes]:
    """Consecutive pieces of a text, which starts again after its end.

    Pieces of one size are at most as many as fit in the text, since more of them would repeat it.
    """
    if len(set(bodies_bytes)) == 1 and bodies_bytes[0]:
        bodies_bytes = bodies_bytes[: max(1, len(text) // bodies_bytes[0])]
    bounds = [0, *accumulate(bodies_bytes)]
    text *= 1 + bounds[-1] // len(text)
    return [text[start:end] for start, end in pairwise(bounds)]


def read_payload_file(path: str) -> bytes:
    """The first 8 MiB of a text file, in whole lines. Raises LoadSetupError when it cannot be read or has no text."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LoadSetupError(f"cannot read the payload file {path}: {error.strerror}") from error
    if len(text) > FILE_BYTES_MAX:
        text = text[: text.rfind(b"\n", 0, FILE_BYTES_MAX) + 1] or text[:FILE_BYTES_MAX]
    if not text.strip():
        raise LoadSetupError(f"the payload file {path} contains no text")
    return text
