"""What stands in ZooKeeper while three brokers are administered with Apache Kafka's own tools, as text to compare.

    .venv/bin/python -m tests.compat.apache_kafka.znodes            Kafka 3.9's, into tests/golden/kafka-3.9-znodes.txt
    .venv/bin/python -m tests.compat.apache_kafka.znodes --differ   where ours differs: - is Kafka's line, + ours

After every step of the story it is told what is new or changed: path, version of the node (where somebody relies on
it), data. What differs from one run to the next is told by a name: clocks, the cluster's id, ids of topics, ports.
Left out are the levels of features, which Kafka 3.9 does not have: our own znode, and what registrations support.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kazoo.exceptions import NoNodeError

from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.tools import close_hosts
from tests.drills.cluster.network import Loopback
from tests.drills.cluster.systems import Cluster
from tests.waiting import wait_until

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka-3.9-znodes.txt"
_QUIET_S: Final = 1.0
_QUIET_WITHIN_S: Final = 60.0
_VERSIONED: Final = re.compile(r"/state$|^/controller_epoch$|^/brokers/seqid$")
_LEFT_OUT: Final = ("/zookeeper", "/highwater")
"""Trees of ZooKeeper itself, and of our features."""
_FEATURES: Final = re.compile(r'"features":{"transaction\.version":{[^{}]*}}')
_TIMES: Final = re.compile(r'"timestamp":"\d+"')
_SALTED: Final = re.compile(r"(salt|stored_key|server_key)=[^,\"]+")

Step = Callable[[Cluster], None]


def tell(cluster: Cluster) -> str:
    """The whole story; the cluster is as it came up."""
    lines: list[str] = []
    before: list[str] = []
    for step in (_start, *STEPS):
        step(cluster)
        tree = _settled_tree(cluster)
        there = {_path(line) for line in tree}
        lines += ["", f"# {step.__doc__}", *(line for line in tree if line not in before)]
        lines += [f"{_path(line)} is gone" for line in before if _path(line) not in there]
        before = tree
    return "\n".join(lines[1:]) + "\n"


def _path(line: str) -> str:
    return line.partition(" ")[0]


def _start(_: Cluster) -> None:
    """three brokers have started"""


def _create(cluster: Cluster) -> None:
    """a topic is created with replicas named, and two settings"""
    _topics(cluster, "--create", "--topic", "named", "--replica-assignment", "1:2:3,2:3:1,3:1:2",
            "--config", "min.insync.replicas=2", "--config", "max.message.bytes=2000000")  # fmt: skip


def _grow(cluster: Cluster) -> None:
    """it gets a fourth partition"""
    _topics(
        cluster, "--alter", "--topic", "named", "--partitions", "4", "--replica-assignment", "1:2:3,2:3:1,3:1:2,1:3:2"
    )


def _alter_topic(cluster: Cluster) -> None:
    """one of its settings is changed, one is taken away"""
    _configs(cluster, "--entity-type", "topics", "--entity-name", "named", "--alter",
             "--add-config", "retention.ms=3600000", "--delete-config", "max.message.bytes")  # fmt: skip


def _alter_brokers(cluster: Cluster) -> None:
    """a setting of one broker, and one of all"""
    _configs(
        cluster,
        "--entity-type",
        "brokers",
        "--entity-name",
        "2",
        "--alter",
        "--add-config",
        "log.segment.bytes=1000000",
    )
    _configs(cluster, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "log.roll.ms=3600000")


def _limit(cluster: Cluster) -> None:
    """quotas of a user, of a client, of both together, of all clients"""
    limit = ("--alter", "--add-config", "producer_byte_rate=1000000,consumer_byte_rate=2000000")
    _configs(cluster, "--entity-type", "users", "--entity-name", "ann a", *limit)
    _configs(cluster, "--entity-type", "clients", "--entity-name", "app", *limit)
    _configs(
        cluster,
        "--entity-type",
        "users",
        "--entity-name",
        "bo",
        "--entity-type",
        "clients",
        "--entity-name",
        "app",
        *limit,
    )
    _configs(cluster, "--entity-type", "clients", "--entity-default", *limit)


def _credential(cluster: Cluster) -> None:
    """a SCRAM credential"""
    _configs(cluster, "--entity-type", "users", "--entity-name", "carl", "--alter",
             "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")  # fmt: skip


def _produce(cluster: Cluster) -> None:
    """an idempotent producer writes"""
    succeed("kafka.tools.ConsoleProducer", "--bootstrap-server", cluster.bootstrap_servers, "--topic", "named",
            stdin="one\ntwo\n")  # fmt: skip


def _reassign(cluster: Cluster) -> None:
    """a partition is moved to replicas in another order, another loses one"""
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "named", "partition": 0, "replicas": [3, 2, 1]},
            {"topic": "named", "partition": 1, "replicas": [2, 3]},
        ],
    }
    file = cluster.directory / "plan.json"
    file.write_text(json.dumps(plan))
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    arguments = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(file))
    succeed(tool, *arguments, "--execute")
    # The tool's own way to find out changes settings of all brokers, in an order that it leaves to chance.
    wait_until(lambda: _is_at_rest(cluster, "named"), "the reassignment ends")


def _is_at_rest(cluster: Cluster, topic: str) -> bool:
    value = json.loads(cluster.zookeeper.get(f"/brokers/topics/{topic}")[0])
    return not value["adding_replicas"] and not value["removing_replicas"]


def _elect(cluster: Cluster) -> None:
    """the preferred leaders are elected"""
    succeed("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", cluster.bootstrap_servers,
            "--election-type", "preferred", "--all-topic-partitions")  # fmt: skip


def _stop_one(cluster: Cluster) -> None:
    """broker 3 is stopped"""
    cluster.brokers[3].stop()


def _start_it(cluster: Cluster) -> None:
    """and started"""
    cluster.start(cluster.brokers[3])
    wait_until(lambda: _is_in_sync(cluster, "named"), "every replica is in sync")


def _is_in_sync(cluster: Cluster, topic: str) -> bool:
    assigned = json.loads(cluster.zookeeper.get(f"/brokers/topics/{topic}")[0])["partitions"]
    states = {number: cluster.partition_state(topic, int(number)) for number in assigned}
    return all(state and set(state.in_sync_replicas) == set(assigned[number]) for number, state in states.items())


def _delete(cluster: Cluster) -> None:
    """the topic is deleted"""
    _topics(cluster, "--delete", "--topic", "named")


def _stop_controller(cluster: Cluster) -> None:
    """broker 3 is stopped, then the controller"""
    cluster.brokers[3].stop()
    cluster.brokers[cluster.controller_id() or 0].stop()


STEPS: Final[tuple[Step, ...]] = (
    _create, _grow, _alter_topic, _alter_brokers, _limit, _credential, _produce, _reassign, _elect, _stop_one,
    _start_it, _delete, _stop_controller,
)  # fmt: skip


def _topics(cluster: Cluster, *arguments: str) -> None:
    succeed("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)


def _configs(cluster: Cluster, *arguments: str) -> None:
    succeed("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)


def _settled_tree(cluster: Cluster) -> list[str]:
    """As it is once nothing has changed for a while."""
    deadline_s = time.monotonic() + _QUIET_WITHIN_S
    tree = _tree(cluster)
    unchanged_since_s = time.monotonic()
    while time.monotonic() - unchanged_since_s < _QUIET_S:
        assert time.monotonic() < deadline_s, "ZooKeeper does not come to rest"
        time.sleep(0.1)
        now = _tree(cluster)
        if now != tree:
            tree, unchanged_since_s = now, time.monotonic()
    return tree


def _tree(cluster: Cluster) -> list[str]:
    names: dict[str, str] = {}
    for broker in cluster.brokers.values():
        names[str(broker.address[1])] = f"PORT{broker.broker_id}"
    lines: list[str] = []

    def visit(path: str) -> None:
        try:
            data, stat = cluster.zookeeper.get(path or "/")
            children = sorted(cluster.zookeeper.get_children(path or "/"))
        except NoNodeError:
            return  # it went between its parent's answer and its own
        kind = " ephemeral" if stat.ephemeralOwner else ""
        version = f" version {stat.version}" if _VERSIONED.search(path) else ""
        lines.append(f"{path or '/'}{kind}{version} {_masked(data, path, names)}".rstrip())
        for child in children:
            if (below := f"{path}/{child}") not in _LEFT_OUT:
                visit(below)

    visit("")
    return lines


def _masked(data: bytes | None, path: str, ports: dict[str, str]) -> str:
    text = "null" if data is None else data.decode()
    text = _SALTED.sub(r"\1=SECRET", _TIMES.sub('"timestamp":"TIME"', text))
    text = re.sub(r'"topic_id":"[\w-]{22}"', '"topic_id":"ID"', text)
    if path == "/latest_producer_id_block":
        # Whom a producer asks is its own choice, and it may ask another when the first has none at hand.
        text = re.sub(r'"broker":\d', '"broker":ANY', text)
        text = re.sub(r'"block_(start|end)":"\d+"', r'"block_\1":"ANY"', text)
    if path.startswith("/brokers/ids/"):
        text = _FEATURES.sub('"features":{}', text)
    if path == "/cluster/id":
        text = re.sub(r'"id":"[\w-]{22}"', '"id":"ID"', text)
    for port, name in ports.items():
        text = re.sub(rf"\b{port}\b", name, text)
    return text


def told_by(system: str) -> str:
    with (
        tempfile.TemporaryDirectory() as name,
        Cluster([system] * 3, Path(name), Loopback(), one_by_one=True) as cluster,
    ):
        return tell(cluster)


def main(arguments: list[str]) -> None:
    if arguments != ["--differ"]:
        GOLDEN.write_text(told_by("kafka"), "utf-8")
        return
    kafkas, ours = GOLDEN.read_text("utf-8").splitlines(), told_by("highwater").splitlines()
    different = difflib.unified_diff(kafkas, ours, "kafka", "ours", lineterm="", n=0)
    sys.stdout.writelines(f"{line}\n" for line in different)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        close_hosts()
