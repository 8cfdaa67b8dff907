"""Hosts in snapshots: joined with brokers, and never in the way of anything else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from highwater.common.host_answer import BrokerProcess
from highwater.monitor.host_source.joining import brokers_of, of_cluster, with_hosts
from highwater.monitor.host_source.settings import HostSettings
from highwater.monitor.host_source.source import WithHosts
from highwater.monitor.model import Host, Snapshot
from tests.monitor.agents import answer, http, listening, says, silent
from tests.monitor.clusters import snapshot


class Cluster:
    async def snapshot(self, number: int) -> Snapshot:
        return snapshot(number=number)


async def until(source: WithHosts, holds: Callable[[Snapshot], bool]) -> Snapshot:
    """The first of its snapshots that does."""
    deadline_s = time.monotonic() + 60
    number = 0
    while True:
        found = await source.snapshot(number)
        if holds(found):
            return found
        assert time.monotonic() < deadline_s, found.hosts
        number += 1
        await asyncio.sleep(0.02)


def test_a_host_is_joined_with_its_broker() -> None:
    given = answer("h", broker_id=1)

    async def run(port: int) -> Snapshot:
        source = WithHosts(Cluster(), [HostSettings("one", "127.0.0.1", port)], 15)
        try:
            return await until(source, lambda found: not found.hosts["one"].error)
        finally:
            await source.close()

    with listening(says(http(given.as_json().encode()))) as port:
        found = asyncio.run(run(port))
    host = found.hosts["one"]
    assert host.answer == given
    assert host.brokers == (1,)
    metrics = found.brokers[1].metrics
    assert metrics is not None
    assert "kafka_server_brokertopicmetrics_bytesin_total" in metrics
    assert found.brokers[0].metrics is None
    # By the clock of the ticks, at which a rate of its counters is true, however late the host answers.
    assert host.answered_at_ms is not None
    assert 0 <= time.monotonic_ns() // 1_000_000 - host.answered_at_ms < 600_000
    assert found.brokers[1].metrics_at_ms == host.answered_at_ms
    assert found.sources["host one"].error == ""
    assert found.sources["host one"].received_bytes > 1000


def test_hosts_that_are_slow_dead_or_of_another_version_delay_nothing() -> None:
    ended = threading.Event()
    newer = answer().as_json().replace("host.agent/1", "host.agent/2").encode()

    async def run(slow: int, other: int) -> Snapshot:
        hosts = [
            HostSettings("slow", "127.0.0.1", slow),
            HostSettings("dead", "127.0.0.1", 1),
            HostSettings("other", "127.0.0.1", other),
        ]
        patient = WithHosts(Cluster(), hosts, 600)
        try:
            # One wait for an answer would be longer than all of these may take.
            async with asyncio.timeout(60):
                for number in range(20):
                    await patient.snapshot(number)
        finally:
            await patient.close()
        source = WithHosts(Cluster(), hosts, 0.5)
        try:
            return await until(source, lambda found: all("yet" not in each.error for each in found.hosts.values()))
        finally:
            await source.close()

    with listening(silent(ended)) as slow, listening(says(http(newer))) as other:
        try:
            found = asyncio.run(run(slow, other))
        finally:
            ended.set()
    assert found.hosts["slow"].error == "no answer within 0.5 s"
    assert "cannot be reached" in found.hosts["dead"].error
    assert "speaks host.agent/2" in found.hosts["other"].error
    assert all(host.answer is None for host in found.hosts.values())
    assert len(found.brokers) == 3


def test_of_a_host_with_brokers_of_two_clusters_only_ours_are_taken() -> None:
    of = snapshot()
    given = answer(broker_id=1)
    ours = replace(given.brokers[0], cluster_id=of.cluster_id)
    theirs = replace(ours, cluster_id="another", metrics={"kafka_server_brokertopicmetrics_bytesin_total": 7.0})
    directory = given.directories[0]
    both = replace(
        given,
        brokers=(theirs, ours),
        directories=(replace(directory, cluster_id="another"), replace(directory, cluster_id=of.cluster_id)),
    )
    found = with_hosts(of, [Host("h", "h", both)], frozenset({"h"}))
    host = found.hosts["h"]
    assert host.brokers == (1,)
    assert host.answer is not None
    assert host.answer.brokers == (ours,)
    assert len(host.answer.directories) == 1
    assert found.brokers[1].metrics == ours.metrics
    assert of_cluster(given, of.cluster_id) is given


def test_which_brokers_are_on_a_host() -> None:
    of = snapshot()
    given = answer(broker_id=2)
    assert brokers_of(Host("h", "a", given), of) == (2,)
    assert brokers_of(Host("h", "a", given, wanted_brokers=(0, 1)), of) == (0, 1)
    process = replace(given.brokers[0], cluster_id="another")
    assert brokers_of(Host("h", "a", replace(given, brokers=(process,))), of) == ()
    ours = BrokerProcess(1, of.cluster_id, None)
    assert brokers_of(Host("h", "a", replace(given, brokers=(process, ours))), of) == (1,)
    # An agent that was told of no log directory: by the names of hosts.
    bare = replace(given, brokers=(), host="BROKER-1")
    assert brokers_of(Host("h", "broker-0", bare), of) == (0, 1)
    assert brokers_of(Host("h", "broker-0"), of) == (0,)
