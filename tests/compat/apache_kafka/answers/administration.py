"""Partitions, log directories, leaders, reassignments, ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.broker.handlers.harness import versions
from tests.compat.apache_kafka.answers.script import Fields, Script


def administering(script: Script) -> None:
    script.note("CreatePartitions")

    def more(
        told: str, count: int, name: str = "new-6", brokers: Sequence[Sequence[int]] | None = None, **fields: Any
    ) -> None:
        assignments = None if brokers is None else [{"broker_ids": ids} for ids in brokers]
        topic = {"name": name, "count": count, "assignments": assignments}
        script.ask("create_partitions", 3, told, **({"topics": [topic], "timeout": 30_000} | fields))

    for version in versions("create_partitions"):
        topic = {"name": f"new-{version}", "count": 3, "assignments": None}
        script.ask("create_partitions", version, "3", topics=[topic], timeout=30_000, validate_only=False)
    for count in (2, 1, 0, -1, 20_000):
        more(f"{count} where there are 2", count, validate_only=True)
    more("nowhere", 5, "nowhere")
    more("bad name", 5, "a b")
    more("internal", 60, "__consumer_offsets", validate_only=True)
    more("assigned", 3, brokers=[[0]], validate_only=True)
    more("assigned, too few", 4, brokers=[[0]], validate_only=True)
    more("assigned, too many", 3, brokers=[[0], [0]], validate_only=True)
    more("assigned, none", 3, brokers=[], validate_only=True)
    more("assigned, no broker", 3, brokers=[[]], validate_only=True)
    more("assigned, unknown", 3, brokers=[[7]], validate_only=True)
    more("assigned, broker twice", 3, brokers=[[0, 0]], validate_only=True)
    twice = [{"name": "new-6", "count": 3, "assignments": None}] * 2
    script.ask("create_partitions", 3, "twice", topics=twice, timeout=30_000, validate_only=True)
    script.ask("create_partitions", 3, "nothing", topics=[], timeout=30_000, validate_only=True)

    script.note("DescribeLogDirs, AlterReplicaLogDirs")
    script.each("describe_log_dirs", "t", topics=[{"topic": "compacted", "partitions": [0, 1]}])
    script.each("describe_log_dirs", "nowhere", topics=[{"topic": "nowhere", "partitions": [0]}])
    script.each("describe_log_dirs", "partition 9", topics=[{"topic": "t", "partitions": [9]}])
    script.each("describe_log_dirs", "nothing", topics=[])
    t0 = [{"name": "t", "partitions": [0]}]
    script.each("alter_replica_log_dirs", "to nowhere", dirs=[{"path": "/nowhere", "topics": t0}])
    script.each("alter_replica_log_dirs", "to no absolute path", dirs=[{"path": "nowhere", "topics": t0}])
    none = [{"name": "nowhere", "partitions": [0]}]
    script.ask("alter_replica_log_dirs", 2, "of nowhere, to nowhere", dirs=[{"path": "/nowhere", "topics": none}])
    script.ask("alter_replica_log_dirs", 2, "nothing", dirs=[])

    script.note("ElectLeaders, reassignments")
    for told, topics in (
        ("t-0", [{"topic": "t", "partitions": [0]}]),
        ("t-9", [{"topic": "t", "partitions": [9]}]),
        ("nowhere-0", [{"topic": "nowhere", "partitions": [0]}]),
        ("nothing", []),
        ("all", None),
    ):
        for kind in (0, 1):
            fields: Fields = {"election_type": kind, "topic_partitions": topics, "timeout": 30_000}
            script.each("elect_leaders", f"{told}, kind {kind}", since=1 if kind else 0, **fields)
    script.ask("elect_leaders", 2, "kind 5", election_type=5, topic_partitions=[], timeout=30_000)

    def reassign(told: str, replicas: Sequence[int] | None, name: str = "t", index: int = 0) -> None:
        topic = {"name": name, "partitions": [{"partition_index": index, "replicas": replicas}]}
        script.ask("alter_partition_reassignments", 0, told, topics=[topic], timeout=30_000)

    reassign("to where it is", [0])
    reassign("stop", None)
    reassign("to nobody", [])
    reassign("to 7", [7])
    reassign("to 0 and 7", [0, 7])
    reassign("to -1", [-1])
    reassign("to 0 twice", [0, 0])
    reassign("nowhere", [0], "nowhere")
    reassign("nowhere, stop", None, "nowhere")
    reassign("partition 9", [0], index=9)
    script.ask("alter_partition_reassignments", 0, "nothing", topics=[], timeout=30_000)
    for told, wanted in (
        ("all", None),
        ("t-0", [{"name": "t", "partition_indexes": [0]}]),
        ("nowhere", [{"name": "nowhere", "partition_indexes": [0]}]),
        ("nothing", []),
    ):
        script.ask("list_partition_reassignments", 0, told, topics=wanted, timeout=30_000)

    script.note("ACLs without an authorizer")
    of_all = {"operation": 3, "permission_type": 3}
    acl = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
    } | of_all
    any_of = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"), None)
    wanted_acl: Fields = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    } | any_of
    script.each("describe_acls", "all", since=1, **wanted_acl)
    script.each("create_acls", "one", since=1, creations=[acl])
    script.each("create_acls", "none", creations=[])
    script.each("delete_acls", "all", since=1, filters=[wanted_acl])
    script.each("delete_acls", "none", filters=[])
