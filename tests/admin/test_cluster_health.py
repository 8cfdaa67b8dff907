"""What `cluster status` concludes: the answer in one line, who is down, which topics come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from highwater.admin.cluster_health import (
    ClusterHealth,
    PartitionHealth,
    TopicHealth,
    judge,
    of_one_host,
    state_text,
)
from highwater.broker.commands.cluster_status import down_lines
from highwater.kafka.client.host_processes import (
    HostProcesses,
    HostsOfProcesses,
    host_processes,
    hosts_of_processes,
)

ALL = {1: "host:9092", 2: "host:9093", 3: "host:9094"}


def topic(name: str, *partitions: tuple[int, Sequence[int], Sequence[int]], least: int = 2) -> TopicHealth:
    """A topic with leader, replicas and in-sync replicas of each partition."""
    return TopicHealth(name, [PartitionHealth(n, *told, least) for n, told in enumerate(partitions)])


def cluster(
    *topics: TopicHealth, down: dict[int, str] | None = None, listed: dict[int, str] = ALL, servers: Sequence[str] = ()
) -> ClusterHealth:
    return judge(listed=listed, reasons_down=down or {}, controller=1, topics=topics, servers_down=servers)


WELL = (1, (1, 2, 3), (1, 2, 3))
NO_LEADER = (-1, (3,), (3,))
UNDER_MIN_ISR = (1, (1, 2, 3), (1,))
UNDER_REPLICATED = (1, (1, 2, 3), (1, 2))


def test_a_healthy_cluster_is_one_line_with_its_counts() -> None:
    well = cluster(topic("orders", *[WELL] * 120))
    assert (well.is_healthy, well.sentence) == (True, "healthy: 3 of 3 brokers, 120 partitions in sync")
    assert cluster().sentence == "healthy: 3 of 3 brokers, no partitions yet"
    assert cluster(topic("one", WELL), listed={1: "host:9092", 2: "h:1", 3: "h:2"}).sentence.endswith(
        "1 partition in sync"
    )


def test_the_processes_of_one_host_are_one_broker() -> None:
    told = {each: {"highwater.processes": "3", "highwater.process": str(each - 1), "broker.rack": "h"} for each in ALL}
    processes = host_processes(told)
    assert processes == HostProcesses("h", 3, 1)
    well = of_one_host(cluster(topic("orders", WELL)), processes)
    assert well.sentence == "healthy: 1 host, 3 of 3 processes, 1 partition in sync"
    listed = {broker_id: ALL[broker_id] for broker_id in (1, 3)}
    found = host_processes({broker_id: told[broker_id] for broker_id in listed})
    assert found == processes
    one_gone = of_one_host(cluster(listed=listed), processes)
    assert one_gone.sentence == "process 1 is down"
    assert list(down_lines(one_gone)) == ["Down: process 1 (broker 2): its process does not run"]
    had_replicas = of_one_host(cluster(topic("t", NO_LEADER), listed={1: "h:1", 2: "h:2"}), processes)
    assert had_replicas.sentence == "1 partition has no leader; process 2 is down"


@pytest.mark.parametrize(
    "told",
    [
        {},
        {1: {"highwater.processes": "3", "highwater.process": "0"}, 2: {"highwater.processes": None}},
        {1: {"highwater.processes": "3"}},
        {1: {"highwater.processes": "3", "highwater.process": ""}},
        {1: {"highwater.processes": "auto", "highwater.process": "0"}},
        {broker_id: {"highwater.processes": "2", "highwater.process": "0"} for broker_id in (1, 2)},
    ],
)
def test_other_brokers_are_not(told: dict[int, dict[str, str | None]]) -> None:
    assert host_processes(told) is None


DIVIDED = {1: "10.0.0.1:9092", 101: "10.0.0.1:9093", 2: "10.0.0.2:9092", 102: "10.0.0.2:9093"}
RACKS = {1: "a", 101: "a", 2: "b", 102: "b"}


def test_brokers_of_several_hosts_are_processes_of_theirs() -> None:
    hosts = hosts_of_processes(DIVIDED, RACKS)
    assert hosts == HostsOfProcesses({1: "a", 2: "b"})
    spread = (1, (1, 102), (1, 102))
    well = replace(cluster(topic("orders", spread), listed=DIVIDED), hosts=hosts)
    assert well.sentence == "healthy: 2 hosts, 4 of 4 processes, 1 partition in sync"
    # 102 has left the cluster and is known by its replica alone; nothing is known of the host of 103.
    listed = {broker_id: address for broker_id, address in DIVIDED.items() if broker_id != 102}
    racks = {broker_id: RACKS[broker_id] for broker_id in listed}
    health = cluster(topic("t", spread, (1, (1, 103), (1,))), listed=listed, down={101: "it refuses connections"})
    ill = replace(health, hosts=hosts_of_processes(listed, racks))
    assert ill.sentence.endswith("processes 1 of a and 1 of b are down; broker 103 is down")
    assert list(down_lines(ill)) == [
        "Down: process 1 of a (broker 101): it refuses connections",
        "Down: process 1 of b (broker 102): it is not in the cluster; it has 1 replicas",
        "Down: broker 103: it is not in the cluster; it has 1 replicas",
    ]
    silent = replace(well, silent=[2])
    assert silent.sentence == "process 0 of b does not answer"


def test_a_rack_of_several_hosts_does_not_name_them() -> None:
    racks: dict[int, str | None] = dict.fromkeys(DIVIDED, "r")
    assert hosts_of_processes(DIVIDED, racks) == HostsOfProcesses({1: "10.0.0.1", 2: "10.0.0.2"})


@pytest.mark.parametrize(
    ("addresses", "racks"),
    [
        ({1: "10.0.0.1:9092", 2: "10.0.0.2:9092"}, {1: "a", 2: "b"}),  # a broker a host
        (ALL, dict.fromkeys(ALL, "host")),  # other ids
        (DIVIDED, dict.fromkeys(DIVIDED)),  # no racks
        (DIVIDED, RACKS | {101: "c"}),
        (DIVIDED | {101: "10.0.0.3:9092"}, RACKS),
        ({}, {}),
    ],
)
def test_other_brokers_are_no_processes_of_hosts(addresses: dict[int, str], racks: dict[int, str | None]) -> None:
    assert hosts_of_processes(addresses, racks) is None


@pytest.mark.parametrize(
    ("health", "sentence"),
    [
        (
            cluster(topic("t", NO_LEADER, NO_LEADER, WELL), down={3: "process 7 ended"}),
            "2 partitions have no leader; broker 3 is down",
        ),
        (
            cluster(topic("t", NO_LEADER, UNDER_MIN_ISR, UNDER_REPLICATED, UNDER_REPLICATED)),
            "1 partition has no leader; 1 is under min ISR; 2 lack replicas",
        ),
        (cluster(down={2: "x", 3: "x"}), "brokers 2 and 3 are down"),
        (cluster(down={1: "x"}), "broker 1 is down; there is no controller"),
        (
            cluster(down={1: "x", 2: "x", 3: "x"}, servers=("zookeeper-1",)),
            "all 3 brokers are down; zookeeper-1 is down",
        ),
        (cluster(topic("t", (1, (1, 4), (1, 4)))), "broker 4 is down"),
    ],
)
def test_what_is_wrong_comes_first_and_the_worst_of_it_before_the_rest(health: ClusterHealth, sentence: str) -> None:
    assert not health.is_healthy
    assert health.sentence == sentence


def test_what_is_not_known_is_not_called_healthy_without_a_word() -> None:
    unknown = TopicHealth("secret", [PartitionHealth(0, *WELL, None)])
    assert cluster(unknown).sentence == "healthy: 3 of 3 brokers, 1 partition in sync; min ISR of 1 topic is not known"
    assert cluster(unknown, down={2: "x"}).sentence == "broker 2 is down; min ISR of 1 topic is not known"


def test_a_dead_broker_is_none_of_the_brokers() -> None:
    """Metadata list a broker for a while after its death, and replicas name it for ever."""
    health = cluster(topic("t", WELL, (1, (1, 9), (1,))), down={2: "process 7 ended"})
    assert [broker.broker_id for broker in health.live] == [1, 3]
    assert [(broker.broker_id, broker.reason, broker.replicas) for broker in health.down] == [
        (2, "process 7 ended", 1),
        (9, "it is not in the cluster", 1),
    ]


def test_topics_in_trouble_come_first_and_internal_topics_last() -> None:
    health = cluster(
        topic("__consumer_offsets", WELL),
        topic("b-well", WELL),
        topic("a-well", WELL),
        topic("z-behind", UNDER_REPLICATED, WELL),
        topic("__transaction_state", UNDER_REPLICATED),
        topic("y-refuses", UNDER_MIN_ISR),
        topic("x-offline", WELL, NO_LEADER, UNDER_REPLICATED),
    )
    assert [topic.name for topic in health.topics] == [
        "x-offline",
        "y-refuses",
        "z-behind",
        "__transaction_state",
        "a-well",
        "b-well",
        "__consumer_offsets",
    ]
    assert [state_text(topic) for topic in health.topics[:3]] == [
        "no leader: 1; under-replicated: 2",
        "under min ISR: all",
        "under-replicated: 0",
    ]
    assert state_text(topic("long", *[UNDER_REPLICATED] * 12, WELL)).endswith("6, 7 and 4 more")
