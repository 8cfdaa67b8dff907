"""Delayed and scheduled delivery: makes a record that a mover delivers when it is due."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.headers import TRACEPARENT
from highwater.pipeline.messaging.levels import ROCKETMQ_LEVELS_MS, parse_delay_ms
from highwater.pipeline.messaging.moving import delayed
from highwater.pipeline.messaging.record import Outgoing, Record


def delay(
    topic: str,
    value: bytes | None,
    key: bytes | None = None,
    *,
    after: str | None = None,
    due_ms: int | None = None,
    headers: Mapping[str, bytes] | None = None,
    levels_ms: Sequence[int] = ROCKETMQ_LEVELS_MS,
) -> Outgoing:
    """Return what to produce so that `topic` gets the record `after` a delay such as 30s, or at `due_ms`.

    `producer.produce(**delay("orders", b"…", after="15m").arguments())`, with any transactional producer too. Raises
    SettingsError unless exactly one of the two is given.
    """
    if (after is None) == (due_ms is None):
        raise SettingsError("give either after or due_ms")
    now = now_ms()
    due = due_ms if due_ms is not None else now + parse_delay_ms(after or "")
    # A trace of its own, if it belongs to none.
    trace = {TRACEPARENT: f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01".encode()}
    record = Record("", 0, 0, now, key, value, tuple((trace | dict(headers or {})).items()))
    return delayed(record, topic, due, now, levels_ms)
