"""The cells that start systems of their own: memory, the start after a crash, what a partition costs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from highwater.bench.comparison.cells import (
    BROKERS,
    GIB,
    KIB,
    MIB,
    PARTITIONS,
    Cell,
    Figures,
    Stage,
    at_most,
    settle,
)
from highwater.bench.comparison.contenders import Contender
from highwater.bench.comparison.results import Aim, Measure
from highwater.bench.errors import TrialError
from highwater.bench.native.clients import Production, batches_of, consume, produce
from highwater.bench.storage import page_cache
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.highwater import HIGHWATER

TOPIC: Final = "bench"
_ANSWERS_WITHIN_S: Final = 300.0


class StartCell(Cell, Protocol):
    """Measured on a system that the cell starts, with no other one running."""

    def measure(self, stage: Stage, contender: Contender) -> Figures: ...


def wait_until_whole(address: str, topic: str, partitions: int, records: int) -> None:
    """Until every partition of a topic has its leader, the broker tells of all `records`, and it has taken one more.

    Raises TrialError when it tells of another number, or takes too long.
    """
    config: dict[str, str | int | float | bool] = {
        "bootstrap.servers": address,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "log_level": 0,
    }
    admin = AdminClient(config)
    deadline = time.monotonic() + _ANSWERS_WITHIN_S
    while (held := _records_told(admin, topic, partitions)) is None:
        if time.monotonic() > deadline:
            raise TrialError(f"{topic} was not whole within {_ANSWERS_WITHIN_S:.0f} s")
        time.sleep(0.01)
    if held != records:
        raise TrialError(f"{records} records were acknowledged before the stop and {held} are there after it")
    producer = Producer(config | {"acks": "all", "linger.ms": 0})
    producer.produce(topic, bytes(KIB), partition=0)
    if producer.flush(60) != 0:
        raise TrialError("the broker tells of its partitions and takes no record")


def _records_told(admin: AdminClient, topic: str, partitions: int) -> int | None:
    """The sum of the end offsets; None while some partition has no leader or does not tell."""
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    try:
        known = admin.list_topics(topic, timeout=5).topics[topic].partitions
        if len(known) != partitions or any(partition.leader < 0 for partition in known.values()):
            return None
        wanted = {TopicPartition(topic, partition): latest for partition in known}
        offsets = [answer.result().offset for answer in admin.list_offsets(wanted, request_timeout=60).values()]
    except KafkaException:
        return None
    # librdkafka fills in a negative offset, and no error, for what it did not get while a connection came and went.
    return None if min(offsets) < 0 else sum(offsets)


_IDLE: Final = Measure(name="idle_mib", title="idle", unit="MiB")
_LOADED: Final = Measure(name="loaded_mib", title="loaded", unit="MiB")


@dataclass(frozen=True, slots=True)
class MemoryCell:
    """Resident memory of a fresh process, and at work."""

    name: str = "memory"
    title: str = "Resident memory"
    how: str = (
        "Idle: a fresh process with one topic of 12 partitions, 5 s after the topic was made. Loaded: the most while "
        "rdkafka_performance produces 1 GiB times the scale of 1 KiB records in batches of 16 KiB and reads it back. "
        "All processes of a system count. Java's heap is 1 GiB."
    )
    measures: Sequence[Measure] = (_IDLE, _LOADED)
    aims: Sequence[Aim] = (at_most(_IDLE, 0.2), at_most(_LOADED, 0.2))
    systems: Sequence[str] = BROKERS

    def measure(self, stage: Stage, contender: Contender) -> Figures:
        directory = stage.directory / stage.new_name(contender.name)
        records = round(GIB * stage.scale) // KIB
        with contender.start(directory, {}) as broker:
            client = BrokerClient(broker.address)
            client.create_topic(TOPIC, PARTITIONS, {})
            time.sleep(5)
            idle = broker.usage()
            produce(broker.address, TOPIC, PARTITIONS, batches_of(16 * KIB, KIB), records)
            if client.count_records(TOPIC, PARTITIONS) != records:
                raise TrialError(f"{records} records were acknowledged, and the log holds another number")
            consume(broker.address, TOPIC, PARTITIONS, KIB, records)
            loaded = broker.usage()
        shutil.rmtree(directory)
        return {_IDLE.name: idle.rss_bytes / MIB, _LOADED.name: loaded.peak_rss_bytes / MIB}


_READY: Final = Measure(name="ready_s", title="ready after", unit="s")
_START_CPU: Final = Measure(name="cpu_s", title="CPU until then", unit="s")


@dataclass(slots=True)
class _CrashedLog:
    """A log directory as SIGKILL left it, and how many records were acknowledged."""

    directory: Path
    records: int
    checkpoints: dict[Path, bytes] = field(default_factory=dict)

    def keep_checkpoints(self) -> None:
        self.checkpoints = {path: path.read_bytes() for path in self.directory.glob("*-checkpoint")}

    def put_checkpoints_back(self) -> None:
        """A start that recovers notes how far it came; yet each start is to find what the first one found."""
        for path, content in self.checkpoints.items():
            path.write_bytes(content)


@dataclass(slots=True)
class RestartCell:
    """The start after a crash. The logs are filled once per system and started from again and again."""

    name: str = "restart"
    title: str = "Start after kill -9, 1000 partitions"
    how: str = (
        "One topic of 1000 partitions holds 10 GiB times the scale (1 KiB records, batches of up to 16 KiB, segments "
        "of 1 GiB as they come), all of it on disk and in the page cache, when the broker is killed. Measured "
        "from the start of the process until every partition has its leader, the end offsets tell of every "
        "acknowledged record, and one more record is acknowledged. Before each further start the "
        "checkpoints of the first crash are put back."
    )
    measures: Sequence[Measure] = (_READY, _START_CPU)
    aims: Sequence[Aim] = (at_most(_READY, 0.5),)
    systems: Sequence[str] = BROKERS
    partitions: int = 1000
    size_bytes: int = 10 * GIB
    _logs: dict[str, _CrashedLog] = field(default_factory=dict)

    def measure(self, stage: Stage, contender: Contender) -> Figures:
        if contender.name not in self._logs:
            self._logs[contender.name] = self._fill(stage, contender)
        log = self._logs[contender.name]
        log.put_checkpoints_back()
        page_cache.warm(log.directory.rglob("*.log"))
        settle()
        started_s = time.monotonic()
        with contender.start(log.directory, {}) as broker:
            wait_until_whole(broker.address, TOPIC, self.partitions, log.records)
            ready_s = time.monotonic() - started_s
            log.records += 1
            cpu_s = broker.usage().cpu_s
            broker.kill()
        return {_READY.name: ready_s, _START_CPU.name: cpu_s}

    def _fill(self, stage: Stage, contender: Contender) -> _CrashedLog:
        directory = stage.directory / stage.new_name(f"{contender.name}-restart")
        records = round(self.size_bytes * stage.scale) // KIB
        # Long lingering fills batches although the records are spread over a thousand partitions.
        properties = {"batch.size": str(16 * KIB), "linger.ms": "100", "queue.buffering.max.messages": "400000"}
        with contender.start(directory, {}) as broker:
            BrokerClient(broker.address).create_topic(TOPIC, self.partitions, {}, _ANSWERS_WITHIN_S)
            produce(broker.address, TOPIC, self.partitions, Production(KIB, properties), records)
            settle()
            broker.kill()
        log = _CrashedLog(directory, records)
        log.keep_checkpoints()
        return log


_PARTITION_COUNTS: Final = (100, 1000, 10_000)
_MADE: Final = Measure(name="made_ms", title="made in", unit="ms")
_HELD: Final = Measure(name="held_kib", title="memory", unit="KiB")
_RESTARTED: Final = Measure(name="restarted_ms", title="restarted in", unit="ms")


def _of(measure: Measure, partitions: int) -> Measure:
    """A measure per partition of a broker that has so many."""
    return Measure(
        name=f"{measure.name}_of_{partitions}", title=f"{measure.title}, each of {partitions}", unit=measure.unit
    )


def _growth(measure: Measure) -> Measure:
    return Measure(name=f"{measure.name}_growth", title=f"{measure.title}, each of 10 000 to each of 1000", unit="")


@dataclass(frozen=True, slots=True)
class PartitionsCell:
    """What a partition costs, when there are few and when there are many."""

    name: str = "partitions"
    title: str = "What a partition costs, up to 10 000 of them"
    how: str = (
        "On an empty broker a topic is made and every partition gets one record. Resident memory beyond that of the "
        "empty broker is shared among the partitions. Then the broker is stopped cleanly and started until "
        "every partition tells its record; the time of a start without partitions is taken off. All per partition."
    )
    measures: Sequence[Measure] = (
        *(_of(measure, partitions) for measure in (_MADE, _HELD, _RESTARTED) for partitions in _PARTITION_COUNTS),
        *(_growth(measure) for measure in (_MADE, _HELD, _RESTARTED)),
    )
    aims: Sequence[Aim] = tuple(at_most(_growth(measure), 1.25, None) for measure in (_MADE, _HELD, _RESTARTED))
    systems: Sequence[str] = (HIGHWATER,)

    def measure(self, stage: Stage, contender: Contender) -> Figures:
        figures: Figures = {}
        for partitions in _PARTITION_COUNTS:
            figures |= self._measure(stage, contender, partitions)
        for measure in (_MADE, _HELD, _RESTARTED):
            many, few = (figures[_of(measure, partitions).name] for partitions in (10_000, 1000))
            figures[_growth(measure).name] = many / few
        return figures

    def _measure(self, stage: Stage, contender: Contender, partitions: int) -> Figures:
        directory = stage.directory / stage.new_name(contender.name)
        started_s = time.monotonic()
        with contender.start(directory, {}) as broker:
            empty_start_s = time.monotonic() - started_s
            empty = broker.usage()
            made_s = time.monotonic()
            BrokerClient(broker.address).create_topic(TOPIC, partitions, {}, _ANSWERS_WITHIN_S)
            made_s = time.monotonic() - made_s
            one_record_each(broker.address, partitions)
            wait_until_whole(broker.address, TOPIC, partitions, partitions)
            full = broker.usage()
        restarted_s = time.monotonic()
        with contender.start(directory, {}) as broker:
            wait_until_whole(broker.address, TOPIC, partitions, partitions + 1)
            restarted_s = time.monotonic() - restarted_s
        shutil.rmtree(directory)
        return {
            _of(_MADE, partitions).name: made_s * 1e3 / partitions,
            _of(_HELD, partitions).name: (full.rss_bytes - empty.rss_bytes) / KIB / partitions,
            _of(_RESTARTED, partitions).name: max(0.0, restarted_s - empty_start_s) * 1e3 / partitions,
        }


def one_record_each(address: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 0})
    for partition in range(partitions):
        producer.produce(TOPIC, bytes(KIB), partition=partition)
    if left := producer.flush(120):
        raise TrialError(f"{left} of {partitions} records were not acknowledged")


def start_cells() -> list[StartCell]:
    return [MemoryCell(), RestartCell(), PartitionsCell()]
