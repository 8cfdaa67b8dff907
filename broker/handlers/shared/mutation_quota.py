"""Charges the topics that a request creates, extends or deletes to the quota of its client (KIP-599).

Newer versions of the requests know the error THROTTLING_QUOTA_EXCEEDED: a topic above the quota is refused with it, and
nothing is changed. For older versions the change is made. The answer to both has the throttle time.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem


class MutationQuota:
    """The quota of one request."""

    def __init__(self, node: Node, context: RequestContext, *, strict_from_version: int) -> None:
        self._node = node
        self._context = context
        self._is_strict = context.version >= strict_from_version
        self._throttled_until_ms = 0

    def charge(self, partition_count: int) -> Problem | None:
        """Take this many partitions from the quota. Return why the change is refused, None if it is not."""
        now_ms = self._now_ms()
        throttle_ms = self._node.quotas.mutated(
            self._context.client.principal,
            self._context.client_id,
            partition_count,
            now_ms,
            is_strict=self._is_strict,
        )
        if not throttle_ms:
            return None
        self._throttled_until_ms = now_ms + throttle_ms
        if not self._is_strict:
            return None
        return Problem(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")

    def throttled(self, answer: Answer) -> Answer:
        """Return the answer with its throttle time, and mute the client for that time."""
        throttle_ms = max(self._throttled_until_ms - self._now_ms(), 0)
        if throttle_ms:
            self._node.counters.mutation_throttle_ms += throttle_ms
            self._context.client.mute(throttle_ms)
            answer["throttle_time"] = throttle_ms
        return answer

    def _now_ms(self) -> int:
        return self._node.clock.monotonic_ns() // 1_000_000
