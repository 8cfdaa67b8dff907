"""Three broker processes on a real ZooKeeper, and a client that others wrote."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kazoo.client import KazooClient
from prometheus_client.parser import text_string_to_metric_families

from highwater.common.ports import free_ports
from tests.broker.running import COMMAND, RunningBroker
from tests.broker.running_cluster import RunningCluster, running_cluster
from tests.reading import read_to_end
from tests.topics import create_topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    properties = (
        "zookeeper.session.timeout.ms=6000",
        "offsets.topic.num.partitions=3",
        "metrics.listener=HTTP://127.0.0.1:0",
    )
    with running_cluster(tmp_path_factory.mktemp("cluster"), properties=properties) as running:
        yield running


@pytest.fixture
def admin(cluster: RunningCluster) -> AdminClient:
    return AdminClient({"log_level": 0, "bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def zookeeper(cluster: RunningCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def create(cluster: RunningCluster, name: str, partitions: int = 3) -> None:
    config = {"min.insync.replicas": "2"}
    create_topics(cluster.bootstrap, [NewTopic(name, num_partitions=partitions, replication_factor=3, config=config)])


def in_sync(admin: AdminClient, topic: str) -> dict[int, tuple[int, set[int]]]:
    """The leader and the in-sync replicas of each partition."""
    partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
    return {index: (partition.leader, set(partition.isrs)) for index, partition in partitions.items()}


class Deliveries:
    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[KafkaError] = []
        self._producer = Producer(
            {"log_level": 0, "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 1}
        )

    def send(self, topic: str, first: int, count: int) -> None:
        """Come back when all are acknowledged."""
        for number in range(first, first + count):
            self._producer.produce(topic, str(number).encode(), key=str(number), on_delivery=self._delivered)
        assert self._producer.flush(60) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.append(value)
        else:
            self.failed.append(error)


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    # Without a group, whose topic one broker alone could not make.
    partitions = len(
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=60).topics[topic].partitions
    )
    return [each.value for each in read_to_end(bootstrap, topic, partitions, at_least=count)]


def test_nothing_acknowledged_is_lost_with_the_leader(cluster: RunningCluster, admin: AdminClient) -> None:
    create(cluster, "kept")
    deliveries = Deliveries(cluster.bootstrap)
    deliveries.send("kept", 0, 1000)
    leader, _ = in_sync(admin, "kept")[0]
    cluster.kill(leader)
    deliveries.send("kept", 1000, 1000)
    wait_until(lambda: all(found != leader for found, _ in in_sync(admin, "kept").values()), "others lead")
    cluster.start(leader)
    wait_until(
        lambda: all(replicas == {1, 2, 3} for _, replicas in in_sync(admin, "kept").values()), "all in sync again"
    )
    # What it missed it has: with the others gone it is the one to be read from.
    for other in sorted({1, 2, 3} - {leader}):
        cluster.kill(other)
    # A client that knows none of those that are gone: librdkafka may wait long for them.
    survivor = AdminClient({"log_level": 0, "bootstrap.servers": f"127.0.0.1:{cluster.ports[leader]}"})
    wait_until(lambda: {found for found, _ in in_sync(survivor, "kept").values()} == {leader}, "it leads all")
    assert deliveries.failed == []
    assert len(deliveries.acknowledged) == 2000
    assert sorted(read_all(cluster.bootstrap, "kept", 2000)) == sorted(deliveries.acknowledged)
    for other in sorted({1, 2, 3} - {leader}):
        cluster.start(other)


def test_settings_reach_every_broker(cluster: RunningCluster, admin: AdminClient, zookeeper: KazooClient) -> None:
    create(cluster, "set", 1)
    entry = ConfigEntry("segment.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "set", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)
    data, _ = zookeeper.get("/config/topics/set")
    assert json.loads(data)["config"] == {"min.insync.replicas": "2", "segment.bytes": "100000"}
    told = "topic set has the settings {'min.insync.replicas': '2', 'segment.bytes': '100000'} now"
    wait_until(lambda: all(told in cluster.log_text(broker_id) for broker_id in (1, 2, 3)), told)


def test_a_broker_that_stops_hands_over_what_it_leads(cluster: RunningCluster, admin: AdminClient) -> None:
    create(cluster, "handed", 6)
    assert cluster.brokers[2].stop() == 0
    assert "the controller has taken over what broker 2 led" in cluster.log_text(2)
    wait_until(lambda: {leader for leader, _ in in_sync(admin, "handed").values()} == {1, 3}, "the others lead")
    cluster.start(2)
    wait_until(lambda: all(len(replicas) == 3 for _, replicas in in_sync(admin, "handed").values()), "in sync again")


def test_a_broker_that_was_killed_need_not_wait_for_its_last_session(cluster: RunningCluster) -> None:
    cluster.kill(3)
    cluster.start(3)
    assert "waiting up to" not in cluster.log_text(3)


def test_a_broker_that_is_not_registered_refuses_connections(
    cluster: RunningCluster, zookeeper: KazooClient, tmp_path: Path
) -> None:
    """It could only say that there are no brokers and no topics, and clients would believe it."""
    zookeeper.create("/brokers/ids/4", b"{}", ephemeral=True)
    (port,) = free_ports(1)
    settings = ("broker.id=4", f"zookeeper.connect={cluster.connect}", f"listeners=PLAINTEXT://127.0.0.1:{port}")
    options = [argument for text in settings for argument in ("--property", text)]
    log = tmp_path / "broker-4.log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen([*COMMAND, "--log-dir", str(tmp_path / "4"), *options], stderr=stderr) as broker,
    ):
        try:
            wait_until(lambda: "waiting up to" in log.read_text(), "it waits for its id")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 5).close()
            zookeeper.delete("/brokers/ids/4")
            found = AdminClient({"log_level": 0, "bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=60)
            assert found.brokers.keys() == {1, 2, 3, 4}
        finally:
            broker.terminate()


def run_broker(directory: Path, *properties: str) -> subprocess.CompletedProcess[str]:
    options = [argument for text in properties for argument in ("--property", text)]
    command = [*COMMAND, "--log-dir", str(directory), "--port", "0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().splitlines()[-1]


def test_the_id_of_a_living_broker_is_refused(cluster: RunningCluster, tmp_path: Path) -> None:
    done = run_broker(
        tmp_path / "other", "broker.id=1", f"zookeeper.connect={cluster.connect}", "zookeeper.session.timeout.ms=1000"
    )
    assert done.returncode == 2
    assert "a broker with the id 1 is registered in ZooKeeper already" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_directory_of_another_cluster_is_refused(cluster: RunningCluster, tmp_path: Path) -> None:
    directory = tmp_path / "other"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=0\nbroker.id=4\ncluster.id=someoneelses\n")
    done = run_broker(directory, "broker.id=4", f"zookeeper.connect={cluster.connect}")
    assert done.returncode != 0
    assert re.search("cluster.id is someoneelses, but this broker's is", last_line(done))


def test_a_log_directory_that_a_broker_used_alone_is_refused(cluster: RunningCluster, tmp_path: Path) -> None:
    directory, member = tmp_path / "fourth", (f"zookeeper.connect={cluster.connect}", "broker.id=4")
    options = [argument for text in member for argument in ("--property", text)]
    assert RunningBroker(directory, "--port", "0", *options).stop() == 0
    assert RunningBroker(directory, "--port", "0", "--property", "broker.id=4").stop() == 0
    done = run_broker(directory, *member)
    assert done.returncode == 2
    assert re.search("fourth was used by a broker that ran alone .*; choose an empty directory", last_line(done))


def test_a_broker_without_an_id_is_given_one(cluster: RunningCluster, tmp_path: Path) -> None:
    options = ("--property", f"zookeeper.connect={cluster.connect}")
    for _ in range(2):
        broker = RunningBroker(tmp_path / "fourth", "--port", "0", *options)
        assert broker.stop() == 0
        assert "broker.id=1001\n" in (tmp_path / "fourth" / "meta.properties").read_text()


def test_no_zookeeper_is_told_in_one_line(tmp_path: Path) -> None:
    done = run_broker(
        tmp_path / "alone", "zookeeper.connect=127.0.0.1:1", "broker.id=1", "zookeeper.connection.timeout.ms=300"
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "zookeeper.connect=127.0.0.1:1: no session within 300 ms" in done.stderr


def sum_of_pages(cluster: RunningCluster) -> dict[str, float]:
    """The metrics without labels, added up over all brokers."""
    found: dict[str, float] = {}
    for broker_id in cluster.brokers:
        url = re.findall(r"metrics at (\S+)", cluster.log_text(broker_id))[-1]
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - it is the broker's own
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    if not sample.labels:
                        found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def test_metrics_of_a_cluster(cluster: RunningCluster, admin: AdminClient) -> None:
    create(cluster, "measured", 3)
    wait_until(lambda: all(len(found) == 3 for _, found in in_sync(admin, "measured").values()), "all are in sync")
    Deliveries(cluster.bootstrap).send("measured", 0, 100)

    def agree() -> bool:
        """The pages are of several moments, and brokers that were started lately hear one by one what they lead."""
        total = sum_of_pages(cluster)
        return (
            total["kafka_controller_kafkacontroller_activecontrollercount"] == 1
            and total["kafka_controller_kafkacontroller_activebrokercount"] == 3
            and total["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
            and total["kafka_server_sessionexpirelistener_sessionstate"] == 3
            and total["kafka_server_replicamanager_partitioncount"]
            == 3 * total["kafka_server_replicamanager_leadercount"]
            and total["kafka_server_brokertopicmetrics_replicationbytesin_total"] > 0
        )

    wait_until(agree, "pages that agree")
