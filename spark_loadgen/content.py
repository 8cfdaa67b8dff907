"""The content of each record (body, key, headers) as pure functions of (worker, sequence).

Consumers repeat these functions to check what they receive. A value is the record's stamp plus a body from the pool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.keys import encode_keys, key_numbers
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import body_pool, pool_start
from highwater.spark_loadgen.records import GeneratedPayload, Headers
from highwater.spark_loadgen.stamp import STAMP_BYTES


class Content:
    """The content of every record of a load. Building it takes up to a second; its methods are cheap."""

    def __init__(self, plan: LoadPlan, payload: GeneratedPayload | bytes) -> None:
        """`payload` as bytes is the text of a payload file."""
        self._plan = plan
        self.pool = body_pool(payload, plan.sizes, plan.seed)
        self._starts = np.array([pool_start(w, plan.producers, self.pool) for w in range(plan.producers)])
        self._bytes_before = np.concatenate(([0], np.cumsum([STAMP_BYTES + len(body) for body in self.pool])))
        self.headers = headers_of(plan.headers)

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

    def keys(self, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]) -> list[bytes] | None:
        """None when records have no keys."""
        keys = self._plan.keys
        if keys is None:
            return None
        return encode_keys(key_numbers(keys, self._plan.seed, self._plan.producers, workers, sequences), keys.n)


def headers_of(headers: Headers) -> list[tuple[str, bytes]]:
    """The headers of every record: all records have the same."""
    return [(f"header-{number}", b"h" * headers.bytes) for number in range(headers.count)]
