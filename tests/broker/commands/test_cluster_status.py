"""`highwater broker cluster status` on a broker that runs alone: the first line, mistakes, and a broker that dies."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.admin.cluster_health import judge
from highwater.broker.commands.cluster_status import ClusterStatus, _document, _print
from highwater.common.ports import free_ports
from highwater.kafka.client.host_processes import hosts_of_processes
from tests.admin.calling import COMMAND, call
from tests.broker.running import running_broker


@pytest.mark.clients
def test_the_status_of_any_broker_and_of_one_that_dies_while_it_is_watched(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        assert call("topics", "-b", broker.address, "--create", "--topic", "orders", "--partitions", "2").exit_code == 0
        once = call("cluster", "status", "-b", broker.address)
        assert (once.exit_code, once.errors) == (0, "")
        answer, *rest = once.output.splitlines()
        assert answer == "healthy: 1 of 1 broker, 2 partitions in sync"
        assert [line.split() for line in rest if line.startswith("orders")] == [["orders", "2", "in", "sync"]]
        assert any(line.rstrip().endswith("off") for line in rest), "it serves no metrics"

        command = [*COMMAND, "cluster", "status", "-b", broker.address, "--watch", "--every", "0.2", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            assert json.loads(watch.stdout.readline())["healthy"] is True
            broker.kill()
            while (told := json.loads(watch.stdout.readline()))["healthy"]:
                pass
            assert told["answer"].startswith(f"no broker can be reached at {broker.address}")
            watch.send_signal(signal.SIGINT)
            _, errors = watch.communicate(timeout=60)
        assert (watch.returncode, errors) == (130, "")


@pytest.mark.clients
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", "127.0.0.1:1 refuses connections"),
        ("nobody.invalid:9092", "nobody.invalid:9092 cannot be reached: "),
    ],
)
def test_a_broker_that_cannot_be_reached_is_reported_with_its_address(tmp_path: Path, address: str, says: str) -> None:
    (port,) = free_ports(1)
    properties = [f"advertised.listeners=PLAINTEXT://{address}"]
    with running_broker(tmp_path / "log", port=port, properties=properties):
        once = call("cluster", "status", "-b", f"127.0.0.1:{port}")
        assert once.exit_code == 1
        answer, *rest = once.output.splitlines()
        assert answer == "the broker is down"
        assert any(line.startswith(f"Down: broker 0: {says}") for line in rest), once.output


def test_processes_of_several_hosts_are_listed_with_their_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = {1: "10.0.0.1:9092", 101: "10.0.0.1:9093", 2: "10.0.0.2:9092", 102: "10.0.0.2:9093"}
    health = judge(listed=addresses, reasons_down={102: "it refuses connections"}, controller=1, topics=())
    hosts = hosts_of_processes(addresses, {1: "a", 101: "a", 2: "b"})
    status = ClusterStatus(replace(health, hosts=hosts, silent=[2]), "10.0.0.1:9092", {}, None)
    assert _document(status)["hosts"] == [
        {
            "name": "a",
            "processes": [
                {"process": 0, "broker": 1, "state": "up"},
                {"process": 1, "broker": 101, "state": "up"},
            ],
        },
        {
            "name": "b",
            "processes": [
                {"process": 0, "broker": 2, "state": "silent"},
                {"process": 1, "broker": 102, "state": "down"},
            ],
        },
    ]
    _print(status)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Broker", "Address", "Host", "Process", "Leads", "Replicas", "Metrics"] in lines
    assert ["101", "10.0.0.1:9093", "a", "1", "0", "0", "-"] in lines


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["DIR", "-b", "127.0.0.1:1"], "name a cluster by DIR or by --bootstrap-server, not by both"),
        (["-b", "127.0.0.1:1"], "no broker can be reached at 127.0.0.1:1"),
        (["-b", "127.0.0.1:1", "--watch"], "no broker can be reached at 127.0.0.1:1"),
        (["/nonexistent", "--watch"], "/nonexistent holds no cluster"),
        (["--every", "1"], "--every goes with --watch"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], says: str) -> None:
    result = call("cluster", "status", *options)
    assert (result.exit_code, result.output, len(result.errors.splitlines())) == (2, "", 1)
    assert says in result.errors


def test_options_before_the_command_are_refused() -> None:
    """`cluster -b X status` would ask the default cluster."""
    result = call("cluster", "-b", "127.0.0.1:1", "status")
    assert (result.exit_code, result.errors) == (2, "error: write the options behind status\n")
