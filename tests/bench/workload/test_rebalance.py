"""The `rebalance:` of a workload: protocols, and their assignors."""

from __future__ import annotations

from highwater.bench.workload.rebalance import Rebalance
from tests.bench.workload.test_specification import complaint, document, read

JOIN = "changes: [{at: 5s, do: join}]"


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
