"""What tests of the client use: clients that retry quickly, and batches."""

from __future__ import annotations

import time
from typing import Any

from highwater.kafka.records.record import Record, encode_batch
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import Settings

NOW_MS = time.time_ns() // 1_000_000
"""A real broker deletes records that are older than its retention."""
QUICK = {"api_timeout_s": 20, "retry_backoff_s": 0.005}


def client_of(*ports: int, **more: Any) -> Client:
    return Client(Settings(tuple(("127.0.0.1", port) for port in ports), **{**QUICK, **more}))


def batch_at(offset: int, count: int = 1, **more: Any) -> bytes:
    return bytes(encode_batch([Record(b"v%d" % n, None, NOW_MS + n) for n in range(count)], base_offset=offset, **more))
