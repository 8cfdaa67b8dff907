"""`highwater broker cluster up | status | down`, with real processes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from highwater.admin.terminal import CommandError
from highwater.broker.commands.detached import wait_until
from highwater.broker.commands.local_cluster import LocalCluster, plan
from highwater.common.ports import free_ports
from tests.admin.calling import COMMAND, Result, call
from tests.broker.server.certificates import Authority
from tests.broker.token_server import CLIENT, SECRET, broker_properties, client_properties, running_token_server


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

    # One broker after another hears of the topic, and a command asks any one of them.
    def all_know() -> bool:
        return all(
            call("topics", "-b", each, "--describe", "--topic", "orders").exit_code == 0 for each in servers.split(",")
        )

    assert wait_until(all_know, 120, "all know of the topic")
    status = call("cluster", "status", directory, "--json")
    assert status.exit_code == 0, status.output
    assert status.json["brokers"] == [1, 2, 3]
    assert status.json["controller"] in (1, 2, 3)
    assert status.json["partitions"] == 4
    assert status.json["bootstrap_servers"] == servers
    assert status.json["answer"] == "healthy: 3 of 3 brokers, 4 partitions in sync"
    assert call("cluster", "status", "-b", servers).output.startswith("healthy: 3 of 3 brokers, 4 partitions in sync\n")
    # The metrics of each broker are on, on loopback, and where the status says.
    assert sorted(status.json["metrics"]) == ["1", "2", "3"]
    for url in status.json["metrics"].values():
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as page:  # noqa: S310 - http on loopback
            assert b"kafka_server_replicamanager_leadercount" in page.read()

    victim = next(process for process in status.json["processes"] if process["name"] == "broker-2")
    os.kill(victim["pid"], signal.SIGKILL)

    def lacks_replicas() -> bool:
        told = call("cluster", "status", directory, "--json")
        return told.exit_code == 1 and len(told.json["under_replicated_partitions"]) == 4

    assert wait_until(lacks_replicas, 120, "the partitions lack a replica")
    left = [each for number, each in enumerate(servers.split(","), start=1) if number != 2]
    alone = ("topics", "--describe", "--under-replicated-partitions", "--json")
    assert wait_until(
        lambda: all(call(*alone, "-b", each).output.count('"partition":') == 4 for each in left), 120, "both know that"
    )
    shown = call("cluster", "status", directory).output
    answer, rest = shown.split("\n", 1)
    assert answer == "4 partitions lack replicas; broker 2 is down"
    assert f"Down: broker 2: process {victim['pid']} ended; it has 4 replicas\n" in rest
    told = call("cluster", "status", directory, "--json").json
    assert (told["brokers"], [broker["id"] for broker in told["brokers_down"]]) == ([1, 3], [2])
    # Metadata list the dead broker for another session timeout.
    (described,) = [call("cluster", "-b", told["bootstrap_servers"], "--json").json]
    assert [broker["id"] for broker in described["brokers"]] == [1, 3]
    assert [broker["id"] for broker in described["brokers_down"]] == [2]
    lines = watched(directory, "--json")
    assert [json.loads(line)["answer"] for line in lines] == [answer] * len(lines)
    assert shown in "\n".join(watched(directory)) + "\n"
    assert_redraws_in_place(directory, answer)

    assert call("cluster", "up", directory).exit_code == 0
    assert wait_until(lambda: call("cluster", "status", directory).exit_code == 0, 120, "all is well again")
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


@pytest.mark.slow
def test_brokers_that_listen_with_tls_and_a_login_alone(directory: Path, tmp_path: Path) -> None:
    """`up` and `status` come as the brokers do, and `status` as another user if it is told to."""
    authority = Authority()
    (tmp_path / "trusted.pem").write_text(authority.pem)
    own = authority.certify("broker").write_pkcs12(tmp_path / "broker.p12", "secret")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = tmp_path / "base.properties"

    config.write_text(
        "listeners=SASL_SSL://127.0.0.1:{port}\n"
        "security.inter.broker.protocol=SASL_SSL\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        "sasl.mechanism.inter.broker.protocol=PLAIN\n"
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={module} "
        'username="b" password="s3cret" user_b="s3cret" user_alice="wonder";\n'
        f"ssl.keystore.location={own}\n"
        "ssl.keystore.password=secret\n"
        f"ssl.truststore.location={tmp_path / 'trusted.pem'}\n"
        "listener.name.sasl_ssl.ssl.client.auth=required\n"
    )
    up = call("cluster", "up", directory, "--brokers", "2", "--base-port", "0", "--config", config)
    assert up.exit_code == 0, up.errors
    files = (directory / "cluster.json", directory / "broker-1" / "server.properties")
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]
    status = call("cluster", "status", directory, "--json")
    assert status.exit_code == 0, status.output
    assert status.json["brokers"] == [1, 2]
    assert status.json["bootstrap_servers"] == up.output.strip()
    client = tmp_path / "alice.properties"
    client.write_text(
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} username="alice" password="wonder";\n'
        f"ssl.ca.location={tmp_path / 'trusted.pem'}\n"
        f"ssl.keystore.location={own}\n"
        "ssl.keystore.password=secret\n"
    )
    assert call("cluster", "status", directory, "--command-config", client).exit_code == 0
    assert call("cluster", "down", directory).exit_code == 0


def test_a_broker_that_others_cannot_reach_is_reported_with_its_address(directory: Path) -> None:
    """The others go on; it is not told of the cluster, and would wait for that for ever."""
    directory.mkdir()
    cluster = plan(directory, 2, None, "127.0.0.1:1", 0, {})
    line = "WARNING broker 2 cannot be reached at 127.0.0.1:1 (listener INSIDE): nobody listens there\n"
    (port,) = free_ports(1)
    for broker_id, said in ((1, line + line.replace("broker 2", "broker 1")), (2, "")):
        (directory / f"broker-{broker_id}").mkdir()
        (directory / f"broker-{broker_id}" / "broker.log").write_text(said)
    assert not cluster.is_ready(2, {1: 2 * len(line), 2: 0}), "an earlier start said that"
    with pytest.raises(CommandError) as raised:
        cluster.is_ready(2, {1: 0, 2: 0})
    assert str(raised.value) == (
        "the brokers do not reach broker-2: 127.0.0.1:1 refuses connections (listener INSIDE). Check its "
        "advertised.listeners, and firewalls"
    )
    with socket.create_server(("127.0.0.1", port)):
        (directory / "broker-1" / "broker.log").write_text(line.replace("127.0.0.1:1 ", f"127.0.0.1:{port} "))
        assert not cluster.is_ready(2, {1: 0, 2: 0}), "it was slow to listen"
    (directory / "broker-2" / "broker.log").write_text("ready: listening on 127.0.0.1:9092 (cluster x)\n")
    assert cluster.is_ready(2, {1: 0, 2: 0})


def test_brokers_that_refuse_each_other_are_told(directory: Path) -> None:
    directory.mkdir()
    cluster = plan(directory, 2, None, "127.0.0.1:1", 0, {})
    refusal = "cannot log in to broker 2 at 127.0.0.1:4001 (listener INSIDE) as User:b: it is wrong. Check username"
    for broker_id, said in ((1, "starting\n"), (2, "listener INSIDE at port 4001\n")):
        (directory / f"broker-{broker_id}").mkdir()
        (directory / f"broker-{broker_id}" / "broker.log").write_text(said)
    log = directory / "broker-1" / "broker.log"
    assert not cluster.is_ready(2, {1: 0, 2: 0})
    log.write_text(f"starting\n2026-11-26 WARNING {refusal}\nmore\n")
    assert not cluster.is_ready(2, {1: len(log.read_text()), 2: 0}), "an earlier start said that"
    with pytest.raises(CommandError) as raised:
        cluster.is_ready(2, {1: 0, 2: 0})
    assert str(raised.value) == f"broker-1 {refusal}"


MODULES = "org.apache.kafka.common.security"


@pytest.mark.slow
def test_a_wrong_password_of_the_brokers_ends_the_start_at_once(directory: Path) -> None:
    login = f'{MODULES}.plain.PlainLoginModule required username="b" password="hush" user_b="another";'
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={login}",
    )
    chosen = [argument for text in settings for argument in ("--set", text)]
    failed = call("cluster", "up", directory, "--brokers", "2", "--base-port", "0", *chosen)
    assert failed.exit_code == 1, failed.errors
    reason = failed.errors.splitlines()[-1]
    assert re.fullmatch(
        r"error: broker-[12] cannot log in to (broker [12]|the controller) at 127\.0\.0\.1:\d+ "
        r"\(listener SASL_PLAINTEXT\) as User:b: SASL_AUTHENTICATION_FAILED \(58\): "
        r"Authentication failed: Invalid username or password\. Check username, "
        r"password and user_b in listener\.name\.sasl_plaintext\.plain\.sasl\.jaas\.config",
        reason,
    )
    assert "hush" not in failed.errors
    left = LocalCluster.load(directory)
    assert left is not None
    assert left.processes == {}


@pytest.mark.slow
def test_brokers_that_log_in_to_each_other_with_tokens(directory: Path, tmp_path: Path) -> None:
    """`up` and `status` come with tokens too; without a token the start ends at once."""
    login = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="{CLIENT}" clientSecret="{{}}";'
    with running_token_server() as server:
        config = tmp_path / "base.properties"

        def up(secret: str) -> Result:
            own = (
                *broker_properties(tmp_path),
                "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
                "listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
                "security.inter.broker.protocol=SASL_PLAINTEXT",
                f"sasl.oauthbearer.token.endpoint.url={server.url}",
                f"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config={login.format(secret)}",
            )
            lines = [line for line in own if not line.startswith("listener.security.protocol.map")]
            config.write_text("\n".join(lines) + "\n")
            return call("cluster", "up", directory, "--brokers", "2", "--base-port", "0", "--config", config)

        refused = up("another")
        assert refused.exit_code == 1, refused.errors
        reason = refused.errors.splitlines()[-1]
        assert "with a token: no token: " in reason
        assert "answers with status 401: invalid_client. Check sasl.oauthbearer.token.endpoint.url and" in reason
        assert call("cluster", "down", directory, "--wipe").exit_code == 0

        started = up(SECRET)
        assert started.exit_code == 0, started.errors
        status = call("cluster", "status", directory, "--json")
        assert status.exit_code == 0, status.output + status.errors
        assert status.json["brokers"] == [1, 2]
        client = tmp_path / "client.properties"
        client.write_text("".join(f"{name}={value}\n" for name, value in client_properties(server).items()))
        own = ("-b", started.output.strip(), "--command-config", client)
        created = call("topics", *own, "--create", "--topic", "t", "--replication-factor", "2")
        assert created.exit_code == 0, created.errors
        sent = call("produce", *own, "--topic", "t", "--producer-property", "acks=all", stdin="1\n")
        assert sent.exit_code == 0, sent.errors
        assert call("cluster", "down", directory).exit_code == 0
        said = "".join(path.read_text() for path in directory.glob("broker-*/broker.log"))
        assert SECRET not in said


def test_what_started_is_stopped_when_another_does_not_start(directory: Path, tmp_path: Path) -> None:
    """Broker 2 would wait for its ZooKeeper, which never answers, and broker 1 lacks its key."""
    Authority().certify("broker").write_pem(tmp_path / "broker-2.pem")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = (
            "listeners=SSL://127.0.0.1:{port}",
            "security.inter.broker.protocol=SSL",
            f"ssl.keystore.location={tmp_path}/broker-{{id}}.pem",
            "zookeeper.connection.timeout.ms=600000",
        )
        failed = call(
            *("cluster", "up", directory, "--brokers", "2", "--base-port", "0"),
            *("--zookeeper", f"127.0.0.1:{silent.getsockname()[1]}"),
            *(argument for text in settings for argument in ("--set", text)),
        )
    assert failed.exit_code == 1, failed.errors
    *stopped, reason = failed.errors.splitlines()
    assert re.match(r"error: broker-1 ended: .*: cannot read .*broker-1\.pem", reason)
    assert "broker-2 stopped" in stopped
    left = LocalCluster.load(directory)
    assert left is not None
    assert left.processes == {}


def watched(directory: Path, *options: str) -> list[str]:
    """The lines of --watch until two looks were shown and the interrupt that ends it."""
    command = [*COMMAND, "cluster", "status", str(directory), "--watch", "--every", "0.2", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while sum("4 partitions lack replicas" in line for line in lines) < 2:
            lines.append(process.stdout.readline().rstrip("\n"))
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        left, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, "")
    return [*lines, *left.splitlines()] if not options else lines


def assert_redraws_in_place(directory: Path, answer: str) -> None:
    """On a terminal each look takes the place of the one before: the cursor goes up, and the lines are erased."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [*COMMAND, "cluster", "status", str(directory), "--watch", "--every", "0.2"]
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown = ""
        while shown.count(answer) < 3:
            shown += os.read(ours, 65536).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # a terminal without a program returns an error and no end of file
            while more := os.read(ours, 65536):
                shown += more.decode(errors="replace")
        assert process.wait(60) == 130
    os.close(ours)
    assert "\x1b[1A\x1b[2K" in shown
    texts = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert max(map(len, texts.splitlines())) <= 80
    assert "Traceback" not in texts


def test_metrics_can_be_moved_and_turned_off_and_old_clusters_keep_their_settings(tmp_path: Path) -> None:
    def listeners(*settings: str) -> list[str | None]:
        """The setting of each broker, with METRICS_PORT for its port."""
        made = plan(tmp_path, 2, None, None, 0, dict(text.split("=") for text in settings))
        found = []
        for broker_id in made.broker_ports:
            lines = made._properties(broker_id).splitlines()
            text = next((line for line in lines if line.startswith("metrics.listener")), None)
            port = made.metrics_ports.get(broker_id)
            found.append(text.replace(f":{port}", ":METRICS_PORT") if text else None)
        return found

    assert listeners() == ["metrics.listener=HTTP://127.0.0.1:METRICS_PORT"] * 2
    opened = listeners("metrics.listener=HTTP://10.0.0.1:{metrics_port}")
    assert opened == ["metrics.listener=HTTP://10.0.0.1:METRICS_PORT"] * 2
    assert listeners("metrics.listener=") == ["metrics.listener="] * 2
    made = plan(tmp_path, 2, None, None, 0, {})
    made.save()
    document = json.loads((tmp_path / "cluster.json").read_text())
    del document["metrics_ports"]
    (tmp_path / "cluster.json").write_text(json.dumps(document))
    assert listeners() == [None, None]


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
    assert f"port {port} cannot be used" in result.errors


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    assert "holds other files" in call("cluster", "up", tmp_path).errors
    for command in ("down", "status"):
        result = call("cluster", command, tmp_path)
        assert result.exit_code == 2
        assert "holds no cluster" in result.errors
