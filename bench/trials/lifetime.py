"""Measures a system's start, its idle time, and its restart on its log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from highwater.bench.host.usage import Usage, usage_of
from highwater.bench.systems import System
from highwater.common.errors import TrialError
from highwater.results.lifetime import Restart, Start

# Apache Kafka's recovery of a large log is part of its start.
_SERVES_WITHIN_S: Final = 600.0
# A broker whose earlier session of ZooKeeper lives for 18 s ends every two to four seconds.
_STARTS_MAX: Final = 30
_STARTS_APART_S: Final = 0.1
_POLL_S: Final = 0.01
_ANSWERS_WITHIN_S: Final = 60.0
# The last record before the restart is over says so; it is in the log, and none of the load's.
_LAST_RECORD: Final = bytes(1024)


class SystemStart:
    """Measures the start of a system: processes, topics, idle time."""

    def __init__(self, started_s: float, system: System) -> None:
        """started_s: of time.monotonic(), when its first process was started; the system serves now."""
        self._system = system
        self._ready_s = time.monotonic() - started_s
        self._at_once = usage_of(system.process_ids)
        self._make_topics_s = 0.0
        self._partitions = 0
        self._at_rest: Usage | None = None

    @contextmanager
    def making_topics(self, partitions: int) -> Iterator[None]:
        """partitions: of all topics together."""
        began_s = time.monotonic()
        yield
        self._make_topics_s = time.monotonic() - began_s
        self._partitions = partitions

    def rest(self, seconds: int, checkpoint: Callable[[], None]) -> None:
        """Wait without any request; the load follows."""
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            checkpoint()
            time.sleep(0.1)
        self._at_rest = usage_of(self._system.process_ids)

    def figures(self) -> Start:
        """Asked when the load has ended."""
        now = usage_of(self._system.process_ids)
        return Start(
            ready_s=self._ready_s,
            cpu_s=self._at_once.cpu_s if self._at_once else None,
            rss_bytes=self._at_once.rss_bytes if self._at_once else None,
            make_topics_s=self._make_topics_s,
            partitions=self._partitions,
            idle_rss_bytes=self._at_rest.rss_bytes if self._at_rest else None,
            peak_rss_bytes=now.peak_rss_bytes if now else None,
        )


@dataclass(frozen=True, slots=True)
class Restarted:
    """in_log: for each topic the records of each partition, as the broker reported after its restart."""

    figures: Restart
    in_log: list[list[int]]


def restart(
    how: Literal["kill", "stop"],
    system: System,
    topics: Sequence[str],
    partitions: int,
    take: Callable[[Sequence[int]], None],
    checkpoint: Callable[[], None],
) -> Restarted:
    """End the only broker of a system and start it again, once the disk has all that was written.

    A process that ends while it starts is started again, as a service manager would do: Apache Kafka ends as long as
    ZooKeeper holds the session of the broker before. take: receives the new process. Raises TrialError when it does not
    serve again.
    """
    (process,) = system.nodes
    os.sync()
    ended_s = time.monotonic()
    process.take_down(signal.SIGKILL if how == "kill" else signal.SIGTERM)
    _await(process.reap, "does not end", checkpoint)
    started_s = time.monotonic()
    ended_s = started_s - ended_s
    starts = 0

    def serves() -> bool:
        nonlocal starts
        if not process.reap():
            return process.serves()
        if starts == _STARTS_MAX:
            raise TrialError(f"the broker ended {starts} times while it started (its output: {process.log_file})")
        if starts:
            time.sleep(_STARTS_APART_S)
        starts += 1
        process.start_again()
        take(system.process_ids)
        return False

    _await(serves, "does not serve again", checkpoint)
    config: dict[str, str | int | float | bool] = {
        "bootstrap.servers": system.bootstrap_servers,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "log_level": 0,
    }
    admin = AdminClient(config)
    in_log: list[list[int]] = []
    for topic in topics:

        def whole(topic: str = topic) -> bool:
            if (reported := _reported_records(admin, topic, partitions)) is None:
                return False
            in_log.append(reported)
            return True

        _await(whole, f"does not report the records of all partitions of {topic}", checkpoint)
    producer = Producer(config | {"acks": "all", "linger.ms": 0})
    producer.produce(topics[0], _LAST_RECORD, partition=0)
    if producer.flush(_ANSWERS_WITHIN_S) != 0:
        raise TrialError("the broker reports its partitions after its start, but accepts no record")
    ready_s = time.monotonic() - started_s
    usage = usage_of(system.process_ids)
    cpu_s = usage.cpu_s if usage else None
    return Restarted(Restart(how=how, ended_s=ended_s, ready_s=ready_s, cpu_s=cpu_s, starts=starts), in_log)


def _await(done: Callable[[], bool], complaint: str, checkpoint: Callable[[], None]) -> None:
    deadline_s = time.monotonic() + _SERVES_WITHIN_S
    while not done():
        checkpoint()
        if time.monotonic() > deadline_s:
            raise TrialError(f"the broker {complaint} within {_SERVES_WITHIN_S:.0f} s")
        time.sleep(_POLL_S)


def _reported_records(admin: AdminClient, topic: str, partitions: int) -> list[int] | None:
    """The number of records of each partition; None while a partition has no leader or does not respond."""
    try:
        known = admin.list_topics(topic, timeout=5).topics[topic].partitions
        if len(known) != partitions or any(partition.leader < 0 for partition in known.values()):
            return None
        ends = _offsets(admin, topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        starts = _offsets(admin, topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    except KafkaException:
        return None
    # librdkafka fills in a negative offset, and no error, for what it did not get while a connection came and went.
    if min(*ends, *starts) < 0:
        return None
    return [end - start for start, end in zip(starts, ends, strict=True)]


def _offsets(admin: AdminClient, topic: str, partitions: int, which: OffsetSpec) -> list[int]:
    wanted = {TopicPartition(topic, partition): which for partition in range(partitions)}
    answers = admin.list_offsets(wanted, request_timeout=_ANSWERS_WITHIN_S)
    return [answers[partition].result().offset for partition in wanted]
