"""Handles Produce requests that came together as one: one write for each partition, one answer.

`ProduceRuns.take` does for such a run what `produce` does request for request. A request about which anything is
unusual is left to the dispatcher, which handles it alone. So a batch is in a run only if it cannot be refused, nor be
there already. Quotas, rules for single records, transactions and LogAppendTime leave each request alone.

If a write fails, all batches of the run for that partition get the error. The answers go out once each batch is as safe
as its acks ask, or has failed.

Metrics count each request: its work is an equal share of the time that the run takes, and the rest is time in the
queue.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias, cast
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Timer
from highwater.broker.handlers.shared.reply import Answered, Client, CloseConnection, Deferred, PendingResponse
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS
from highwater.kafka.acl import Operation, ResourceType
from highwater.kafka.protocol.apis import PRODUCE
from highwater.kafka.protocol.frame import LENGTH_BYTES, Part
from highwater.kafka.protocol.produce_run import PartitionRun, ProduceShape
from highwater.kafka.protocol.produce_run_reader import RunReader
from highwater.kafka.records.batch import TimestampType

_WRITE_TOPIC: Final = (Operation.WRITE, ResourceType.TOPIC)
_CREATE_TIME: Final = TimestampType.CREATE_TIME
_LEAST_BYTES: Final = 64
"""A Produce with a batch is longer."""
_Begun: TypeAlias = tuple[Partition, PartitionRun]


class _RunOfClient(RunReader):
    """A run that `client` sent; `begun` are the parts of it, which may have no batches."""

    __slots__ = ("_client", "_node", "begun")

    def __init__(
        self, node: Node, client: Client, buffer: memoryview, start: int, end: int, most_frame_bytes: int, now_ms: int
    ) -> None:
        super().__init__(buffer, start, end, client.produce_shape, most_frame_bytes, now_ms)
        self._node = node
        self._client = client
        self.begun: list[_Begun] = []

    def begin(self, acks: int, topic: str | UUID, index: int, producer_id: int) -> PartitionRun | None:
        node = self._node
        partition = node.partitions.find(topic, index)
        if partition is None or partition.topic in INTERNAL_TOPICS:
            return None
        config = partition.log.config
        if config.record_rules is not None or config.message_timestamp_type is not _CREATE_TIME:
            return None
        if node.acls is not None:
            permissions = self._client.permissions(node.acls.authorizer)
            if not permissions.answers(_WRITE_TOPIC)[partition.topic]:
                return None
        part = partition.begin_run(acks, producer_id, self.now_ms)
        if part is not None:
            self.begun.append((partition, part))
        return part


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
        Raises CloseConnection.
        """
        # The key of Produce is 0.
        if end - start < _LEAST_BYTES or buffer[start + LENGTH_BYTES] or buffer[start + LENGTH_BYTES + 1]:
            return None
        started_ns = self._clock.monotonic_ns()
        node, authentication, quotas = self._node, client.authentication, self._quotas
        if quotas.limits_bytes or quotas.limits_requests:
            return None
        if authentication is not None and not authentication.has_session(started_ns // 1_000_000):
            return None
        now_ms = self._clock.now_ms()
        run = _RunOfClient(node, client, buffer, start, end, most_frame_bytes, now_ms)
        run.read()
        shape = client.produce_shape = run.shape
        if shape is None or not run.request_count:
            return None
        acks = shape.acks
        waiting: list[_Begun] = []
        for partition, part in run.begun:
            if not part.batches:
                continue
            partition.counters.produces += len(part.batches)
            if error := partition.append_run(part, now_ms):
                partition.counters.failed_produces += self._fail(part, error, 0)
            elif acks and not partition.is_acknowledged(part.next_offset - 1, acks):
                waiting.append((partition, part))
        if node.acls is not None:
            node.counters.authorizations_asked += run.topic_count
        handled_ns = self._clock.monotonic_ns()
        self._counters.handled_together(
            shape.version, run.request_count, received_ns, started_ns, handled_ns, not waiting
        )
        if not acks:
            for partition, part in run.begun:
                if part.error:
                    raise CloseConnection(
                        f"produce with acks=0 to {partition.topic}-{partition.index}: {part.error.name}"
                    )
            return run.end, []
        if waiting:
            return run.end, self._answers_when_safe(shape, run, waiting, received_ns)
        return run.end, [shape.answers(run.batches, run.parts)]

    def _fail(self, part: PartitionRun, error: ErrorCode, safe_offset: int) -> int:
        """Answer the error for what is not before `safe_offset`; returns how many batches that are."""
        count = part.fail(error, safe_offset)
        for _ in range(count):
            self._node.counters.failed(PRODUCE, error)
        return count

    def _answers_when_safe(
        self, shape: ProduceShape, run: RunReader, waiting: list[_Begun], received_ns: int
    ) -> PendingResponse:
        """The answers once all is safe; what is not by the time-out, or at the end of the role, gets an error."""
        node, acks = self._node, shape.acks
        run.let_go()
        deferred = Deferred()
        undecided = set(range(len(waiting)))
        timer: Timer | None = None

        def decide(slot: int, error: ErrorCode) -> None:
            if slot not in undecided:
                return
            undecided.discard(slot)
            if error:
                partition, part = waiting[slot]
                self._fail(part, error, partition.high_watermark if acks == -1 else partition.safe_end_offset)
            if not undecided:
                if timer is not None:
                    timer.cancel()
                deferred.complete([shape.answers(run.batches, run.parts)])

        def give_up() -> None:
            for slot in tuple(undecided):
                decide(slot, ErrorCode.request_timed_out)

        def frame(answered: Answered) -> list[Part]:
            self._counters.total.observe(self._clock.monotonic_ns() - received_ns, run.request_count)
            return cast(list[Part], answered)

        if node.member is not None:
            timer = node.scheduler.call_later(max(shape.timeout_ms, 0), give_up)
        for slot, (partition, part) in enumerate(waiting):
            partition.when_acknowledged(part.next_offset - 1, partial(decide, slot), acks)
        return PendingResponse(deferred, frame)
