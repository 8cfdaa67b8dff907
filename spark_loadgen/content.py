"""The content of each record (body, key, headers) as pure functions of (worker, sequence).

Consumers repeat these functions to check what they receive. A value is the record's stamp plus a body from the pool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.keys import encode_keys, key_numbers, traced_keys
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import body_pool, pool_start
from highwater.spark_loadgen.records import GeneratedPayload, Headers
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.traces import TracedHeaders, TracedKeys

HeaderList = list[tuple[str, bytes]]


class Content:
    """The content of every record of a load. Building it takes up to a second; its methods are cheap."""

    def __init__(self, plan: LoadPlan, payload: GeneratedPayload | bytes) -> None:
        """`payload` as bytes is the text of a payload file."""
        self._plan = plan
        self.pool = body_pool(payload, plan.sizes, plan.seed)
        self._starts = np.array([pool_start(w, plan.producers, self.pool) for w in range(plan.producers)])
        self._bytes_before = np.concatenate(([0], np.cumsum([STAMP_BYTES + len(body) for body in self.pool])))
        self.headers = headers_of(plan.headers) if isinstance(plan.headers, Headers) else []
        self._traced_headers = plan.headers if isinstance(plan.headers, TracedHeaders) and plan.headers.any else None

    @property
    def mean_value_bytes(self) -> float:
        return STAMP_BYTES + sum(map(len, self.pool)) / len(self.pool)

    def value_bytes_before(self, worker: int, sequence: int) -> int:
        """Total size of the values of a worker's records 0 to `sequence` − 1."""
        start = int(self._starts[worker])
        rounds, rest = divmod(start + sequence, len(self.pool))
        before = self._bytes_before
        return rounds * int(before[-1]) + int(before[rest]) - int(before[start])

    def pool_position(self, worker: int, sequence: int) -> int:
        """The index of a record's body in the pool."""
        return int(self._starts[worker] + sequence) % len(self.pool)

    def bodies_in_row(self, worker: int, first: int, count: int) -> list[bytes]:
        """Bodies of consecutive records of one worker."""
        pool = self.pool
        start = self.pool_position(worker, first)
        bodies = pool[start : start + count]
        while len(bodies) < count:  # past the end of the pool: from its start again
            bodies += pool[: count - len(bodies)]
        return bodies

    def bodies(self, workers: NDArray[np.int64], sequences: NDArray[np.int64]) -> list[bytes]:
        pool = self.pool
        return [pool[at] for at in ((self._starts[workers] + sequences) % len(pool)).tolist()]

    def keys(
        self, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> list[bytes] | list[bytes | None] | None:
        """None when no record has a key."""
        return self.keys_and_partitions(workers, sequences)[0]

    def keys_and_partitions(
        self, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> tuple[list[bytes] | list[bytes | None] | None, list[int] | None]:
        """Keys as `keys` has them, and partitions, −1 where the client chooses; None when it always does."""
        keys, seed = self._plan.keys, self._plan.seed
        if keys is None:
            return None, None
        if isinstance(keys, TracedKeys):
            found, partitions = traced_keys(keys, seed, workers, sequences)
            return found, partitions if keys.has_partitions else None
        return encode_keys(key_numbers(keys, seed, self._plan.producers, workers, sequences), keys.n), None

    @property
    def has_headers(self) -> bool:
        return bool(self.headers) or self._traced_headers is not None

    def headers_in_row(self, worker: int, sequences: NDArray[np.int64]) -> list[HeaderList]:
        """The headers of consecutive records of one worker."""
        traced = self._traced_headers
        if traced is None:
            return [self.headers] * len(sequences)
        return [traced.made[shape] for shape in traced.drawn(self._plan.seed, worker, sequences)]


def headers_of(headers: Headers) -> HeaderList:
    """The headers of every record, where all records have the same."""
    return [(f"header-{number}", b"h" * headers.bytes) for number in range(headers.count)]
