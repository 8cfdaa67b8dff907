"""`highwater broker cluster up | status | down`, with real processes."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.broker.commands.detached import wait_until
from highwater.broker.commands.local_cluster import LocalCluster
from tests.broker.commands.calling import call


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "cluster"
    yield directory
    if left := LocalCluster.load(directory):
        for process in left.processes.values():
            process.stop(10)


@pytest.mark.slow
def test_a_cluster_comes_up_is_mended_and_goes_down(directory: Path) -> None:
    up = call("cluster", "up", directory, "--base-port", "0", "--set", "num.partitions=4")
    assert up.exit_code == 0, up.errors
    servers = up.output.strip()
    assert len(servers.split(",")) == 3
    assert "broker-3 is ready" in up.errors
    assert call("topics", "--create", "--topic", "orders", "-b", servers).exit_code == 0
    # One broker after another hears of the topic.
    assert wait_until(
        lambda: call("cluster", "status", directory, "--json").json["partitions"] == 4, 60, "all know of the topic"
    )
    status = call("cluster", "status", directory, "--json")
    assert status.exit_code == 0, status.output
    assert status.json["brokers"] == [1, 2, 3]
    assert status.json["controller"] in (1, 2, 3)
    assert status.json["partitions"] == 4
    assert status.json["bootstrap_servers"] == servers

    victim = next(process for process in status.json["processes"] if process["name"] == "broker-2")
    os.kill(victim["pid"], signal.SIGKILL)

    def lacks_replicas() -> bool:
        told = call("cluster", "status", directory, "--json")
        return told.exit_code == 1 and len(told.json["under_replicated_partitions"]) == 4

    assert wait_until(lacks_replicas, 60, "the partitions lack a replica")
    assert "is down" in call("cluster", "status", directory).output

    assert call("cluster", "up", directory).exit_code == 0
    assert wait_until(lambda: call("cluster", "status", directory).exit_code == 0, 60, "all is well again")
    assert call("cluster", "up", directory, "--set", "num.partitions=4").output.strip() == servers
    other = call("cluster", "up", directory, "--set", "num.partitions=5")
    assert other.exit_code == 2
    assert "runs with other settings" in other.errors

    down = call("cluster", "down", directory)
    assert down.exit_code == 0, down.errors
    assert [line.split()[0] for line in down.errors.splitlines() if line.endswith(" stopped")] == [
        "broker-1",
        "broker-2",
        "broker-3",
        "zookeeper-1",
    ]
    assert call("cluster", "status", directory).exit_code == 1
    assert call("cluster", "down", directory, "--wipe").exit_code == 0
    assert not directory.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--set", "num.partitons=3"],
            "num.partitons is not a property of a Kafka broker; did you mean num.partitions",
        ),
        (["--set", "num.partitions"], "--set num.partitions: write it as name=value"),
        (["--zookeeper", "127.0.0.1:2181", "--zookeeper-nodes", "3"], "cannot go together"),
        (["--set", "log.dirs=/tmp/one-for-all"], "log.dirs=/tmp/one-for-all is the same for all brokers"),
        (["--config", "/nowhere.properties"], "cannot read the configuration file /nowhere.properties"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(directory: Path, options: list[str], says: str) -> None:
    result = call("cluster", "up", directory, "--base-port", "0", *options)
    assert result.exit_code == 2
    assert says in result.errors
    assert len(result.errors.splitlines()) == 1
    assert not directory.exists()


def test_a_port_that_is_taken_is_named(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call("cluster", "up", directory, "--base-port", str(port))
    assert result.exit_code == 2
    assert f"port {port} cannot be had" in result.errors


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    assert "holds something else" in call("cluster", "up", tmp_path).errors
    for command in ("down", "status"):
        result = call("cluster", command, tmp_path)
        assert result.exit_code == 2
        assert "holds no cluster" in result.errors
