"""Follows the topic with the metrics of clients: the newest push of each client instance, bounded."""

from __future__ import annotations

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.kafka.requests.broker_error import BrokerError
from highwater.kafka.requests.fetch import Fetch, fetch_records
from highwater.kafka.requests.list_offsets import LATEST, all_at, list_offsets
from highwater.kafka.requests.metadata import ClusterRow
from highwater.monitor.kafka_source.client_pushes import TOPIC, pushes_of
from highwater.monitor.kafka_source.parts import Part, SourceTick, refusal
from highwater.monitor.model import ClientMetrics, ClientPush

_BEGIN_BEFORE_MS: Final = 10 * 60 * 1000
"""A monitor that starts reads so far back: clients push every five minutes at the least."""
_FETCH_BYTES: Final = 4 << 20
_MOST_FETCHES: Final = 4
"""So many are sent in a tick. What is more is passed over, as only the newest push of a client counts."""
_MOST_INSTANCES: Final = 2000
_LEAST_LIFE_MS: Final = 60_000
_LIFE_INTERVALS: Final = 3


class ClientMetricsReader:
    def __init__(self) -> None:
        self._pushes: dict[str, ClientPush] = {}
        """The newest one is the last."""
        self._topic_id: object = None
        self._offset: int | None = None
        self._read = 0
        self._passed_over = 0
        self._has_topic = False

    async def ask(self, tick: SourceTick, cluster: ClusterRow) -> None:
        """Read what is new. Nothing is asked of a cluster without the topic."""
        topic = next((each for each in cluster.topics if each.name == TOPIC and each.partitions), None)
        self._has_topic = topic is not None
        if topic is None:
            self._offset = None
            return
        if topic.topic_id != self._topic_id:
            self._topic_id, self._offset = topic.topic_id, None
        leader = topic.partitions[0].leader
        if self._offset is None:
            self._offset = await self._begin(tick, leader)
        for number in range(_MOST_FETCHES):
            if self._offset is None:
                return
            wanted = Fetch(TOPIC, 0, self._offset, max_bytes=_FETCH_BYTES, max_wait_ms=0)
            found = await tick.ask(Part.CLIENTS, leader, fetch_records(wanted))
            if found is None:
                return
            if isinstance(found, BrokerError):
                if found.code is ErrorCode.offset_out_of_range:
                    self._offset = None
                else:
                    tick.fail(Part.CLIENTS, f"the metrics of clients cannot be read: {_refused(found)}")
                return
            await asyncio.to_thread(self._take, bytes(found.records), self._offset, tick.taken_at_ms)
            if self._offset >= found.high_watermark or not found.records:
                return
            if number == _MOST_FETCHES - 1:
                self._passed_over += found.high_watermark - self._offset
                self._offset = found.high_watermark

    def state(self, now_ms: int) -> ClientMetrics | None:
        """What is known at a time; None for a cluster without the topic."""
        if not self._has_topic:
            return None
        for push in [each for each in self._pushes.values() if _is_over(each, now_ms)]:
            del self._pushes[push.instance_id]
        return ClientMetrics(tuple(self._pushes.values()), self._read, self._passed_over)

    async def _begin(self, tick: SourceTick, leader: int) -> int | None:
        for timestamp in (tick.taken_at_ms - _BEGIN_BEFORE_MS, LATEST):
            found = await tick.ask(Part.CLIENTS, leader, list_offsets(all_at({TOPIC: [0]}, timestamp)))
            listed = None if found is None else found.get(TOPIC, {}).get(0)
            if listed is None:
                return None
            if listed.error_code:
                tick.fail(Part.CLIENTS, f"the metrics of clients cannot be read: {refusal(listed.error_code)}")
                return None
            if listed.offset >= 0:
                return listed.offset
        return None

    def _take(self, data: bytes, start: int, now_ms: int) -> None:
        for offset, push in pushes_of(data, start):
            self._offset = offset
            if push is None:
                self._passed_over += 1
                continue
            self._read += 1
            self._pushes.pop(push.instance_id, None)
            if not push.is_last and not _is_over(push, now_ms):
                self._pushes[push.instance_id] = push
                if len(self._pushes) > _MOST_INSTANCES:
                    del self._pushes[next(iter(self._pushes))]


def _is_over(push: ClientPush, now_ms: int) -> bool:
    return now_ms - push.at_ms > max(_LEAST_LIFE_MS, _LIFE_INTERVALS * push.interval_ms)


def _refused(error: BrokerError) -> str:
    if error.code is ErrorCode.topic_authorization_failed:
        return f"give the monitor's user Read on the topic {TOPIC}"
    return refusal(error.code.value)
