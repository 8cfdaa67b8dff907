"""Metrics of a broker in a cluster: its replicas, the controller, the connection to ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.broker.controller.context import ControllerContext
from highwater.broker.controller.controller import Controller
from highwater.broker.counters import ZooKeeperCounters
from highwater.broker.member.parts import ClusterParts
from highwater.broker.member.replica_manager import ReplicaManager
from highwater.broker.metrics.exposition import NO_LABELS, family, histogram_family
from highwater.broker.node import Node

_REPLICA_MANAGER = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"


def cluster_page(node: Node, member: ClusterParts) -> Iterator[str]:
    """Yield the metrics that only a broker in a cluster has."""
    yield _replicas(node)
    yield _fetchers(member.replicas)
    yield _controller(member.controller)


def _gauges(prefix: str, gauges: tuple[tuple[str, float, str], ...]) -> str:
    return "".join(family(prefix + name, "gauge", help_text, [(NO_LABELS, value)]) for name, value, help_text in gauges)


def _counters(prefix: str, counters: tuple[tuple[str, float, str], ...]) -> str:
    return "".join(
        family(f"{prefix}{name}_total", "counter", help_text, [(NO_LABELS, value)])
        for name, value, help_text in counters
    )


def _replicas(node: Node) -> str:
    replicas = list(node.partitions.all())
    led = [partition for partition in replicas if partition.is_leader]
    counters = node.counters
    return (
        _gauges(
            _REPLICA_MANAGER,
            (
                (
                    "underminisrpartitioncount",
                    sum(len(partition.in_sync_replicas) < partition.min_in_sync_replicas for partition in led),
                    "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas.",
                ),
                (
                    "atminisrpartitioncount",
                    sum(len(partition.in_sync_replicas) == partition.min_in_sync_replicas for partition in led),
                    "Partitions led by this broker with exactly min.insync.replicas in-sync replicas.",
                ),
                (
                    "offlinereplicacount",
                    sum(partition.has_failed for partition in replicas),
                    "Replicas on this broker that are offline because their log directory failed.",
                ),
                (
                    "reassigningpartitions",
                    sum(bool(partition.adding or partition.removing) for partition in led),
                    "Partitions led by this broker whose replicas are being reassigned.",
                ),
            ),
        )
        + _counters(
            _REPLICA_MANAGER,
            (
                (
                    "isrshrinks",
                    counters.in_sync_shrinks,
                    "ISR shrinks: a follower was removed from the in-sync replicas.",
                ),
                (
                    "isrexpands",
                    counters.in_sync_expands,
                    "ISR expansions: a follower was added to the in-sync replicas.",
                ),
                (
                    "failedisrupdates",
                    counters.in_sync_changes_refused,
                    "Changes of the in-sync replicas that the controller refused.",
                ),
            ),
        )
        + _counters(
            "kafka_server_brokertopicmetrics_",
            (
                (
                    "replicationbytesin",
                    counters.replication_bytes_in,
                    "Bytes of record batches that followers on this broker appended.",
                ),
                (
                    "replicationbytesout",
                    counters.replication_bytes_out,
                    "Bytes of record batches returned to followers.",
                ),
            ),
        )
    )


def _fetchers(replicas: ReplicaManager) -> str:
    lags = [lag for _, _, lag in replicas.fetch_lags()]
    failed = replicas.failed_fetch_count
    return _gauges(
        "kafka_server_replicafetchermanager_",
        (
            (
                "maxlag",
                max(lags, default=0),
                "Largest lag of a follower on this broker, in records below its leader's high watermark.",
            ),
            ("failedpartitionscount", failed, "Replicas on this broker that stopped fetching after an error."),
        ),
    )


def _controller(controller: Controller) -> str:
    told = controller.context or ControllerContext()
    return (
        _gauges(
            _CONTROLLER,
            (
                (
                    "activebrokercount",
                    len(told.live_broker_ids()),
                    "Live brokers; 0 if this broker is not the controller.",
                ),
                (
                    "offlinepartitionscount",
                    told.offline_partition_count(),
                    "Partitions without a leader; 0 if this broker is not the controller.",
                ),
                (
                    "preferredreplicaimbalancecount",
                    told.preferred_replica_imbalance_count(),
                    "Partitions that are not led by their preferred replica (the first one).",
                ),
                ("topicstodeletecount", len(told.topics_to_delete), "Topics whose deletion is not finished."),
            ),
        )
        + _gauges(
            "highwater_controller_",
            (
                (
                    "unreachable_brokers",
                    controller.unreachable_broker_count,
                    "Live brokers that cannot be reached; 0 if this broker is not the controller.",
                ),
            ),
        )
        + _counters(
            "kafka_controller_controllerstats_",
            (
                ("leaderelections", told.election_count, "Leader elections by this controller since it was elected."),
                (
                    "uncleanleaderelections",
                    told.unclean_election_count,
                    "Leader elections of a replica that was not in sync: records may be lost.",
                ),
            ),
        )
    )


def zookeeper_page(counters: ZooKeeperCounters) -> str:
    return (
        _gauges(
            "kafka_server_sessionexpirelistener_",
            (("sessionstate", int(counters.is_connected), "1 if the broker is connected to ZooKeeper, else 0."),),
        )
        + _counters(
            "kafka_server_sessionexpirelistener_",
            (
                ("zookeeperdisconnects", counters.disconnects, "Lost connections to ZooKeeper."),
                ("zookeeperexpires", counters.expirations, "Expired sessions with ZooKeeper."),
            ),
        )
        + histogram_family(
            "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
            "Time from a request to ZooKeeper to its response, including the wait for a connection, in ms.",
            [(NO_LABELS, counters.latency)],
        )
    )
