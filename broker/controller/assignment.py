"""Assigns replicas of new partitions to brokers, spread over brokers and racks (KIP-36).

Kafka does the same in AdminUtils.

The first replicas go round the brokers from some start; the others follow at a distance that grows with every round, so
that what one broker led falls to all the others when it dies. With racks the brokers stand in a line in which
neighbours are of different racks, and a rack gets its second replica of a partition only when every rack has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count, zip_longest
from random import Random

from kio.schema.errors import ErrorCode

from highwater.broker.topics.administration import MAX_PARTITIONS_PER_REQUEST, too_many_partitions
from highwater.kafka.protocol.problem import Problem

Racks = Mapping[int, str | None]
"""The brokers that live, by id, each with its rack."""


def assign_replicas(
    racks: Racks,
    partition_count: int,
    replication_factor: int,
    start: Random | int,
    *,
    first_partition: int = 0,
) -> dict[int, list[int]] | Problem:
    """The replicas of so many partitions, by their number; a fixed start is a place in the line of brokers."""
    if partition_count <= 0:
        return Problem(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        return Problem(ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        return Problem(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    known_racks = {broker: rack for broker, rack in racks.items() if rack is not None}
    if known_racks and len(known_racks) < len(racks):
        return Problem(
            ErrorCode.unknown_server_error,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    brokers = alternate_racks(known_racks) if known_racks else sorted(racks)
    rack_count = len(set(known_racks.values()))
    first = start.randrange(len(brokers)) if isinstance(start, Random) else start
    shift = start.randrange(len(brokers)) if isinstance(start, Random) else start
    assignment = {}
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        leader = (partition + first) % len(brokers)
        if known_racks:
            candidates = _followers(brokers, leader, shift * rack_count)
            assignment[partition] = _spread(brokers[leader], candidates, known_racks, rack_count, replication_factor)
        else:
            followers = zip(_followers(brokers, leader, shift), range(replication_factor - 1), strict=False)
            assignment[partition] = [brokers[leader], *(broker for broker, _ in followers)]
    return assignment


def _followers(brokers: list[int], leader: int, shift: int) -> Iterator[int]:
    """The brokers beside the leader, over and over, from a distance on."""
    others = len(brokers) - 1
    return (brokers[(leader + 1 + (shift + step) % others) % len(brokers)] for step in count()) if others else iter(())


def _spread(
    leader: int, candidates: Iterator[int], racks: Mapping[int, str], rack_count: int, replication_factor: int
) -> list[int]:
    replicas = [leader]
    used_racks = {racks[leader]}
    while len(replicas) < replication_factor:
        broker = next(candidates)
        if broker not in replicas and (racks[broker] not in used_racks or len(used_racks) == rack_count):
            replicas.append(broker)
            used_racks.add(racks[broker])
    return replicas


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The brokers in a line in which neighbours are of different racks as far as can be."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for brokers in rounds for broker in brokers if broker is not None]


def check_assignment(assignment: Mapping[int, list[int]]) -> Problem | dict[int, list[int]]:
    """Check the assignment of a client, as AdminZkClient.validateTopicCreate does: brokers need not be alive."""
    if len(assignment) > MAX_PARTITIONS_PER_REQUEST:
        return too_many_partitions(len(assignment))
    if len(set(map(len, assignment.values()))) != 1:
        reason = "All partitions should have the same number of replicas"
    elif any(len(set(replicas)) < len(replicas) for replicas in assignment.values()):
        reason = f"Duplicate replica assignment found: {dict(assignment)}"
    elif sorted(assignment) != list(range(len(assignment))):
        reason = "partitions should be a consecutive 0-based integer sequence"
    elif any(broker < 0 for replicas in assignment.values() for broker in replicas) or [] in assignment.values():
        reason = f"No brokers are named: {dict(assignment)}"
    else:
        return dict(sorted(assignment.items()))
    return Problem(ErrorCode.invalid_replica_assignment, reason)
