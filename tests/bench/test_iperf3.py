"""iperf3's report as values, and `highwater bench network` as a person meets it."""

from __future__ import annotations

import copy
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.bench import iperf3
from highwater.bench.cli import app
from highwater.bench.commands.network import answer
from highwater.results.network import NetworkProbe, NetworkTrial

# What iperf3 3.12 reported with --bidir over loopback, without its intervals.
REPORT: dict[str, Any] = {
    "start": {"connected": [{"local_host": "10.0.0.1", "remote_host": "10.0.0.2"}], "version": "iperf 3.12"},
    "end": {
        "sum_sent": {"bits_per_second": 7099764148.2, "retransmits": 52, "sender": True},
        "sum_received": {"bits_per_second": 7113299124.5, "sender": True},
        "sum_sent_bidir_reverse": {"bits_per_second": 10764834136.3, "retransmits": 8, "sender": False},
        "sum_received_bidir_reverse": {"bits_per_second": 10754244370.5, "sender": False},
        "cpu_utilization_percent": {"host_total": 38.7, "remote_total": 49.5},
    },
}


def network(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["network", *arguments])
    return result.exit_code, result.stdout, result.stderr


def probe(*, remote: str = "10.0.0.2", busy: float = 0.3) -> NetworkProbe:
    return NetworkProbe(
        taken_utc="2026-11-29T12:00:00Z",
        local_address="10.0.0.1",
        remote_address=remote,
        iperf3_version="3.12",
        streams=4,
        trial_s=5,
        trials=tuple(
            NetworkTrial(sent_bytes_per_s=rate, received_bytes_per_s=2e9, retransmits=0, cpu_ratio=busy)
            for rate in (1.1e9, 1.2e9, 62.5e6)
        ),
    )


def test_a_trial_is_as_fast_as_its_slower_way() -> None:
    found = iperf3.trial_of(REPORT)
    assert found.bytes_per_s == found.sent_bytes_per_s == 7113299124.5 / 8
    assert (found.received_bytes_per_s, found.retransmits, found.cpu_ratio) == (10754244370.5 / 8, 60, 0.495)


@pytest.mark.parametrize("lost", ["sum_received_bidir_reverse", "cpu_utilization_percent"])
def test_a_report_without_both_ways_is_refused(lost: str) -> None:
    report = copy.deepcopy(REPORT)
    del report["end"][lost]
    with pytest.raises(iperf3.Iperf3Error, match=r"it needs iperf3 3\.7 on both hosts"):
        iperf3.trial_of(report)


def test_the_answer_is_the_median_of_the_slower_ways() -> None:
    assert answer("b", probe()) == "b: 8.8 Gbit/s each way, both at once (3 trials: 500 Mbit/s to 9.6 Gbit/s)"
    assert answer("b", probe(busy=0.97)).endswith("the network may carry more: iperf3 used a whole core")


@pytest.mark.parametrize("remote", ["10.0.0.1", "127.0.0.1", "::1"])
def test_a_host_does_not_reach_itself_over_a_network(remote: str) -> None:
    assert "no network: b is this host" in answer("b", probe(remote=remote))


def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.touch()
    assert network("b", "--out", str(there)) == (2, "", f"error: --out: {there} exists; name a new file\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert network("b") == (2, "", f"error: {iperf3.HOW_TO_INSTALL}\n")


def test_what_iperf3_cannot_is_said_as_it_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "iperf3"
    monkeypatch.setenv("PATH", str(tmp_path))
    for printed, said in (('{"error": "unable to connect"}', "unable to connect"), ("dead", "dead")):
        program.write_text(f"#!/bin/sh\necho '{printed}'\n")
        program.chmod(0o755)
        told = f"error: b:7: iperf3 says: {said}; the other host needs: iperf3 --server --port 7\n"
        assert network("b", "--port", "7") == (2, "", told)


@pytest.fixture
def server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
    command = ["iperf3", "--server", "--forceflush", "--bind", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            # A connection to see whether it listens would be taken for a client.
            next(line for line in process.stdout if "listening" in line)
            yield port
        finally:
            process.kill()


@pytest.mark.skipif(shutil.which("iperf3") is None, reason=iperf3.HOW_TO_INSTALL)
def test_iperf3_measures_both_ways(server: int, tmp_path: Path) -> None:
    out = tmp_path / "network.json"
    code, printed, told = network(
        "127.0.0.1", "--port", str(server), "--seconds", "1", "--trials", "1", "--out", str(out)
    )
    assert code == 0, told
    assert "each way, both at once" in printed
    found = NetworkProbe.model_validate(json.loads(out.read_text()))
    assert found.trials[0].bytes_per_s > 0
    assert not found.leaves_host
