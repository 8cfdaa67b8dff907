"""Assigns partitions to the members of a group, and task numbers in a paired load. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.spark_loadgen.errors import LoadSetupError


def assigned_partitions(topics: Sequence[str], partitions: int, members: int, member: int) -> list[tuple[str, int]]:
    """The (topic, partition) pairs of member number `member`: shares of nearly equal size, spread over all topics.

    The consumer of that number reads them. In a paired load only the producer of that number writes to them.
    """
    everything = [(topic, partition) for topic in topics for partition in range(partitions)]
    return everything[member::members]


def assign_pairs(clocks: Sequence[str], hosts: Sequence[str]) -> list[int]:
    """The number of each task of a paired load, such that both tasks of a pair share a clock.

    clocks[i] identifies the clock of the launcher's task i; hosts[i] is its host, for messages. Of n tasks, numbers 0
    to n/2 − 1 are producers; consumer n/2 + w belongs to producer w. Raises LoadSetupError.
    """
    pairs = len(clocks) // 2
    numbers = [0] * len(clocks)
    producer = 0
    for clock in dict.fromkeys(clocks):
        sharing = [task for task, other in enumerate(clocks) if other == clock]
        if len(sharing) % 2:
            raise LoadSetupError(
                f"pairs need a producer and its consumer on one host, but host {hosts[sharing[0]]} runs "
                f"{len(sharing)} of {len(clocks)} tasks: use an even number of slots per host"
            )
        for first, second in zip(sharing[::2], sharing[1::2], strict=True):
            numbers[first], numbers[second] = producer, pairs + producer
            producer += 1
    return numbers
