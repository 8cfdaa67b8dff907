"""The `rebalance:` of a workload: one line for each group that cannot be."""

from __future__ import annotations

import pytest

from highwater.bench.workload.rebalance import Rebalance
from tests.bench.workload.test_specification import complaint, document, read

JOIN = "changes: [{at: 5s, do: join}]"


@pytest.mark.parametrize(
    ("rebalance", "expected"),
    [
        ("{protocol: streams, " + JOIN + "}", "rebalance.protocol: 'streams' is not 'classic' or 'consumer'"),
        (
            "{protocol: consumer, assignor: cooperative-sticky, " + JOIN + "}",
            "rebalance.assignor: cooperative-sticky is not an assignor of protocol: consumer (uniform, range)",
        ),
        (
            "{assignor: uniform, " + JOIN + "}",
            (
                "rebalance.assignor: uniform is not an assignor of protocol: classic "
                "(range, roundrobin, cooperative-sticky)"
            ),
        ),
        (
            "{protocol: consumer, client: {session.timeout.ms: 10000}, " + JOIN + "}",
            (
                "rebalance.client.session.timeout.ms: does not go with protocol: consumer; the broker decides by "
                "group.consumer.session.timeout.ms, under system.config"
            ),
        ),
        (
            "{client: {partition.assignment.strategy: range}, " + JOIN + "}",
            "rebalance.client.partition.assignment.strategy: is what rebalance.assignor says",
        ),
        (
            "{client: {group.protocol: consumer}, " + JOIN + "}",
            (
                "rebalance.client.group.protocol: cannot be set here: consumers are assigned their partitions; "
                "rebalance.protocol is that of a group's members"
            ),
        ),
        (
            "{members: 2, changes: [{at: 5s, do: kill, member: 3}]}",
            "rebalance.changes[0].member: 3 is not in the group at that time (members: 1, 2)",
        ),
        (
            "{members: 2, changes: [{at: 5s, do: leave, member: 1}, {at: 9s, do: kill, member: 1}]}",
            "rebalance.changes[1].member: 1 is not in the group at that time (members: 2)",
        ),
        (
            "{members: 1, changes: [{at: 5s, do: kill, member: 1}]}",
            "rebalance.changes[0]: would leave the group without a member",
        ),
        ("{changes: [{at: 5s, do: leave}]}", "rebalance.changes[0].member: is missing: which member is it to leave?"),
        (
            "{changes: [{at: 5s, do: join, member: 4}]}",
            "rebalance.changes[0].member: is for leave and kill; a member that joins gets the next number",
        ),
        ("{changes: [{at: 2s, do: join}]}", "rebalance.changes[0].at: must be 3s or later"),
        (
            "{changes: [{at: 19s, do: join}]}",
            "rebalance.changes[0].at: leaves less than 3 s of the measured phase (20s)",
        ),
    ],
)
def test_one_line_per_group_that_cannot_be(rebalance: str, expected: str) -> None:
    found = complaint(document(rebalance=rebalance, phases="{measure: 20s}"))
    assert found.partition(": ")[2] == expected


def test_kafka_3_does_not_know_the_consumer_protocol() -> None:
    found = complaint(
        document(
            rebalance="{protocol: consumer, " + JOIN + "}",
            phases="{measure: 20s}",
            system="{kind: apache-kafka, version: '3.9'}",
        )
    )
    assert found.endswith(
        "rebalance.protocol: consumer needs Apache Kafka 4 (system.version), or Highwater's broker; "
        "3.9 knows classic only"
    )


def test_protocols_are_an_axis_and_each_has_its_assignor() -> None:
    specification = read(
        document(
            rebalance="{" + JOIN + "}", phases="{measure: 20s}", matrix="{rebalance.protocol: [classic, consumer]}"
        )
    )
    groups = [cell.workload.rebalance for cell in specification.cells]
    assert [group.properties for group in groups if group] == [
        {"group.protocol": "classic", "partition.assignment.strategy": "range"},
        {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
    ]
    assert [group.assignor for group in groups if isinstance(group, Rebalance)] == [None, None]
