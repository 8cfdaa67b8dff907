"""Our own commands, bench, monitor and brokers log in with tokens of a server that others wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

import highwater.bench.cli
from highwater.common.ports import free_ports
from highwater.results.reader import RunResult
from tests.admin.calling import call
from tests.bench.fakes import MINIMAL
from tests.broker.running_cluster import running_cluster
from tests.compat.openid.providers import PLAIN_SECRET, token_server
from tests.compat.openid.token_cases import kafkas_properties, librdkafka_properties, taking_broker, taking_tokens
from tests.monitor.kafka_source.oracle import snapshot_of
from tests.waiting import wait_until

_LIFE_S: Final = 10
_DEADLINE_S: Final = 120


def our_commands_bench_and_monitor_get_tokens() -> None:
    with taking_broker() as (broker, endpoint), tempfile.TemporaryDirectory(prefix="tokens-") as directory:
        file = Path(directory) / "client.properties"
        file.write_text(kafkas_properties(endpoint, "loader"))
        own = ("--bootstrap-server", broker.address, "--command-config", str(file))
        for name, *arguments in (
            ("topics", "--create", "--topic", "t"),
            ("produce", "--topic", "t"),
            ("consume", "--topic", "t", "--from-beginning", "--max-messages", "1"),
            ("acls", "--add", "--allow-principal", "User:stranger", "--consumer", "--topic", "t", "--group", "g"),
        ):
            done = call(name, *own, *arguments, stdin="1\n")
            assert done.exit_code == 0, (name, done.errors)
        _bench(Path(directory), broker.address, file)
        _monitor(broker.address, endpoint)
        assert PLAIN_SECRET not in broker.log_text()


def _bench(directory: Path, address: str, file: Path) -> None:
    workload = directory / "w.yaml"
    workload.write_text(MINIMAL.replace("n: 2", "n: 1") + "for_measurement: false\n")
    out = directory / "out"
    command = ["run", workload, "--bootstrap-servers", address, "--command-config", file, "--out", out, "--quiet"]
    ended = CliRunner().invoke(highwater.bench.cli.app, [*map(str, command), "--launcher", "process"])
    assert ended.exit_code in (0, 4), ended.output  # 4: a busy host, whose figures are not to be trusted
    (trial,) = RunResult(out).trials
    assert trial.summary.delivery.received == trial.summary.delivery.acked == 300
    assert trial.summary.system.connection["sasl.mechanism"] == "OAUTHBEARER"
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not [text for text in written if PLAIN_SECRET.encode() in text]


def _monitor(address: str, endpoint: str) -> None:
    conf = librdkafka_properties(address, endpoint, "loader")
    found = snapshot_of(conf)
    assert {state.error for state in found.sources.values()} == {""}, found.sources
    assert "t" in found.topics
    wrong = snapshot_of(conf | {"sasl.oauthbearer.client.secret": "another"})
    assert "invalid_client" in wrong.sources["kafka"].error
    assert "another" not in str(wrong)


_FLOWS: Final = """\
name: tokens
storage: state
kafka:
  bootstrap.servers: {address}
  security.protocol: SASL_PLAINTEXT
  sasl.mechanism: OAUTHBEARER
  sasl.oauthbearer.token.endpoint.url: {endpoint}
  sasl.oauthbearer.client.id: {client}
  sasl.oauthbearer.client.secret: ${{TOKEN_SECRET}}
  sasl.oauthbearer.scope: kafka
sources:
  numbers:
    format: highwater
    options: {{subscribe: t, startingOffsets: earliest, commitOffsets: readers}}
flows:
  by_batch:
    sql: SELECT key, value FROM numbers
    sink: {{format: highwater, options: {{topic: by_batch}}}}
  by_task:
    sql: SELECT key, value FROM numbers
    sink: {{format: highwater, options: {{topic: by_task, delivery: exactly_once, tasks: 2}}}}
"""


def our_pipelines_get_tokens() -> None:
    """The driver and the workers of Spark: a source, offsets of a group, and a sink of each kind."""
    with taking_broker() as (broker, endpoint), tempfile.TemporaryDirectory(prefix="tokens-") as name:
        directory = Path(name)
        file = directory / "client.properties"
        file.write_text(kafkas_properties(endpoint, "loader"))
        own = ("--bootstrap-server", broker.address, "--command-config", str(file))
        numbers = [str(number) for number in range(100)]
        for topic in ("t", "by_batch", "by_task"):
            assert call("topics", *own, "--create", "--topic", topic, "--partitions", "2").exit_code == 0
        assert call("produce", *own, "--topic", "t", stdin="\n".join(numbers) + "\n").exit_code == 0
        ended = _flows(directory, broker.address, endpoint, "loader", PLAIN_SECRET)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        for topic in ("by_batch", "by_task"):
            asked = ("consume", *own, "--topic", topic, "--from-beginning", "--max-messages", str(len(numbers)))
            assert sorted(call(*asked).output.split()) == sorted(numbers), topic
        assert "readers" in call("groups", *own, "--list").output
        for client, secret, reason in (("loader", "another", "invalid_client"), ("stranger", PLAIN_SECRET, "t")):
            refused = _flows(directory / client, broker.address, endpoint, client, secret)
            assert refused.returncode != 0
            assert reason in refused.stderr, refused.stderr
            assert "Traceback" not in refused.stderr, refused.stderr
            assert secret not in refused.stdout + refused.stderr
        written = [path.read_bytes() for path in directory.rglob("*") if path.is_file() and path != file]
        assert not [text for text in written if PLAIN_SECRET.encode() in text]


def _flows(directory: Path, address: str, endpoint: str, client: str, secret: str) -> subprocess.CompletedProcess[str]:
    directory.mkdir(exist_ok=True)
    (directory / "flows.yaml").write_text(_FLOWS.format(address=address, endpoint=endpoint, client=client))
    return subprocess.run(
        [sys.executable, "-P", "-m", "highwater", "pipeline", "run", "flows.yaml"],
        cwd=directory,
        env=os.environ | {"TOKEN_SECRET": secret},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def our_brokers_get_tokens_for_each_other() -> None:
    """Records are replicated over several lives of a token."""
    with tempfile.TemporaryDirectory(prefix="tokens-") as name:
        directory, (port,) = Path(name), free_ports(1)
        with token_server(port, directory / "provider.log", _LIFE_S) as issuer:
            login = f"OAuthBearerLoginModule required clientId=loader clientSecret={PLAIN_SECRET} scope=kafka;"
            inside = (
                "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
                f"sasl.oauthbearer.token.endpoint.url={issuer}/token",
                f"listener.name.plaintext.oauthbearer.sasl.jaas.config={login}",
                "default.replication.factor=2",
                "min.insync.replicas=2",
                "sasl.oauthbearer.clock.skew.seconds=0",
            )
            with running_cluster(directory, 2, properties=(*taking_tokens(issuer), *inside)) as cluster:
                file = directory / "client.properties"
                file.write_text(kafkas_properties(f"{issuer}/token", "loader"))
                own = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(file))

                new = ("topics", *own, "--create", "--topic", "t", "--replication-factor", "2")
                wait_until(lambda: call(*new).exit_code == 0, "a topic", _DEADLINE_S)
                ends_s = time.monotonic() + 3 * _LIFE_S
                count = 0
                while time.monotonic() < ends_s:
                    sent = call("produce", *own, "--topic", "t", "--producer-property", "acks=all", stdin=f"{count}\n")
                    assert sent.exit_code == 0, sent.errors
                    count += 1
                read = call("consume", *own, "--topic", "t", "--from-beginning", "--max-messages", str(count))
                assert read.output.split() == [str(number) for number in range(count)], read.errors
                logs = "".join(cluster.log_text(broker_id) for broker_id in cluster.ports)
                assert "Traceback" not in logs, logs
                assert PLAIN_SECRET not in logs
