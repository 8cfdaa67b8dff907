"""Counts of brokers that are made of many partitions at once are those of partitions one by one."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest

from highwater.monitor.figures.broker_loss import LossCount
from highwater.monitor.figures.cluster import figures
from highwater.monitor.figures.health import HealthCount, min_isr
from highwater.monitor.figures.memory import Memory
from highwater.monitor.figures.topics import count_partition
from highwater.monitor.model import NO_LEADER, Partition, Snapshot
from tests.monitor.clusters import Shape, endless


def changed(partition: Partition, rng: random.Random) -> Partition:
    match rng.randrange(20):
        case 0:
            return replace(partition, leader=NO_LEADER, in_sync_replicas=())
        case 1:
            return replace(partition, in_sync_replicas=partition.in_sync_replicas[:1])
        case 2:
            return replace(partition, end_offset=None, offsets_at_ms=None)
        case 3:
            return replace(partition, leader=partition.replicas[-1])
        case 4:
            return replace(partition, leader=97, replicas=(97, 98), in_sync_replicas=(97, 98))
        case 5:
            return replace(partition, replicas=(), in_sync_replicas=())
        case _:
            return partition


def with_changes(snapshot: Snapshot, rng: random.Random) -> Snapshot:
    topics = {
        name: replace(
            topic,
            partitions=tuple(changed(partition, rng) for partition in topic.partitions),
            config=topic.config if rng.random() < 0.9 else None,
        )
        for name, topic in snapshot.topics.items()
    }
    return replace(snapshot, topics=topics)


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_partitions_one_by_one(seed: int) -> None:
    rng, memory = random.Random(seed), Memory()
    for snapshot in islice(endless(Shape(topics=40, partitions=200), seed), 4):
        newest = with_changes(snapshot, rng)
        memory.add(newest)
        made = figures(memory)
        for node_id, row in made.brokers.items():
            loss, health = LossCount(), HealthCount()
            leaders = preferred = replicas = out_of_sync = 0
            rate = 0.0
            for topic in newest.topics.values():
                limit = min_isr(topic, None)
                for partition, its_row in zip(topic.partitions, made.partitions[topic.name], strict=True):
                    if node_id in partition.replicas:
                        loss.add(node_id, partition, limit)
                        replicas += 1
                        out_of_sync += node_id not in partition.in_sync_replicas
                    preferred += partition.replicas[:1] == (node_id,)
                    if not partition.replicas:
                        continue
                    is_led = partition.leader in newest.brokers or partition.leader in (97, 98)
                    if (partition.leader if is_led else partition.replicas[0]) == node_id:
                        count_partition(health, partition, its_row)
                    if partition.leader == node_id:
                        leaders += 1
                        rate += its_row.offsets_per_s or 0.0
            assert (row.leaders, row.preferred_leaders, row.replicas) == (leaders, preferred, replicas)
            assert (row.health, row.out_of_sync_replicas) == (health.frozen(), out_of_sync)
            assert row.if_it_dies == loss.frozen()
            assert (row.offsets_per_s or 0.0) == rate
