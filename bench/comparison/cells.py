"""What a cell of the comparison is, and the cells that load systems which are running and warm.

The size of a load follows from the rate that a short load before it reached, so that a cell takes about the same time
with a fast and a slow system.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from highwater.bench.comparison.contenders import BARE_LOOP, KAFKA_LINES, Broker, Usage
from highwater.bench.comparison.results import KAFKA, Aim, Measure
from highwater.bench.errors import TrialError
from highwater.bench.native.clients import Load, PreparedRequests, Production, batches_of, consume, fetch, produce
from highwater.bench.storage import page_cache
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.highwater import HIGHWATER

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
BROKERS: Final = (HIGHWATER, *KAFKA_LINES)
# As many as the largest topic of a load has; the bare loop's topics all have so many.
PARTITIONS: Final = 12
_LARGEST_LOAD_BYTES: Final = 2 * GIB
# Of the short load that tells the rate: enough that connecting hardly counts.
_FIRST_RECORDS: Final = 50_000
_LEAST_RECORDS: Final = 1000
# The controller tells one broker after another of a new topic, and until then it refuses what is sent without asking.
_TOLD_WITHIN_S: Final = 1.0

Figures = dict[str, float]

MB_PER_S: Final = Measure(name="mb_per_s", title="throughput", unit="MB/s")
RECORDS_PER_S: Final = Measure(name="records_per_s", title="records", unit="/s")
CPU_S_PER_GIB: Final = Measure(name="cpu_s_per_gib", title="broker CPU", unit="s/GiB")
P50_MS: Final = Measure(name="p50_ms", title="p50", unit="ms")
P99_MS: Final = Measure(name="p99_ms", title="p99", unit="ms")


def at_least(measure: Measure, value: float, against: str | None = KAFKA) -> Aim:
    return Aim(measure=measure.name, bound="at least", value=value, against=against)


def at_most(measure: Measure, value: float, against: str | None = KAFKA) -> Aim:
    return Aim(measure=measure.name, bound="at most", value=value, against=against)


@dataclass(slots=True)
class Stage:
    """Where a comparison works, and how large its loads (seconds) and its data sets (a factor) are."""

    directory: Path
    load_s: float
    scale: float
    _names: count[int] = field(default_factory=count)

    def new_name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._names)}"

    def records_for_a_load(self, like: Load) -> int:
        wanted = like.records_per_s * self.load_s
        return max(_LEAST_RECORDS, min(int(wanted), _LARGEST_LOAD_BYTES // like.record_bytes))


class Cell(Protocol):
    """One line of the comparison."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def how(self) -> str: ...
    @property
    def measures(self) -> Sequence[Measure]: ...
    @property
    def aims(self) -> Sequence[Aim]: ...
    @property
    def systems(self) -> Sequence[str]: ...


class WarmCell(Cell, Protocol):
    """Measured on systems that all run, one after the other in random order."""

    def prepare(self, stage: Stage, brokers: Mapping[str, Broker]) -> None:
        """Once per repeat, before the first system is measured."""
        ...

    def measure(self, stage: Stage, broker: Broker) -> Figures: ...


class Topic:
    """A topic for one measurement in which every record is accounted for; deleted at its end."""

    def __init__(self, stage: Stage, broker: Broker, partitions: int, config: Mapping[str, str]) -> None:
        self.name = stage.new_name("bench")
        self.partitions = partitions
        self.broker = broker
        self._client = None if broker.name == BARE_LOOP else BrokerClient(broker.address)
        self._config = config
        self._produced = 0

    def __enter__(self) -> Topic:
        if self._client:
            assignment = self.broker.assignment(self.partitions)
            self._client.create_topic(self.name, self.partitions, self._config, assignment=assignment)
            if len(self.broker.processes) > 1:
                time.sleep(_TOLD_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._client:
            self._client.delete_topic(self.name)
        else:
            for path in self.log_files():
                os.truncate(path, 0)

    def wrote(self, load: Load) -> Load:
        """Note what a producer was acknowledged."""
        self._produced += load.records
        return load

    def log_files(self) -> list[Path]:
        pattern = "*.log" if self._client is None else f"{self.name}-*/*.log"
        return sorted(self.broker.directory.glob(pattern))

    def check(self) -> None:
        """Raises TrialError unless the log holds exactly what was acknowledged. The bare loop knows no log."""
        if self._client and (held := self._client.count_records(self.name, self.partitions)) != self._produced:
            raise TrialError(f"{self._produced} records were acknowledged and the log of {self.name} holds {held}")


Producer = Callable[[int], Load]
NewProducer = Callable[[Stage, Topic], Producer]


def librdkafka(production: Production) -> NewProducer:
    """One rdkafka_performance process."""

    def new(_: Stage, topic: Topic) -> Producer:
        return lambda records: topic.wrote(
            produce(topic.broker.address, topic.name, topic.partitions, production, records)
        )

    return new


def prepared(*, acks: int, connections: int, in_flight: int) -> NewProducer:
    """Requests of one 1 KiB record, encoded beforehand."""

    def new(stage: Stage, topic: Topic) -> Producer:
        requests = PreparedRequests(stage.directory, topic.name, acks=acks, records=1, record_bytes=KIB)
        return lambda records: topic.wrote(
            requests.send(
                topic.broker.ports,
                records,
                connections=connections,
                in_flight=in_flight,
                partitions=topic.partitions,
            )
        )

    return new


def _figures(load: Load, before: Usage, after: Usage) -> Figures:
    figures = {
        MB_PER_S.name: load.mb_per_s,
        RECORDS_PER_S.name: load.records_per_s,
        CPU_S_PER_GIB.name: (after.cpu_s - before.cpu_s) / (load.size_bytes / GIB),
    }
    if load.p50_ns is not None and load.p99_ns is not None:
        figures |= {P50_MS.name: load.p50_ns / 1e6, P99_MS.name: load.p99_ns / 1e6}
    return figures


def settle() -> None:
    """Let the disk finish what was left to it earlier."""
    os.sync()


@dataclass(frozen=True, slots=True)
class ProduceCell:
    """As much as goes in."""

    name: str
    title: str
    how: str
    new_producer: NewProducer
    partitions: int
    measures: Sequence[Measure]
    aims: Sequence[Aim]
    systems: Sequence[str] = (*BROKERS, BARE_LOOP)
    topic_config: Mapping[str, str] = field(default_factory=dict)
    first_records: int = _FIRST_RECORDS

    def prepare(self, stage: Stage, brokers: Mapping[str, Broker]) -> None:
        pass

    def measure(self, stage: Stage, broker: Broker) -> Figures:
        with Topic(stage, broker, self.partitions, self.topic_config) as topic:
            producer = self.new_producer(stage, topic)
            first = producer(self.first_records)
            settle()
            before = broker.usage()
            load = producer(stage.records_for_a_load(first))
            after = broker.usage()
            topic.check()
        return _figures(load, before, after)


@dataclass(frozen=True, slots=True)
class ConsumeCell:
    """As much as comes out of the page cache."""

    name: str = "consume"
    title: str = "Consume from the page cache, 1 KiB records"
    how: str = (
        "rdkafka_performance as the one consumer of one partition, from its beginning, with librdkafka's defaults; the "
        "records were produced just before, in batches of 16 KiB, and are in the page cache."
    )
    measures: Sequence[Measure] = (MB_PER_S, CPU_S_PER_GIB)
    aims: Sequence[Aim] = (at_least(MB_PER_S, 1.0), at_most(CPU_S_PER_GIB, 0.7))
    systems: Sequence[str] = BROKERS

    def prepare(self, stage: Stage, brokers: Mapping[str, Broker]) -> None:
        pass

    def measure(self, stage: Stage, broker: Broker) -> Figures:
        records = round(GIB * stage.scale) // KIB
        with Topic(stage, broker, 1, {}) as topic:
            librdkafka(batches_of(16 * KIB, KIB))(stage, topic)(records)
            topic.check()
            settle()
            consume(broker.address, topic.name, 1, KIB, records // 10)
            before = broker.usage()
            load = consume(broker.address, topic.name, 1, KIB, records)
            after = broker.usage()
        return _figures(load, before, after)


_FETCHED: Final = Measure(name="fetched_mb_per_s", title="fetched, records not looked at", unit="MB/s")
_DD: Final = Measure(name="dd_mb_per_s", title="dd", unit="MB/s")
_PART_OF_DD: Final = Measure(name="part_of_dd", title="fetched, of dd", unit="")


@dataclass(frozen=True, slots=True)
class ColdReadCell:
    """A consumer that comes late: what it reads is on disk only."""

    name: str = "catch-up"
    title: str = "Catch-up read of a cold partition"
    measures: Sequence[Measure] = (MB_PER_S, CPU_S_PER_GIB, _FETCHED, _DD, _PART_OF_DD)
    aims: Sequence[Aim] = (at_least(_PART_OF_DD, 0.9, None),)
    systems: Sequence[str] = BROKERS
    size_bytes: int = 4 * GIB

    @property
    def how(self) -> str:
        return (
            f"One partition of {self.size_bytes // GIB} GiB (1 KiB records in batches of 1 MiB) is written to disk and "
            "dropped from the page cache, file by file (posix_fadvise; mincore shows that under 1 % is left); then "
            "rdkafka_performance reads it from its beginning. In the same state a C program fetches it (1 MiB a time, "
            "one request in flight) and looks at no record, for a consumer is slower than many a disk; and in the "
            "same state dd (bs=1M) reads the same files."
        )

    def prepare(self, stage: Stage, brokers: Mapping[str, Broker]) -> None:
        pass

    def measure(self, stage: Stage, broker: Broker) -> Figures:
        records = round(self.size_bytes * stage.scale) // KIB
        with Topic(stage, broker, 1, {}) as topic:
            librdkafka(batches_of(MIB, KIB))(stage, topic)(records)
            topic.check()
            files = topic.log_files()
            page_cache.evict(files)
            before = broker.usage()
            load = consume(broker.address, topic.name, 1, KIB, records)
            after = broker.usage()
            page_cache.evict(files)
            fetched_mb_per_s = fetch(broker.port, topic.name, records)
            page_cache.evict(files)
            dd_mb_per_s = _dd_mb_per_s(files)
        return _figures(load, before, after) | {
            _FETCHED.name: fetched_mb_per_s,
            _DD.name: dd_mb_per_s,
            _PART_OF_DD.name: fetched_mb_per_s / dd_mb_per_s,
        }


def _dd_mb_per_s(files: Sequence[Path]) -> float:
    seconds = 0.0
    for path in files:
        done = subprocess.run(
            ["dd", f"if={path}", "of=/dev/null", "bs=1M"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"LC_ALL": "C"},
        )
        seconds += float(done.stderr.rpartition("copied, ")[2].split()[0])
    return sum(path.stat().st_size for path in files) / 1e6 / seconds


@dataclass(slots=True)
class LatencyCell:
    """Produce at half of what Kafka can take."""

    name: str = "latency"
    title: str = "Produce latency at half of Kafka's maximum rate"
    how: str = (
        "Requests of 15 records of 1 KiB (one batch of 16 KiB), acks=1, 12 connections to 12 partitions. First Apache "
        "Kafka takes as many as it can (5 in flight on each connection; the slower of its lines); then each system is "
        "sent half of that rate on a schedule, whatever it answers. Latency runs from when a request was due."
    )
    measures: Sequence[Measure] = (P50_MS, P99_MS, MB_PER_S, CPU_S_PER_GIB)
    aims: Sequence[Aim] = (at_most(P50_MS, 0.7), at_most(P99_MS, 0.7), at_most(CPU_S_PER_GIB, 0.7))
    systems: Sequence[str] = BROKERS
    acks: int = 1
    _rate: float = 0.0

    def prepare(self, stage: Stage, brokers: Mapping[str, Broker]) -> None:
        kafka = [broker for name, broker in brokers.items() if name.startswith(KAFKA)]
        self._rate = min(self._maximum_rate(stage, broker) for broker in kafka or brokers.values()) / 2

    def measure(self, stage: Stage, broker: Broker) -> Figures:
        with Topic(stage, broker, PARTITIONS, {}) as topic:
            self._send(stage, topic, round(self._rate))
            settle()
            before = broker.usage()
            load = self._send(stage, topic, round(self._rate * stage.load_s), self._rate)
            after = broker.usage()
            topic.check()
        return _figures(load, before, after)

    def _maximum_rate(self, stage: Stage, broker: Broker) -> float:
        with Topic(stage, broker, PARTITIONS, {}) as topic:
            first = self._send(stage, topic, _FIRST_RECORDS)
            return self._send(stage, topic, stage.records_for_a_load(first)).records_per_s

    def _send(self, stage: Stage, topic: Topic, records: int, records_per_s: float = 0.0) -> Load:
        requests = PreparedRequests(stage.directory, topic.name, acks=self.acks, records=15, record_bytes=KIB)
        return topic.wrote(
            requests.send(
                topic.broker.ports,
                records,
                connections=PARTITIONS,
                in_flight=1000 if records_per_s else 5,
                partitions=PARTITIONS,
                records_per_s=records_per_s,
            )
        )
