"""Apache Kafka's tools on three brokers of ours, and clusters in which a broker of Kafka 3.9 stands among ours."""

from __future__ import annotations

import difflib
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import decode_answer, request_frame
from tests.compat.apache_kafka.case import CODECS, succeed
from tests.compat.apache_kafka.connection import Connection
from tests.compat.apache_kafka.tools import kafka_tool, started_tool
from tests.compat.apache_kafka.znodes import GOLDEN, tell
from tests.drills.cluster.network import Loopback
from tests.drills.cluster.systems import BrokerServer, Cluster
from tests.waiting import wait_until

CLUSTER_CASES: Final[dict[str, Callable[[Path], None]]] = {}
"""Each is given a directory, and makes the clusters that it needs."""
OURS: Final = ("highwater",) * 3


def cluster_case(check: Callable[[Path], None]) -> Callable[[Path], None]:
    CLUSTER_CASES[check.__name__.replace("_", "-")] = check
    return check


def cluster_of(
    directory: Path, systems: Sequence[str] = OURS, *, has_inside_listener: bool = False, **properties: str
) -> Cluster:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    settings.setdefault("log.segment.delete.delay.ms", "1000")
    return Cluster(systems, directory, Loopback(), properties=settings, one_by_one=True,
                   has_inside_listener=has_inside_listener)  # fmt: skip


def topics(cluster: Cluster, *arguments: str) -> str:
    return succeed("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", living(cluster), *arguments)


def living(cluster: Cluster) -> str:
    return ",".join(f"{b.address[0]}:{b.address[1]}" for b in cluster.brokers.values() if b.is_running)


def produce(cluster: Cluster, topic: str, lines: Sequence[str], *options: str) -> None:
    succeed("kafka.tools.ConsoleProducer", "--bootstrap-server", living(cluster), "--topic", topic, *options,
            "--producer-property", "acks=all", stdin="".join(f"{line}\n" for line in lines))  # fmt: skip


def consume(cluster: Cluster, topic: str, count: int, *options: str) -> list[str]:
    return succeed("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", living(cluster), "--topic",
                   topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000",
                   *options).splitlines()  # fmt: skip


def state(cluster: Cluster, topic: str, partition: int = 0) -> tuple[int, tuple[int, ...]]:
    """Leader and in-sync replicas."""
    found = cluster.partition_state(topic, partition)
    assert found is not None, f"{topic}-{partition} has no state"
    return found.leader, tuple(sorted(found.in_sync_replicas))


def preferred_election(cluster: Cluster) -> str:
    return succeed("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", living(cluster),
                   "--election-type", "preferred", "--all-topic-partitions")  # fmt: skip


@cluster_case
def znodes_are_kafkas(directory: Path) -> None:
    with cluster_of(directory) as cluster:
        ours = tell(cluster).splitlines()
    kafkas = GOLDEN.read_text("utf-8").splitlines()
    different = list(difflib.unified_diff(kafkas, ours, "kafka", "ours", lineterm="", n=0))
    assert not different, "\n".join(different[:40])


@cluster_case
def topics_describes_what_lacks_replicas(directory: Path) -> None:
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "spread", "--partitions", "6", "--replication-factor", "3")
        described = topics(cluster, "--describe", "--topic", "spread")
        assert len(re.findall(r"Partition: \d+\tLeader: [123]\tReplicas: [123,]{5}\tIsr: [123,]{5}", described)) == 6
        assert topics(cluster, "--describe", "--under-replicated-partitions") == ""
        cluster.brokers[3].stop()
        wait_until(
            lambda: topics(cluster, "--describe", "--under-replicated-partitions").count("Partition: ") == 6,
            "six partitions are told to lack a replica",
        )
        assert topics(cluster, "--describe", "--unavailable-partitions") == ""
        cluster.start(cluster.brokers[3])
        wait_until(lambda: topics(cluster, "--describe", "--under-replicated-partitions") == "", "all are whole again")


@cluster_case
def leader_election_brings_leaders_back(directory: Path) -> None:
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "led", "--replica-assignment", "3:1:2")
        wait_until(lambda: state(cluster, "led") == (3, (1, 2, 3)), "broker 3 leads")
        cluster.brokers[3].stop()
        assert state(cluster, "led") == (1, (1, 2))
        cluster.start(cluster.brokers[3])
        wait_until(lambda: state(cluster, "led") == (1, (1, 2, 3)), "broker 3 is in sync again")
        preferred_election(cluster)
        wait_until(lambda: state(cluster, "led") == (3, (1, 2, 3)), "broker 3 leads again")


@cluster_case
def partitions_are_reassigned_with_a_throttle(directory: Path) -> None:
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "moved", "--replica-assignment", "1:2")
        lines = [f"{number} {'x' * 1000}" for number in range(2000)]
        produce(cluster, "moved", lines)
        plan = directory / "plan.json"
        replicas = [{"topic": "moved", "partition": 0, "replicas": [3, 2]}]
        plan.write_text(json.dumps({"version": 1, "partitions": replicas}))
        tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        arguments = ("--bootstrap-server", living(cluster), "--reassignment-json-file", str(plan))
        began_s = time.monotonic()
        succeed(tool, *arguments, "--execute", "--throttle", "500000")
        wait_until(lambda: "is completed" in succeed(tool, *arguments, "--verify"), "the reassignment is completed")
        assert time.monotonic() - began_s > 2, "two megabytes came faster than half a megabyte a second"
        wait_until(lambda: state(cluster, "moved") == (3, (2, 3)), "broker 3 leads")
        assert consume(cluster, "moved", len(lines)) == lines
        assert "throttled" not in topics(cluster, "--describe", "--topic", "moved")


def refused(cluster: Cluster, main_class: str, *arguments: str) -> str:
    """What a tool prints of a wish that the cluster does not grant; some say so and exit with 0."""
    done = kafka_tool(main_class, "--bootstrap-server", living(cluster), *arguments)
    return done.stdout + done.stderr


@cluster_case
def topics_are_made_grown_and_deleted(directory: Path) -> None:
    tool = "org.apache.kafka.tools.TopicCommand"
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "made", "--partitions", "2", "--replication-factor", "3")
        topics(cluster, "--alter", "--topic", "made", "--partitions", "6")
        described = topics(cluster, "--describe", "--topic", "made")
        assert sorted(re.findall(r"Leader: (\d)", described)) == ["1", "1", "2", "2", "3", "3"], described
        for arguments, error in (
            (("--create", "--topic", "large", "--partitions", "1", "--replication-factor", "4"),
             "Replication factor: 4 larger than available brokers: 3"),
            (("--create", "--topic", "made", "--partitions", "1", "--replication-factor", "1"), "already exists"),
            (("--create", "--topic", "ma.de", "--config", "no.such=1"), "no.such"),
            (("--alter", "--topic", "made", "--partitions", "6"), "already has 6 partitions"),
            (("--alter", "--topic", "made", "--partitions", "7", "--replica-assignment", "1:2,1:2,1:2,1:2,1:2,1:2,1:9"),
             "Unknown broker(s) in replica assignment: 9"),
        ):  # fmt: skip
            assert error in refused(cluster, tool, *arguments), arguments
        cluster.brokers[2].stop()
        topics(cluster, "--delete", "--topic", "made")
        assert topics(cluster, "--list").split() == []
        assert "marked for deletion" in refused(cluster, tool, "--create", "--topic", "made")
        cluster.start(cluster.brokers[2])
        wait_until(partial(_has_no_logs, cluster, "made"), "the logs are gone")
        topics(cluster, "--create", "--topic", "made")


@cluster_case
def reassignments_are_refused_listed_and_called_off(directory: Path) -> None:
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "moved", "--replica-assignment", "1:2")
        produce(cluster, "moved", [f"{number} {'x' * 1000}" for number in range(2000)])
        plan = directory / "plan.json"

        def reassign(replicas: Sequence[int], *options: str) -> str:
            wanted = [{"topic": "moved", "partition": 0, "replicas": list(replicas)}]
            plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
            return refused(cluster, tool, "--reassignment-json-file", str(plan), *options)

        assert "Unknown broker id 9" in reassign([9, 2], "--execute")
        assert "Successfully started" in reassign([3, 2], "--execute", "--throttle", "1000")
        assert "adding: 3." in refused(cluster, tool, "--list")
        assert "Adding Replicas: 3" in topics(cluster, "--describe", "--topic", "moved")
        assert "still in progress" in reassign([3, 2], "--verify")
        assert "Successfully cancelled" in reassign([3, 2], "--cancel")
        assert "No partition reassignments found" in refused(cluster, tool, "--list")
        wait_until(lambda: state(cluster, "moved") == (1, (1, 2)), "all is as before")
        wait_until(lambda: not any(cluster.brokers[3].log_dir.glob("moved-0")), "nothing is left of it")
        assert "throttled" not in topics(cluster, "--describe", "--topic", "moved")


@cluster_case
def unclean_elections_take_who_is_there(directory: Path) -> None:
    tool = "org.apache.kafka.tools.LeaderElectionCommand"
    one = ("--topic", "torn", "--partition", "0")
    with cluster_of(directory, min_insync_replicas="1") as cluster:
        topics(cluster, "--create", "--topic", "torn", "--replica-assignment", "2:3")
        wait_until(lambda: state(cluster, "torn") == (2, (2, 3)), "broker 2 leads")
        cluster.brokers[3].kill()
        wait_until(lambda: state(cluster, "torn") == (2, (2,)), "broker 2 is alone")
        cluster.brokers[2].kill()
        wait_until(lambda: state(cluster, "torn") == (-1, (2,)), "nobody leads")
        cluster.start(cluster.brokers[3])
        printed = refused(cluster, tool, "--election-type", "preferred", *one)
        assert "PreferredLeaderNotAvailable" in printed, printed
        succeed(tool, "--bootstrap-server", living(cluster), "--election-type", "unclean", *one)
        wait_until(lambda: state(cluster, "torn") == (3, (3,)), "broker 3 leads")
        produce(cluster, "torn", ["after"])
        cluster.start(cluster.brokers[2])
        wait_until(lambda: state(cluster, "torn") == (3, (2, 3)), "broker 2 follows")


@cluster_case
def groups_move_with_their_coordinator(directory: Path) -> None:
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "read", "--partitions", "3", "--replication-factor", "3")
        lines = [str(number) for number in range(300)]
        produce(cluster, "read", lines)
        assert sorted(consume(cluster, "read", 300, "--group", "readers")) == sorted(lines)
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

        def described(*options: str) -> str:
            return succeed(tool, "--bootstrap-server", living(cluster), "--describe", "--group", "readers", *options)

        coordinator = re.search(r"\((\d)\)", described("--state"))
        assert coordinator is not None, described("--state")
        before = re.findall(r"read\s+(\d)\s+(\d+)\s+(\d+)", described())
        cluster.brokers[int(coordinator[1])].kill()
        wait_until(lambda: re.findall(r"read\s+(\d)\s+(\d+)\s+(\d+)", described()) == before, "another tells the same")
        assert len(before) == 3


@cluster_case
def replica_verification_finds_nothing(directory: Path) -> None:
    with cluster_of(directory) as cluster:
        topics(cluster, "--create", "--topic", "same", "--partitions", "3", "--replication-factor", "3")
        for codec in CODECS:
            produce(cluster, "same", [f"{codec} {number}" for number in range(200)], "--compression-codec", codec)
        tool = "org.apache.kafka.tools.ReplicaVerificationTool"
        arguments = ("--bootstrap-server", living(cluster), "--topics-include", "same", "--report-interval-ms", "1000")
        told: list[str] = []
        with started_tool(tool, *arguments) as process:
            assert process.stdout is not None
            reader = threading.Thread(target=lambda: told.extend(process.stdout or ()), daemon=True)
            reader.start()
            wait_until(lambda: sum("max lag is" in line for line in told) >= 3, "the tool has looked three times")
        lags = re.findall(r"max lag is (\d+) for partition \S+ at offset \d+ among 3 partitions", "".join(told))
        assert lags, told[-5:]
        assert set(lags) == {"0"}, told[-5:]
        assert not any("differ" in line.lower() or "exception" in line.lower() for line in told), told[-5:]


def _led_and_followed_by_all(cluster: Cluster, topic: str) -> None:
    """Every broker leads a partition, and whoever is the controller makes it and moves it."""
    topics(cluster, "--create", "--topic", topic, "--replica-assignment", "1:2:3,2:3:1,3:1:2")
    lines = [f"{topic} {number}" for number in range(300)]
    produce(cluster, topic, lines)
    for number in range(3):
        leader, replicas = state(cluster, topic, number)
        assert (leader, replicas) == (number + 1, (1, 2, 3))
    assert sorted(consume(cluster, topic, 300)) == sorted(lines)


def _bounce(cluster: Cluster, broker: BrokerServer, topic: str) -> None:
    """It gives its partition away when it stops, what is written meanwhile it fetches, and it leads again."""
    partition = broker.broker_id - 1
    broker.stop()
    leader, replicas = state(cluster, topic, partition)
    assert leader not in (-1, broker.broker_id)
    assert len(replicas) == 2
    produce(cluster, topic, [f"{topic} without {broker.broker_id}"] * 30)
    cluster.start(broker)
    for number in range(3):
        wait_until(partial(_is_whole, cluster, topic, number), f"{topic}-{number} is whole")
    preferred_election(cluster)
    wait_until(lambda: state(cluster, topic, partition)[0] == broker.broker_id, f"broker {broker.broker_id} leads")


@cluster_case
def kafkas_broker_among_ours(directory: Path) -> None:
    """Each in turn is the controller, and every other is stopped and started under it."""
    systems = ("kafka", "highwater", "highwater")
    with cluster_of(directory, systems, inter_broker_protocol_version="3.9") as cluster:
        for turn in range(3):
            controller = cluster.controller_id()
            topic = f"under-{controller}-{turn}"
            _led_and_followed_by_all(cluster, topic)
            for broker in cluster.brokers.values():
                if broker.broker_id != controller:
                    _bounce(cluster, broker, topic)
            held = sorted(consume(cluster, topic, 360))
            assert held == sorted(
                [f"{topic} {number}" for number in range(300)]
                + [f"{topic} without {b}" for b in cluster.brokers if b != controller] * 30
            )
            topics(cluster, "--delete", "--topic", topic)
            wait_until(partial(_has_no_logs, cluster, topic), f"the logs of {topic} are gone")
            deposed = cluster.brokers[controller or 0]
            deposed.stop()
            wait_until(partial(_has_controller_but, cluster, controller), "another is the controller")
            cluster.start(deposed)


@cluster_case
def brokers_have_a_listener_of_their_own(directory: Path) -> None:
    """Kafka's broker and ours reach each other by it, under each kind of controller; clients reach nothing of it."""
    systems = ("kafka", "highwater", "highwater")
    with cluster_of(directory, systems, has_inside_listener=True, inter_broker_protocol_version="3.9") as cluster:
        for turn in range(2):
            controller = cluster.controller_id()
            _led_and_followed_by_all(cluster, f"under-{controller}-{turn}")
            for broker_id in (2, 3):
                frame = request_frame("alter_partition", 2, broker_id=1, broker_epoch=1, topics=[])
                connection = Connection(cluster.brokers[broker_id].address[1])
                answer = decode_answer("alter_partition", 2, [connection.exchange(frame)])
                connection.close()
                assert answer.error_code is ErrorCode.cluster_authorization_failed
            deposed = cluster.brokers[controller or 0]
            deposed.stop()
            wait_until(partial(_has_controller_but, cluster, controller), "another is the controller")
            cluster.start(deposed)
            for number in range(3):
                whole = partial(_is_whole, cluster, f"under-{controller}-{turn}", number)
                wait_until(whole, f"partition {number} is whole")


def _is_whole(cluster: Cluster, topic: str, partition: int) -> bool:
    return state(cluster, topic, partition)[1] == (1, 2, 3)


def _has_controller_but(cluster: Cluster, broker_id: int | None) -> bool:
    return cluster.controller_id() not in (None, broker_id)


def _has_no_logs(cluster: Cluster, topic: str) -> bool:
    return not any(any(broker.log_dir.glob(f"{topic}-*")) for broker in cluster.brokers.values())
