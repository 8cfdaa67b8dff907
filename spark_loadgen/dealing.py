"""Who does what: the partitions of a group's members, and the numbers of tasks in a paired load. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.spark_loadgen.errors import LoadSetupError


def partitions_of(topics: Sequence[str], partitions: int, members: int, member: int) -> list[tuple[str, int]]:
    """The (topic, partition)s of one of `members`: every member a share of each topic, all shares of nearly one size.

    A consumer reads these; in a paired load the producer of the same number writes to these and no others.
    """
    everything = [(topic, partition) for topic in topics for partition in range(partitions)]
    return everything[member::members]


def deal_pairs(clocks: Sequence[str], hosts: Sequence[str]) -> list[int]:
    """The number of each task of a paired load, so that both tasks of a pair share a clock.

    clocks[i] names the clock that task i of the launcher reads, hosts[i] its host for people. Of n tasks numbers 0 to
    n/2 − 1 are producers; consumer n/2 + w is the other half of producer w. Raises LoadSetupError.
    """
    pairs = len(clocks) // 2
    numbers = [0] * len(clocks)
    producer = 0
    for clock in dict.fromkeys(clocks):
        sharing = [task for task, other in enumerate(clocks) if other == clock]
        if len(sharing) % 2:
            raise LoadSetupError(
                f"pairs need a producer and its consumer on one host, and host {hosts[sharing[0]]} was given "
                f"{len(sharing)} of {len(clocks)} tasks: use an even number of slots per host"
            )
        for first, second in zip(sharing[::2], sharing[1::2], strict=True):
            numbers[first], numbers[second] = producer, pairs + producer
            producer += 1
    return numbers
