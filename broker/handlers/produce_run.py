"""Handles Produce requests to one partition that came together as one: one write, one answer.

`ProduceRuns.take` does for such a run what `produce` does request for request. A request about which anything is
unusual is left to the dispatcher, which handles it alone. So a run is appended only if none of its batches can be
refused or may be there already. Quotas, rules for single records, transactions and LogAppendTime leave each request
alone.

Metrics count each request: its work is an equal share of the time that the run takes, and the rest is time in the
queue.
"""

from __future__ import annotations

from functools import partial
from typing import Final, cast

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Timer
from highwater.broker.handlers.shared.reply import Answered, Client, Deferred, PendingResponse
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS
from highwater.kafka.acl import Operation, ResourceType
from highwater.kafka.protocol.apis import PRODUCE
from highwater.kafka.protocol.frame import LENGTH_BYTES, Part
from highwater.kafka.protocol.produce_run import MOST_REQUESTS, ProduceRun, ProduceShape, read_run, shape_of
from highwater.kafka.records.batch import TimestampType

_WRITE_TOPIC: Final = (Operation.WRITE, ResourceType.TOPIC)
_LEAST_BYTES: Final = 64
"""A Produce with a batch is longer."""


class ProduceRuns:
    """Answers the runs of every connection of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._quotas = node.quotas
        self._counters = node.counters.requests[PRODUCE]
        self._clock = node.clock

    def take(
        self, buffer: memoryview, start: int, end: int, most_frame_bytes: int, client: Client, received_ns: int
    ) -> tuple[int, list[Part] | PendingResponse] | None:
        """Append and answer the run at the front of what a client has sent.

        Returns where the next request begins, and the answers. None if the first request is to be handled alone.
        """
        # The key of Produce is 0.
        if end - start < _LEAST_BYTES or buffer[start + LENGTH_BYTES] or buffer[start + LENGTH_BYTES + 1]:
            return None
        if client.single_produces:
            client.single_produces -= 1
            return None
        started_ns = self._clock.monotonic_ns()
        node, authentication, quotas = self._node, client.authentication, self._quotas
        if quotas.limits_bytes or quotas.limits_requests:
            return None
        if authentication is not None and not authentication.has_session(started_ns // 1_000_000):
            return None
        shape = client.produce_shape
        index = -1 if shape is None else shape.partition_of(buffer, start, end)
        if index < 0:
            shape = client.produce_shape = shape_of(buffer[start + LENGTH_BYTES : end])
            index = -1 if shape is None else shape.partition_of(buffer, start, end)
        if shape is None or index < 0:
            return None
        partition = node.partitions.find(shape.topic, index)
        if partition is None or partition.topic in INTERNAL_TOPICS:
            return None
        config = partition.log.config
        if config.record_rules is not None or config.message_timestamp_type is not TimestampType.CREATE_TIME:
            return None
        if node.acls is not None:
            permissions = client.permissions(node.acls.authorizer)
            if not permissions.answers(_WRITE_TOPIC)[partition.topic]:
                return None
        now_ms = self._clock.now_ms()
        run = read_run(
            buffer,
            start,
            end,
            shape,
            most_frame_bytes=most_frame_bytes,
            most_batch_bytes=config.max_message_bytes,
            now_ms=now_ms,
        )
        if run is None:
            return None
        count = len(run.batches)
        acks = shape.acks
        base_offset = partition.append_run(run, acks, now_ms)
        if base_offset is None:
            # The next one may be longer, but not much work is done twice where none can be appended.
            client.single_produces = min(count, 1 << client.refused_runs) - 1
            client.refused_runs = min(client.refused_runs + 1, MOST_REQUESTS.bit_length())
            return None
        client.refused_runs = 0
        partition.counters.produces += count
        if node.acls is not None:
            node.counters.authorizations_asked += count
        last_offset = base_offset + run.record_count - 1
        is_answered = not acks or partition.is_acknowledged(last_offset, acks)
        handled_ns = self._clock.monotonic_ns()
        self._counters.handled_together(shape.version, count, received_ns, started_ns, handled_ns, is_answered)
        if not acks:
            return run.end, []
        if is_answered:
            return run.end, [shape.answers(run, base_offset, partition.log.log_start_offset)]
        return run.end, self._answers_when_safe(partition, shape, run, base_offset, received_ns)

    def _answers_when_safe(
        self, partition: Partition, shape: ProduceShape, run: ProduceRun, base_offset: int, received_ns: int
    ) -> PendingResponse:
        """The answers once all is safe; what is not by the time-out, or at the end of the role, gets an error."""
        node, acks, count = self._node, shape.acks, len(run.batches)
        run.let_go()
        deferred = Deferred()
        timer: Timer | None = None
        log_start_offset = partition.log.log_start_offset
        is_decided = False

        def decide(error: ErrorCode) -> None:
            nonlocal is_decided
            if is_decided:
                return
            is_decided = True
            if timer is not None:
                timer.cancel()
            safe_offset = partition.high_watermark if acks == -1 else partition.safe_end_offset
            for _ in range(run.unsafe_count(base_offset, safe_offset)):
                node.counters.failed(PRODUCE, error)
            deferred.complete([shape.answers(run, base_offset, log_start_offset, safe_offset, error)])

        def frame(answered: Answered) -> list[Part]:
            self._counters.total.observe(self._clock.monotonic_ns() - received_ns, count)
            return cast(list[Part], answered)

        if node.member is not None:
            timer = node.scheduler.call_later(max(shape.timeout_ms, 0), partial(decide, ErrorCode.request_timed_out))
        partition.when_acknowledged(base_offset + run.record_count - 1, decide, acks)
        return PendingResponse(deferred, frame)
