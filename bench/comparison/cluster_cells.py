"""The cells that measure three brokers on a ZooKeeper: three copies of everything, acknowledged by two or more."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from highwater.bench.comparison.cells import (
    CPU_S_PER_GIB,
    GIB,
    KIB,
    MB_PER_S,
    MIB,
    P99_MS,
    PARTITIONS,
    Figures,
    LatencyCell,
    ProduceCell,
    Stage,
    WarmCell,
    at_least,
    at_most,
    librdkafka,
)
from highwater.bench.comparison.contenders import BROKER_COUNT, CLUSTERS, SESSION_TIMEOUT_MS, Broker, Contender
from highwater.bench.comparison.results import Aim, Measure
from highwater.bench.comparison.start_cells import TOPIC, StartCell, one_record_each
from highwater.bench.errors import TrialError
from highwater.bench.native.clients import Production, produce
from highwater.bench.systems.broker_client import BrokerClient

_ANSWERS_WITHIN_S: Final = 120.0
_BATCHES: Final = {"batch.num.messages": "100000", "linger.ms": "5"}


def _replicated(batch_bytes: int) -> Production:
    return Production(KIB, {**_BATCHES, "batch.size": str(batch_bytes)}, acks=-1)


def cluster_load_cells() -> list[WarmCell]:
    how = (
        "Three brokers, replication factor 3, acks=all, min.insync.replicas=2, the leaders evenly spread over the "
        "brokers; rdkafka_performance as the one producer, batch.size={}, linger.ms=5. CPU is that of all three."
    )
    produce_cells = [
        ProduceCell(
            name=f"cluster-produce-{batch_name}-{PARTITIONS}p",
            title=f"Three brokers, acks=all: 1 KiB records, {batch_name.upper()}iB batches, partitions: {PARTITIONS}",
            how=how.format(batch_bytes),
            new_producer=librdkafka(_replicated(batch_bytes)),
            partitions=PARTITIONS,
            measures=(MB_PER_S, CPU_S_PER_GIB),
            aims=(at_least(MB_PER_S, 1.0),),
            systems=CLUSTERS,
        )
        for batch_name, batch_bytes in (("16k", 16 * KIB), ("1m", MIB))
    ]
    latency = LatencyCell(
        name="cluster-latency",
        title="Three brokers, acks=all: produce latency at half of Kafka's maximum rate",
        how=(
            "Requests of 15 records of 1 KiB (one batch of 16 KiB), acks=all, replication factor 3, 12 connections to "
            "the leaders of 12 partitions on three brokers. First Apache Kafka takes as many as it can (5 in flight on "
            "each connection); then each system is sent half of that rate on a schedule, whatever it answers. Latency "
            "runs from when a request was due."
        ),
        aims=(at_most(P99_MS, 1.0),),
        systems=CLUSTERS,
        acks=-1,
    )
    return [*produce_cells, latency]


_IDLE: Final = Measure(name="idle_mib", title="idle", unit="MiB")
_LOADED: Final = Measure(name="loaded_mib", title="loaded", unit="MiB")


@dataclass(frozen=True, slots=True)
class ClusterMemoryCell:
    name: str = "cluster-memory"
    title: str = "Three brokers: resident memory of all three"
    how: str = (
        "Idle: 5 s after a topic of 12 partitions was made on a fresh cluster. Loaded: the most of each broker while "
        "rdkafka_performance produces 1 GiB with acks=all. ZooKeeper is not counted. Java's heaps are 1 GiB each."
    )
    measures: Sequence[Measure] = (_IDLE, _LOADED)
    aims: Sequence[Aim] = ()
    systems: Sequence[str] = CLUSTERS

    def measure(self, stage: Stage, contender: Contender) -> Figures:
        directory = stage.directory / stage.new_name(contender.name)
        with contender.start(directory, {}) as cluster:
            client = BrokerClient(cluster.address)
            client.create_topic(TOPIC, PARTITIONS, {}, assignment=cluster.assignment(PARTITIONS))
            time.sleep(5)
            idle = cluster.usage()
            records = round(GIB * stage.scale) // KIB
            produce(cluster.address, TOPIC, PARTITIONS, _replicated(16 * KIB), records)
            if client.count_records(TOPIC, PARTITIONS) != records:
                raise TrialError(f"{records} records were acknowledged, and the log holds another number")
            loaded = cluster.usage()
        shutil.rmtree(directory)
        return {_IDLE.name: idle.rss_bytes / MIB, _LOADED.name: loaded.peak_rss_bytes / MIB}


_FAILOVER: Final = Measure(name="failover_s", title="next acknowledgement after", unit="s")


@dataclass(frozen=True, slots=True)
class FailoverCell:
    """What a producer sees of the death of a leader that is not the controller."""

    name: str = "cluster-failover"
    title: str = "Three brokers: from kill -9 of a leader to the next acknowledged produce"
    how: str = (
        f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}, everything else as it comes. A librdkafka producer "
        "(acks=all, retry.backoff.ms=20) writes a record every 5 ms to one partition. Its leader, which is not the "
        "controller, is killed; measured until a record that was produced after that is acknowledged."
    )
    measures: Sequence[Measure] = (_FAILOVER,)
    aims: Sequence[Aim] = (at_most(_FAILOVER, 0.5),)
    systems: Sequence[str] = CLUSTERS

    def measure(self, stage: Stage, contender: Contender) -> Figures:
        directory = stage.directory / stage.new_name(contender.name)
        with contender.start(directory, {}) as cluster:
            partitions = BROKER_COUNT
            client = BrokerClient(cluster.address)
            client.create_topic(TOPIC, partitions, {}, assignment=cluster.assignment(partitions))
            partition, victim = _led_by_another_than_the_controller(cluster)
            writer = _SteadyWriter(cluster.address, partition)
            writer.write_for(3.0)
            killed_s = time.monotonic()
            cluster.processes[victim - 1].kill()
            writer.number_at_the_kill = writer.number
            deadline_s = killed_s + _ANSWERS_WITHIN_S
            while writer.acknowledged_s is None:
                if time.monotonic() > deadline_s:
                    raise TrialError(f"nothing was acknowledged within {_ANSWERS_WITHIN_S:.0f} s after the kill")
                writer.write_for(0.1)
            failover_s = writer.acknowledged_s - killed_s
        shutil.rmtree(directory)
        return {_FAILOVER.name: failover_s}


class _SteadyWriter:
    _INTERVAL_S: Final = 0.005

    def __init__(self, address: str, partition: int) -> None:
        self.number = 0
        self.number_at_the_kill: int | None = None
        self.acknowledged_s: float | None = None
        """When the first record was acknowledged that was produced after the kill."""
        self._partition = partition
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        self._producer = Producer(settings)

    def write_for(self, seconds: float) -> None:
        ends_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < ends_s:
            number = self.number
            delivered = partial(self._delivered, number)
            self._producer.produce(TOPIC, bytes(KIB), partition=self._partition, on_delivery=delivered)
            self.number += 1
            while (left_s := now_s + self._INTERVAL_S - time.monotonic()) > 0:
                self._producer.poll(left_s)

    def _delivered(self, number: int, error: Any, _: object) -> None:
        if error is not None:
            raise TrialError(f"a record was given up: {error}")
        is_after = self.number_at_the_kill is not None and number >= self.number_at_the_kill
        if is_after and self.acknowledged_s is None:
            self.acknowledged_s = time.monotonic()


def _led_by_another_than_the_controller(cluster: Broker) -> tuple[int, int]:
    """A partition of the topic, and the broker that leads it."""
    metadata = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0}).list_topics(TOPIC, timeout=10)
    for number, partition in metadata.topics[TOPIC].partitions.items():
        if partition.leader != metadata.controller_id:
            return number, partition.leader
    raise TrialError("the controller leads every partition")


_LEADERS: Final = 300
_STOPPED: Final = Measure(name="stopped_s", title="stopped after", unit="s")


@dataclass(frozen=True, slots=True)
class ControlledShutdownCell:
    name: str = "cluster-shutdown"
    title: str = f"Three brokers: controlled shutdown of one that leads {_LEADERS} partitions"
    how: str = (
        f"One topic of {BROKER_COUNT * _LEADERS} partitions, evenly led, each with a record, nothing else going on. A "
        "broker that is not the controller gets SIGTERM; measured until its process has ended of itself. Then every "
        "partition has a leader among the others, or the measurement does not count."
    )
    measures: Sequence[Measure] = (_STOPPED,)
    aims: Sequence[Aim] = (at_most(_STOPPED, 1.0),)
    systems: Sequence[str] = CLUSTERS

    def measure(self, stage: Stage, contender: Contender) -> Figures:
        directory = stage.directory / stage.new_name(contender.name)
        partitions = BROKER_COUNT * _LEADERS
        with contender.start(directory, {}) as cluster:
            client = BrokerClient(cluster.address)
            assignment = cluster.assignment(partitions)
            client.create_topic(TOPIC, partitions, {}, _ANSWERS_WITHIN_S, assignment)
            one_record_each(cluster.address, partitions)
            _, victim = _led_by_another_than_the_controller(cluster)
            stopped_s = _stop(cluster, victim)
            _check_led_by_others(cluster, partitions, victim)
        shutil.rmtree(directory)
        return {_STOPPED.name: stopped_s}


def _stop(cluster: Broker, victim: int) -> float:
    process = cluster.processes[victim - 1]
    started_s = time.monotonic()
    process.terminate()
    try:
        process.wait(_ANSWERS_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise TrialError(f"broker {victim} does not stop within {_ANSWERS_WITHIN_S:.0f} s") from None
    return time.monotonic() - started_s


def _check_led_by_others(cluster: Broker, partitions: int, victim: int) -> None:
    try:
        metadata = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0}).list_topics(TOPIC, timeout=10)
    except KafkaException as error:
        raise TrialError(f"the cluster does not answer after the stop: {error}") from None
    leaders = [partition.leader for partition in metadata.topics[TOPIC].partitions.values()]
    if len(leaders) != partitions or any(leader in (-1, victim) for leader in leaders):
        raise TrialError(f"of {partitions} partitions {leaders.count(-1)} are without a leader after the stop")


def cluster_start_cells() -> list[StartCell]:
    return [ClusterMemoryCell(), FailoverCell(), ControlledShutdownCell()]
