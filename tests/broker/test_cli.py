"""`highwater broker start`: what cannot be done is told in one line, with the way out, and exit code 2."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.broker.cli import app
from tests.broker.running import COMMAND, RunningBroker, running_broker
from tests.broker.test_stopping import create_topic

DEADLINE_S = 60.0


def start_and_fail(*arguments: str) -> str:
    """Run a start that must not succeed; the one line it says."""
    done = CliRunner().invoke(app, ["start", *arguments])
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_the_one_line_is_all_that_a_process_says(tmp_path: Path) -> None:
    arguments = ["--log-dir", str(tmp_path / "log"), "--property", "num.partitons=1"]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: --property: num.partitons is not a property of a Kafka broker; did you mean num.partitions?\n"
    )


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log"):
        assert "is in use by another broker" in start_and_fail("--log-dir", str(tmp_path / "log"), "--port", "0")


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in start_and_fail("--log-dir", str(tmp_path / "log"), "--port", str(port))
    assert not (tmp_path / "log").exists()


def test_no_log_directory() -> None:
    assert "--log-dir DIR" in start_and_fail("--port", "0")


def test_a_log_directory_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    assert str(path) in start_and_fail("--log-dir", str(path), "--port", "0")


def test_a_log_directory_that_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "log" / "photos").mkdir(parents=True)
    assert "photos" in start_and_fail("--log-dir", str(tmp_path / "log"), "--port", "0")


def test_a_log_directory_that_may_not_be_written() -> None:
    """Not even root may make folders in sysfs."""
    line = start_and_fail("--log-dir", "/sys/highwater", "--port", "0")
    assert "log directory /sys/highwater cannot be used: Operation not permitted" in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--property", "log.segment.byte=1"], "did you mean log.segment.bytes?"),
        (["--property", "num.partitions=none"], "num.partitions: 'none' is not a whole number"),
        (["--property", "num.partitions"], "write it as name=value"),
        (["--property", "process.roles=broker"], "process.roles is not supported"),
        (["--property", "broker.id=1", "--property", "node.id=2"], "set one of them"),
        (["--property", "log.dirs=/a,/a"], "a directory is named twice"),
        (["--property", "listeners=SSL://127.0.0.1:0"], "a listener with TLS needs a key"),
        (["--property", "listeners=nonsense"], "PLAINTEXT://host:port"),
        (["--property", "advertised.listeners=PLAINTEXT://0.0.0.0:1"], "name a host"),
        (["--property", "advertised.listeners=OTHER://h:1"], "OTHER is not one of the listeners"),
        (["--host", "256.1.1.1"], "256.1.1.1"),
        (["--host", "192.0.2.1"], "not an address of this host"),
        (["--config", "/nowhere/server.properties"], "cannot read the configuration file /nowhere/server.properties"),
    ],
)
def test_bad_configuration(tmp_path: Path, arguments: list[str], expected: str) -> None:
    log_dir = [] if "log.dirs" in arguments[-1] else ["--log-dir", str(tmp_path / "log")]
    says_where = any(word in argument for argument in arguments for word in ("--host", "=SSL:", "=nonsense"))
    assert expected in start_and_fail(*log_dir, *([] if says_where else ["--port", "0"]), *arguments)


def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# mine\nbroker.id=0\nnum.partitons=3\n")
    line = start_and_fail("--config", str(path), "--log-dir", str(tmp_path / "log"))
    assert f"{path}:3: num.partitons" in line
    assert "did you mean num.partitions?" in line


def test_another_brokers_directory(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        assert broker.stop() == 0
    line = start_and_fail("--log-dir", str(tmp_path / "log"), "--port", "0", "--property", "broker.id=5")
    assert "broker.id is 0, but this broker's is 5" in line


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    for name in "ab":
        with running_broker(tmp_path / name) as broker:
            assert broker.stop() == 0
            cluster_id = broker.cluster_id
    line = start_and_fail("--log-dir", f"{tmp_path / 'a'},{tmp_path / 'b'}", "--port", "0")
    assert f"{tmp_path / 'b' / 'meta.properties'}: cluster.id is {cluster_id}, but this broker's is" in line


def test_metadata_of_another_cluster(tmp_path: Path) -> None:
    for name in "ab":
        with running_broker(tmp_path / name) as broker:
            assert broker.stop() == 0
    path = tmp_path / "b" / "embedded-metadata.json"
    (tmp_path / "a" / "embedded-metadata.json").rename(path)
    assert f"{path} belongs to cluster" in start_and_fail("--log-dir", str(tmp_path / "b"), "--port", "0")


def test_a_directory_whose_metadata_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        create_topic(broker, "t")
        assert broker.stop() == 0
    (tmp_path / "log" / "embedded-metadata.json").unlink()
    line = start_and_fail("--log-dir", str(tmp_path / "log"), "--port", "0")
    assert "holds t-0 and 2 more, which the broker's metadata does not know" in line
    assert (tmp_path / "log" / "t-0").is_dir()


@pytest.mark.parametrize("contents", ["", "{", "[]", '{"/cluster/id": {"id": "x"}}', '{"/cluster/id": 7}'])
def test_damaged_metadata(tmp_path: Path, contents: str) -> None:
    with running_broker(tmp_path / "log") as broker:
        assert broker.stop() == 0
    path = tmp_path / "log" / "embedded-metadata.json"
    path.write_text(contents)
    assert str(path) in start_and_fail("--log-dir", str(tmp_path / "log"), "--port", "0")
    assert path.read_text() == contents


def test_kafkas_own_server_properties_needs_only_zookeeper_taken_out(tmp_path: Path) -> None:
    """The lines of the file that Apache Kafka ships, and what becomes of them."""
    path = tmp_path / "server.properties"
    path.write_text(
        "broker.id=3\n#listeners=PLAINTEXT://:9092\nnum.network.threads=3\nnum.io.threads=8\n"
        "listeners=PLAINTEXT://127.0.0.1:0\n"
        "socket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\nsocket.request.max.bytes=104857600\n"
        f"log.dirs={tmp_path / 'log'}\nnum.partitions=1\nnum.recovery.threads.per.data.dir=1\n"
        "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
        "transaction.state.log.min.isr=1\nlog.retention.hours=168\nlog.retention.check.interval.ms=300000\n"
        "zookeeper.connection.timeout.ms=18000\ngroup.initial.rebalance.delay.ms=0\n"
    )
    broker = RunningBroker(tmp_path / "log", "--config", str(path))
    try:
        assert broker.address.startswith("127.0.0.1:")
        assert broker.stop() == 0
        warned = [line for line in broker.log_text().splitlines() if "has no effect" in line]
        assert len(warned) == 7
        assert "num.io.threads has no effect: one event loop serves every connection" in "".join(warned)
    finally:
        broker.kill()


def test_the_address_told_is_one_that_works_for_every_family(tmp_path: Path) -> None:
    """librdkafka tries ::1 first for localhost; where a name stands for both, both are listened on."""
    families = {entry[0] for entry in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
    broker = RunningBroker(tmp_path / "log", "--port", "0", "--host", "localhost")
    try:
        assert broker.address == f"localhost:{broker.port}"
        for family in families:
            host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
            socket.create_connection((host, broker.port), DEADLINE_S).close()
    finally:
        broker.kill()


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "highwater", "broker", "--help"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not imported & {
        "uvloop",
        "kio.schema.errors",
        "highwater.broker.server.broker",
        "cramjam",
        "confluent_kafka",
    }
