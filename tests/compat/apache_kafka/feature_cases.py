"""kafka-features.sh and kafka-metadata-quorum.sh of the newest Kafka, and a Kafka 3.9 among brokers with features."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from highwater.broker.features import SERVED, TRANSACTION_VERSION
from highwater.broker.topics.internal_topic import TRANSACTIONS_TOPIC, partition_of
from tests.broker.handlers.harness import decode_answer, request_frame
from tests.broker.made_up_features import COMMAND
from tests.broker.running import RunningBroker
from tests.broker.txn.wire_producer import WireProducer
from tests.compat.apache_kafka.case import case
from tests.compat.apache_kafka.cluster_cases import (
    cluster_case,
    cluster_of,
    consume,
    preferred_election,
    state,
    topics,
)
from tests.compat.apache_kafka.connection import Connection
from tests.compat.apache_kafka.tools import jars_4, kafka_tool, started_tool
from tests.drills.cluster.systems import Cluster
from tests.waiting import wait_until

_ROW = re.compile(
    r"Feature: (\S+)\s+SupportedMinVersion: (\d+)\s+SupportedMaxVersion: (\d+)\s+"
    r"FinalizedVersionLevel: (\d+)\s+Epoch: (\S+)"
)


def _tool(address: str, tool: str, *arguments: str) -> tuple[int, str]:
    done = kafka_tool(f"org.apache.kafka.tools.{tool}", "--bootstrap-server", address, *arguments, jars=jars_4())
    return done.returncode, done.stdout + done.stderr


def _features(address: str, *arguments: str) -> str:
    code, printed = _tool(address, "FeatureCommand", *arguments)
    assert code == 0, printed
    return printed


def _refused(address: str, *arguments: str) -> str:
    code, printed = _tool(address, "FeatureCommand", *arguments)
    assert code == 1, printed
    return printed


def _described(address: str) -> dict[str, tuple[int, int, int, str]]:
    """The least and the greatest level, the finalised one, and the epoch, of each feature."""
    rows = _ROW.findall(_features(address, "describe"))
    return {name: (int(least), int(most), int(level), epoch) for name, least, most, level, epoch in rows}


@case
def newest_features_are_those_that_are_served(broker: RunningBroker) -> None:
    described = _described(broker.address)
    assert {name: row[:2] for name, row in described.items()} == dict(SERVED)
    assert all(most == level for _, most, level, _ in described.values()), "a new directory has all levels"
    for name in ("transaction.version", "group.version", "share.version", "streams.version", "no.such"):
        beyond = SERVED[name].max_level + 1 if name in SERVED else 2
        printed = _refused(broker.address, "upgrade", "--feature", f"{name}={beyond}")
        assert f"Could not upgrade {name} to {beyond}." in printed, printed
        assert f"Invalid update version {beyond} for feature {name}. This broker " in printed, printed
    printed = _refused(broker.address, "upgrade", "--feature", "metadata.version=20")
    assert "kept by ZooKeeper or by a file, not by a quorum" in printed, printed
    assert _described(broker.address) == described


@case
def newest_features_go_up_and_down(broker: RunningBroker) -> None:
    directory = broker.log_dir.with_name("coloured")
    address, epoch = "", 0
    for life, level in ((1, 2), (2, 1)):
        coloured = RunningBroker(directory, "--port", "0", command=(*COMMAND, "broker", "start"))
        try:
            address = coloured.address
            described = _described(address)["colour"]
            assert described[:3] == (0, 2, level)
            assert int(described[3]) >= epoch > 0 or life == 1
            assert "colour can be upgraded to 2." in _features(address, "upgrade", "--dry-run", "--feature", "colour=2")
            assert "colour was downgraded to 1." in _features(address, "downgrade", "--feature", "colour=1")
            assert "colour was disabled." in _features(address, "disable", "--feature", "colour")
            assert "only supports versions 0-2." in _refused(address, "upgrade", "--feature", "colour=3")
            assert "colour was upgraded to 2." in _features(address, "upgrade", "--feature", "colour=2")
            assert "without setting the upgrade type" in _refused(address, "upgrade", "--feature", "colour=1")
            _features(address, "downgrade", "--feature", "colour=1")
            after = _described(address)["colour"]
            assert after[2] == 1
            assert int(after[3]) > int(described[3])
            epoch = int(after[3])
            assert coloured.stop() == 0
        finally:
            coloured.kill()


@case
def newest_metadata_quorum_says_that_there_is_none(broker: RunningBroker) -> None:
    for arguments in (("--status",), ("--replication",)):
        code, printed = _tool(broker.address, "MetadataQuorumCommand", "describe", *arguments)
        assert code == 1, printed
        assert "The node does not support DESCRIBE_QUORUM" in printed, printed


def _told(port: int) -> tuple[int, dict[str, int]]:
    """The epoch and the finalised levels that one broker reports; only that of colour."""
    connection = Connection(port)
    try:
        asked = request_frame("api_versions", 4, client_software_name="a", client_software_version="1")
        answer = decode_answer("api_versions", 4, [connection.exchange(asked)])
    finally:
        connection.close()
    levels = {each.name: each.max_version_level for each in answer.finalized_features if each.name == "colour"}
    return answer.finalized_features_epoch, levels


@cluster_case
def a_kafka_3_9_takes_features_back(directory: Path) -> None:
    with cluster_of(directory, ("coloured", "coloured", "kafka")) as cluster:
        host, port = cluster.brokers[1].address
        address = f"{host}:{port}"

        def stored() -> Any:
            return json.loads(cluster.zookeeper.get("/highwater/features")[0])

        def is_level(level: int) -> bool:
            """Kafka's tool asks any broker of a cluster, so it is not asked here."""
            told = [_told(cluster.brokers[broker_id].address[1]) for broker_id in (1, 2)]
            return told == [(stored()["epoch"], {"colour": level} if level else {})] * 2

        wait_until(partial(is_level, 0), "the level is taken back")
        logs = [broker.log.read_text(errors="replace") for broker in cluster.brokers.values()]
        assert sum("broker 3 does not support level 2 of the feature colour" in log for log in logs) == 1
        first = stored()["epoch"]
        printed = _refused(address, "upgrade", "--feature", "colour=2")
        assert "Broker 3 does not support this feature." in printed, printed
        cluster.brokers[3].stop()
        _features(address, "upgrade", "--feature", "colour=2")
        wait_until(partial(is_level, 2), "the level is finalised")
        second = stored()["epoch"]
        cluster.start(cluster.brokers[3])
        wait_until(partial(is_level, 0), "the level is taken back again")
        assert first < second < stored()["epoch"]
        assert json.loads(cluster.zookeeper.get("/feature")[0])["features"] == {}
        topics(cluster, "--create", "--topic", "t", "--replica-assignment", "3:1:2")
        assert cluster.brokers[3].is_running


@cluster_case
def a_kafka_3_9_joins_among_transactions(directory: Path) -> None:
    """A client of Kafka 4 goes on with its transactions, though they are of version 2 before, and of version 1 then."""
    records = 6000
    with cluster_of(directory, ("highwater", "highwater", "kafka")) as cluster:
        topics(cluster, "--create", "--topic", "t", "--replica-assignment", "3:1:2,1:2:3,2:3:1")
        host, port = cluster.brokers[1].address
        address = f"{host}:{port}"
        name = _transactional_id_of(cluster, address, 3)
        cluster.brokers[3].stop()
        _features(address, "upgrade", "--feature", f"{TRANSACTION_VERSION}=2")

        def level() -> int:
            stored = json.loads(cluster.zookeeper.get("/highwater/features")[0])
            return int(stored["levels"].get(TRANSACTION_VERSION, 0))

        def epoch() -> int:
            described = _tool(address, "TransactionsCommand", "describe", "--transactional-id", name)[1]
            row = described.splitlines()[-1].split()
            return int(row[3]) if "ProducerEpoch" in described else -1

        assert level() == 2
        with started_tool(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", str(records), "--throughput",
            "100", "--payload-monotonic", "--transactional-id", name, "--transaction-duration-ms", "20",
            "--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", "linger.ms=0", jars=jars_4(),
        ) as tool:  # fmt: skip
            wait_until(lambda: tool.poll() is not None or epoch() > 5, "each transaction has an epoch")
            cluster.start(cluster.brokers[3])
            wait_until(lambda: level() == 0, "the level is taken back")
            wait_until(lambda: _is_in_sync(cluster, 3), "broker 3 is in sync")
            preferred_election(cluster)
            assert state(cluster, "t", 0)[0] == 3
            assert tool.poll() is None, tool.communicate()
            printed, _ = tool.communicate(timeout=120)
        assert tool.returncode == 0, printed
        assert f"{records} records sent" in printed, printed
        read = consume(cluster, "t", records, "--isolation-level", "read_committed")
        assert sorted(map(int, read)) == list(range(records)), printed


def _transactional_id_of(cluster: Cluster, address: str, broker_id: int) -> str:
    """One that this broker coordinates, whenever it leads what it is to lead."""
    first = WireProducer(address, "first", version=1)
    first.init()
    first.close()
    assigned = json.loads(cluster.zookeeper.get(f"/brokers/topics/{TRANSACTIONS_TOPIC}")[0])["partitions"]
    names = (f"x-{number}" for number in range(1000))
    return next(name for name in names if assigned[str(partition_of(name, len(assigned)))][0] == broker_id)


def _is_in_sync(cluster: Cluster, broker_id: int) -> bool:
    """For all partitions that a client of transactions writes to or asks."""
    places = [("t", number) for number in range(3)] + [(TRANSACTIONS_TOPIC, number) for number in range(6)]
    return all(broker_id in state(cluster, *place)[1] for place in places)
