"""The answers to mntr and srvr, and what a server says that allows neither."""

from __future__ import annotations

from highwater.monitor.zookeeper.numbers import is_mntr, of_mntr, of_srvr

MNTR = (
    "zk_version\t3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\n"
    "zk_server_state\tleader\nzk_avg_latency\t0.25\nzk_znode_count\t31\nzk_synced_followers\t2\nzk_quorum_size\tx\n"
)
SRVR = (
    "Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\n"
    "Latency min/avg/max: 0/0.5/12\nReceived: 120\nSent: 121\nConnections: 3\nOutstanding: 0\nZxid: 0x4e\n"
    "Mode: standalone\nNode count: 31\n"
)


def test_mntr_has_all_numbers() -> None:
    assert is_mntr(MNTR)
    found = of_mntr("zk1:2181", MNTR)
    assert (found.mode, found.version, found.error) == ("leader", "3.8.4", "")
    assert found.numbers == {"avg_latency": 0.25, "znode_count": 31, "synced_followers": 2}


def test_srvr_has_some_under_the_same_names() -> None:
    assert not is_mntr("mntr is not executed because it is not in the whitelist.\n")
    found = of_srvr("zk1:2181", SRVR)
    assert (found.mode, found.version, found.error) == ("standalone", "3.8.4", "")
    assert found.numbers == {
        "packets_received": 120, "packets_sent": 121, "num_alive_connections": 3, "outstanding_requests": 0,
        "znode_count": 31, "min_latency": 0, "avg_latency": 0.5, "max_latency": 12,
    }  # fmt: skip


def test_a_server_that_says_nothing_gives_the_reason() -> None:
    for answer, reason in (
        ("srvr is not executed because it is not in the whitelist.\n", "4lw.commands.whitelist"),
        ("This ZooKeeper instance is not currently serving requests\n", "no quorum"),
        ("", "does not answer"),
        ("HTTP/1.1 400 Bad Request\r\n", "does not answer"),
    ):
        found = of_srvr("a:1", answer)
        assert reason in found.error
        assert not found.numbers
