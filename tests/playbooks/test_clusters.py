"""What filter_plugins/highwater.py makes of an inventory: clusters, addresses, properties, and what is at odds."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from highwater.common.java_properties import parse_properties
from tests.playbooks.modules import load

filters = load("filter_plugins/highwater.py")

DISKS = [{"mount_point": "/data/ssd1/"}, {"mount_point": "/data/ssd2"}]


def test_a_host_that_says_nothing_of_its_brokers_carries_one_on_all_disks() -> None:
    hosts = {"a": {"broker_id": 1, "storage_disks": DISKS}, "b": {"broker_id": 2, "ansible_host": "10.0.0.2"}}
    (name, found) = next(iter(filters.clusters(hosts, hosts).items()))
    assert (name, found["bootstrap_servers"]) == ("main", "a:9092,10.0.0.2:9092")
    assert found["brokers"][0] == {
        "host": "a",
        "name": "main",
        "broker_id": 1,
        "address": "a",
        "port": 9092,
        "inside_port": 9092,
        "metrics_port": 10192,
        "log_dirs": ["/data/ssd1/highwater", "/data/ssd2/highwater"],
        "process": 0,
        "rack": "",
    }


def test_an_instance_is_divided_into_brokers_of_which_the_first_is_as_it_was() -> None:
    instance = {"name": "ssd", "port": 9092, "log_dirs": ["/s/hw/"], "metrics_port": 7000, "cpus": "0-3"}
    first, second, third = filters.divided([instance], 3, 4)
    assert first == {**instance, "process": 0}
    assert second == {
        "name": "ssd-1",
        "port": 9093,
        "log_dirs": ["/s/hw-1"],
        "metrics_port": 7001,
        "cpus": "0-3",
        "broker_id": 104,
        "process": 1,
    }
    assert (third["name"], third["broker_id"], third["process"]) == ("ssd-2", 204, 2)
    silent = filters.divided([{**instance, "metrics_port": 0, "broker_id": 9}], 2, 4)[1]
    assert (silent["metrics_port"], silent["broker_id"]) == (0, 109)
    for wrong in (None, "x", 0, -1):
        assert len(filters.divided([instance], wrong, 4)) == 1, "preflight.yml reports it"


def test_auto_divides_the_cores_among_the_instances_and_never_shrinks() -> None:
    def names(instances: list[str], cores: int, *there: str) -> list[str]:
        given = [{"name": name, "port": 9092 + 100 * at, "log_dirs": ["/d"]} for at, name in enumerate(instances)]
        counted = filters.counted([str(cores), *(f"/etc/highwater/broker-{name}.properties\r" for name in there)])
        return [each["name"] for each in filters.divided(given, "auto", 1, counted)]

    assert names(["main"], 3) == ["main", "main-1", "main-2"]
    assert names(["ssd", "hdd"], 5) == ["ssd", "ssd-1", "hdd", "hdd-1"]
    assert names(["ssd", "hdd"], 1) == ["ssd", "hdd"]
    assert names(["main"], 1, "main", "main-1", "other-2") == ["main", "main-1"]
    assert len(names(["main"], 500)) == filters.MOST_PROCESSES
    hosts = {"a": {"broker_processes": "auto"}, "b": {"broker_processes": 2}, "c": {}}
    assert filters.uncounted("abc", hosts) == ["a"]
    with pytest.raises(AnsibleFilterError, match="a: broker_processes is auto, and the cores of the host"):
        filters.clusters("abc", hosts)
    hosts["a"] = {"broker_processes": "auto", "__broker_counted": {"cores": 2, "names": []}}
    assert filters.uncounted("abc", hosts) == []
    assert [broker["host"] for broker in filters.clusters("abc", hosts)["main"]["brokers"]] == list("aabbc")


def test_who_is_left_out_of_the_inventory_is_named_with_the_others_of_its_cluster() -> None:
    def lines(name: str, number: int, cluster: str) -> list[str]:
        file = f"/etc/highwater/broker-{name}.properties"
        return [f"{file}:broker.id={number}", f"{file}:zookeeper.connect=z:2181/highwater/{cluster}"]

    here = [*lines("main-1", 101, "main"), *lines("x-1", 101, "x")]
    everywhere = [*here, *lines("main-1", 102, "main")]
    found = {"main": {"inside_servers": "a:9092,b:9092"}}
    assert filters.left(everywhere, here, found) == {"ids": ["101", "102"], "bootstrap": "a:9092"}
    assert filters.left([], [], found) == {"ids": ["ID"], "bootstrap": "HOST:PORT"}


def test_clusters_have_the_brokers_of_divided_hosts() -> None:
    hosts = {name: {"broker_id": number, "broker_processes": 2} for number, name in enumerate("ab", 1)}
    found = filters.clusters(hosts, hosts)["main"]
    assert found["bootstrap_servers"] == "a:9092,a:9093,b:9092,b:9093"
    assert [broker["broker_id"] for broker in found["brokers"]] == [1, 101, 2, 102]
    secure = {name: {**variables, "cluster_security": "tls"} for name, variables in hosts.items()}
    assert filters.clusters(secure, secure)["main"]["inside_servers"] == "a:10092,a:10093,b:10092,b:10093"


def test_with_tls_brokers_have_a_port_among_themselves() -> None:
    secure = {"broker_id": 1, "cluster_security": "tls", "ansible_host": "10.0.0.1"}
    hosts = {"a": secure, "b": {**secure, "broker_instances": [{"name": "x", "port": 9192, "inside_port": 7000}]}}
    found = filters.clusters(hosts, hosts)["main"]
    assert found["bootstrap_servers"] == "10.0.0.1:9092,10.0.0.1:9192"
    assert found["inside_servers"] == "10.0.0.1:10092,10.0.0.1:7000"
    plain = filters.clusters(hosts, {"a": {"broker_id": 1}, "b": {"broker_id": 2}})["main"]
    assert plain["inside_servers"] == plain["bootstrap_servers"] == "a:9092,b:9092"


def test_two_clusters_over_the_same_hosts() -> None:
    instances = [
        {"name": "ssd", "cluster": "ssd", "log_dirs": ["/s"]},
        {"name": "hdd", "cluster": "hdd", "port": "9093", "log_dirs": ["/h"], "broker_id": 21},
    ]
    hosts = {"a": {"broker_id": 1, "highwater_address": "10.1.0.1", "broker_instances": instances}, "b": {}}
    found = filters.clusters(["a"], hosts)
    assert {name: cluster["bootstrap_servers"] for name, cluster in found.items()} == {
        "ssd": "10.1.0.1:9092",
        "hdd": "10.1.0.1:9093",
    }
    assert [broker["broker_id"] for cluster in found.values() for broker in cluster["brokers"]] == [1, 21]
    assert filters.clusters(hosts, hosts, "reference_kafka_instances") == {}, "nobody has one by default"


def test_what_a_role_says_of_its_address_is_what_others_are_told() -> None:
    variables = {"highwater_address": "10.0.0.1", "ansible_host": "192.0.2.1"}
    own = {"broker_address": "10.0.0.2", "reference_kafka_address": "10.0.0.3", "zookeeper_address": "10.0.0.4"}
    reference = {"reference_kafka_instances": [{"name": "main", "port": 19092}]}
    hosts = {"a": {**variables, **own, **reference}}
    assert filters.clusters(hosts, hosts)["main"]["bootstrap_servers"] == "10.0.0.2:9092"
    found = filters.clusters(hosts, hosts, "reference_kafka_instances")
    assert found["main"]["bootstrap_servers"] == "10.0.0.3:19092"
    assert filters.zookeeper_connect(hosts, hosts) == "10.0.0.4:2181"
    assert filters.address_of("a", hosts, "spark_address") == "10.0.0.1"


def test_an_ipv6_address_has_brackets_before_a_port() -> None:
    hosts = {"a": {"broker_id": 1, "ansible_host": "fd00::1"}}
    found = filters.clusters(hosts, hosts)["main"]
    assert (found["bootstrap_servers"], found["brokers"][0]["address"]) == ("[fd00::1]:9092", "fd00::1")
    assert filters.zookeeper_connect(hosts, hosts) == "[fd00::1]:2181"


def test_an_address_is_listened_on_and_of_a_name_every_interface() -> None:
    assert [filters.listened(address) for address in ("10.0.0.1", "fd00::1", "a.example.net", "10")] == [
        "10.0.0.1",
        "[fd00::1]",
        "",
        "",
    ]


def test_the_ensemble_is_told_with_its_port() -> None:
    hosts = {"a": {}, "b": {"ansible_host": "10.0.0.2", "zookeeper_client_port": 2281}}
    assert filters.zookeeper_connect(hosts, hosts) == "a:2181,10.0.0.2:2281"


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(exclude_categories=["Cs"])),
        max_size=5,
    )
)
def test_the_broker_reads_what_was_written(settings: dict[str, str]) -> None:
    text = filters.properties_text(settings)
    assert text.isascii()
    assert {item.name: item.value for item in parse_properties(text)} == settings


def test_values_are_written_as_kafka_has_them() -> None:
    settings = {"b": True, "a": ["/x", "/y"], "c": 3, "d": None, "e": " blank"}
    assert filters.properties_text(settings) == "a=/x,/y\nb=true\nc=3\ne=\\ blank"


def entry(host: str, cluster: str, path: str, cluster_id: str) -> dict[str, Any]:
    return {"host": host, "cluster": cluster, "path": path, "cluster_id": cluster_id}


def test_log_directories_that_belong_together_have_nothing_at_odds() -> None:
    assert (
        filters.cluster_faults(
            [entry("a", "ssd", "/s", "one"), entry("b", "ssd", "/s", "one"), entry("b", "hdd", "/h", "")]
        )
        == []
    )


def test_a_cluster_of_two_origins_is_told() -> None:
    (fault,) = filters.cluster_faults([entry("a", "ssd", "/s", "one"), entry("b", "ssd", "/t", "two")])
    assert fault.startswith("b: /t belongs to cluster two, and /s on a to one, while the inventory has both in ssd")


def test_directories_that_were_exchanged_between_clusters_are_told() -> None:
    faults = filters.cluster_faults([entry("a", "ssd", "/s", "one"), entry("a", "hdd", "/h", "one")])
    assert len(faults) == 1
    assert "do not exchange log_dirs between clusters" in faults[0]
