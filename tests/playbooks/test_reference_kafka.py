"""What follows from the inventory for reference brokers, and what is refused."""

from __future__ import annotations

from typing import Any

import yaml

from tests.playbooks.modules import TREE
from tests.playbooks.shipped import shipped

FILTERS = shipped("filter_plugins/highwater_reference_kafka.py")
CLUSTERS = shipped("filter_plugins/highwater.py")


def hostvars(count: int, *instances: dict[str, Any], **variables: Any) -> dict[str, dict[str, Any]]:
    of_host = {"reference_kafka_instances": list(instances or [instance()]), **variables}
    return {f"node{n}": {"broker_id": n, "ansible_host": f"10.0.0.{n}", **of_host} for n in range(1, count + 1)}


def instance(name: str = "ssd", **more: Any) -> dict[str, Any]:
    return {"name": name, "cluster": name, "port": 19092, "log_dirs": [f"/data/{name}1/reference"], **more}


def brokers(variables: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = FILTERS.brokers(variables, variables)
    return found


def settings(number: int, variables: dict[str, dict[str, Any]], **properties: Any) -> dict[str, Any]:
    found = brokers(variables)
    made: dict[str, Any] = FILTERS.settings(found[number], found, "10.0.0.1:2181", properties)
    return made


def test_a_broker_on_zookeeper() -> None:
    assert settings(1, hostvars(3), **{"num.io.threads": 4}) == {
        "broker.id": 2,
        "listeners": "PLAINTEXT://:19092",
        "advertised.listeners": "PLAINTEXT://10.0.0.2:19092",
        "zookeeper.connect": "10.0.0.1:2181/reference/ssd",
        "log.dirs": ["/data/ssd1/reference"],
        "default.replication.factor": 3,
        "min.insync.replicas": 2,
        "offsets.topic.replication.factor": 3,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "num.io.threads": 4,
    }


def test_brokers_of_kraft_and_their_controllers() -> None:
    variables = hostvars(4, instance(properties={"num.io.threads": 16}), reference_kafka_line="4")
    of_quorum = settings(2, variables, **{"num.io.threads": 4})
    assert of_quorum["process.roles"] == "broker,controller"
    voters = "1@10.0.0.1:19192,2@10.0.0.2:19192,3@10.0.0.3:19192"
    assert of_quorum["controller.quorum.voters"] == voters, "four would survive no more failures than three"
    assert of_quorum["listeners"] == "PLAINTEXT://:19092,CONTROLLER://:19192"
    assert of_quorum["num.io.threads"] == 16, "what an instance says goes before what all are given"
    beside = settings(3, variables)
    assert (beside["process.roles"], beside["listeners"]) == ("broker", "PLAINTEXT://:19092")
    assert settings(0, hostvars(1, reference_kafka_mode="kraft"))["default.replication.factor"] == 1


def test_two_lines_on_the_same_hosts() -> None:
    newer = instance("newer", port=19093, line="4")
    found = brokers(hostvars(1, instance(), newer))
    assert [(each["line"], each["is_kraft"]) for each in found] == [("3.9", False), ("4", True)]
    assert FILTERS.faults("node1", found) == []
    both = CLUSTERS.clusters(["node1"], hostvars(1, instance(), newer), "reference_kafka_instances")
    assert both["newer"]["bootstrap_servers"] == "10.0.0.1:19093", "the others' filter sees the same brokers"


def test_what_is_refused_of_instances() -> None:
    def refused(*instances: dict[str, Any], ours: list[dict[str, Any]] | None = None, **variables: Any) -> list[str]:
        found: list[str] = FILTERS.faults("node1", brokers(hostvars(2, *instances, **variables)), ours or [])
        return found

    assert refused(reference_kafka_instances=[]) == [
        "reference_kafka_instances names no broker for it; say name, port and log_dirs, or take it out"
    ]
    (unnamed,) = refused(broker_id=None)
    assert unnamed.startswith("reference_kafka_instances, ssd: who it is is not said; set broker_id of the host")
    assert refused(broker_id=7) == ["in cluster ssd the broker_id 7 is given 2 times"]
    assert refused(instance(), instance(port=19093)) == [
        "the name ssd is given 2 times",
        "the log directory /data/ssd1/reference is given 2 times",
        "in cluster ssd the broker_id 1 is given 2 times",
        "in cluster ssd the broker_id 2 is given 2 times",
    ]
    assert refused(instance("a b", cluster="c")) == [
        "reference_kafka_instances, a b: a name has letters, digits, dots, dashes and underscores",
        (
            "reference_kafka_instances, a b: /data/a b1/reference is not an absolute path of letters, digits, dots and "
            "dashes"
        ),
    ]
    assert refused(instance(log_dirs=[])) == ["reference_kafka_instances, ssd: it has no log_dirs"]
    assert refused(instance(port=70000)) == [
        "reference_kafka_instances, ssd: its ports are not from 1 to 65535; set port and controller_port"
    ]
    assert refused(ours=[{"port": 19092, "log_dirs": ["/data/ssd1/reference/"]}]) == [
        "the port 19092 is given 2 times",
        "the log directory /data/ssd1/reference is given 2 times",
    ]
    mixed = {**hostvars(1), "node2": hostvars(2, instance(line="4"))["node2"]}
    assert FILTERS.faults("node1", brokers(mixed)) == [
        "cluster ssd has brokers with ZooKeeper and brokers with KRaft; give all the same line"
    ]


def test_log_directories_of_others_are_refused() -> None:
    found = brokers(hostvars(2))
    own = found[:1]

    def faults(meta: str, old: str = "", line: str | None = None) -> list[str]:
        mine = [{**own[0], **({"line": line, "is_kraft": True} if line else {})}]
        used = FILTERS.identities(mine, {"/data/ssd1/reference": meta})
        refused: list[str] = FILTERS.identity_faults(mine, mine, used, {"ssd": old})
        return refused

    zookeeper, kraft = "version=0\nbroker.id=1\ncluster.id=abc\n", "#x\nversion=1\nnode.id=1\ncluster.id=abc\n"
    assert faults("") == []
    assert faults(zookeeper) == []
    assert faults(kraft, line="4") == []
    (another,) = faults(zookeeper.replace("=1", "=9"))
    assert another.startswith("/data/ssd1/reference is the log directory of broker 9, and ssd is broker 1; correct")
    assert faults(kraft) == [
        "/data/ssd1/reference is of a cluster with KRaft; name another directory, or set the line back"
    ]
    same = "controller.quorum.voters=1@10.0.0.1:19192\n"
    assert faults(kraft, same, line="4") == []
    (others,) = faults(kraft, same.replace("1@", "5@"), line="4")
    assert others.startswith("ssd has the controllers 5@10.0.0.1:19192, and 1@10.0.0.1:19192 are wanted; a quorum that")


def test_where_log_directories_are() -> None:
    mounts, disks = ["/", "/data/ssd1", "/data"], ["/data/ssd1", "/data/ssd10/"]
    assert FILTERS.places(["/data/ssd1/kafka", "/data/ssd10/kafka", "/var/kafka"], mounts, disks) == [
        {"path": "/data/ssd1/kafka", "found": "/data/ssd1", "wanted": "/data/ssd1"},
        {"path": "/data/ssd10/kafka", "found": "/data", "wanted": "/data/ssd10"},
        {"path": "/var/kafka", "found": "/", "wanted": "/"},
    ]


def test_what_the_controller_caches_is_no_change_of_a_host() -> None:
    """Or a first run changes what check mode, which fetches nothing, could not announce."""
    tasks = yaml.safe_load((TREE / "roles/reference_kafka/tasks/fetch.yml").read_text("utf-8"))
    assert tasks
    assert [
        task["name"] for task in tasks if task["delegate_to"] != "localhost" or task.get("changed_when") is not False
    ] == []
