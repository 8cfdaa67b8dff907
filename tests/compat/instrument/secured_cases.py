"""Apache Kafka with TLS and SCRAM, as its own documentation has it set up, measured by `highwater bench run`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from highwater.bench.systems import SystemProcess
from highwater.bench.systems.apache_kafka import find_distribution
from highwater.bench.systems.process import listening
from highwater.common.ports import free_ports
from highwater.results.reader import RunResult
from tests.broker.server.certificates import Authority
from tests.compat.instrument.case import WORKLOAD, case, highwater, temporary_directory

_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_READY_WITHIN_S: Final = 120.0


@contextmanager
def _secured_kafka(directory: Path) -> Iterator[tuple[str, Path]]:
    """Its address, and the properties of a client as Kafka's own tools take them, but for the trust store."""
    authority = Authority()
    (directory / "ca.pem").write_text(authority.pem)
    key_store = authority.certify("kafka").write_pkcs12(directory / "kafka.p12", "secret")
    port, controller_port = free_ports(2)
    server = directory / "server.properties"
    server.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={_LOGIN} username="broker" password="broker";
ssl.keystore.type=PKCS12
ssl.keystore.location={key_store}
ssl.keystore.password=secret
ssl.truststore.type=PEM
ssl.truststore.location={directory / "ca.pem"}
log.dirs={directory / "log"}
"""
    )
    client = directory / "client.properties"
    client.write_text(
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={_LOGIN} \\\n  username="bench" \\\n  password="geheim";\n'
        "ssl.ca.location=ca.pem\n"
    )
    distribution = find_distribution("4")
    users = [
        word
        for user, password in (("bench", "geheim"), ("broker", "broker"))
        for word in ("--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]")
    ]
    tool = ["kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(server), *users]
    subprocess.run(distribution.java(*tool), check=True, capture_output=True, timeout=120)
    process = SystemProcess("kafka", distribution.java("kafka.Kafka", str(server)), directory / "kafka.log")
    try:
        process.await_ready(listening(port), lambda: None, _READY_WITHIN_S)
        yield f"127.0.0.1:{port}", client
    finally:
        process.stop()


@case
def a_kafka_with_tls_and_a_login_is_measured() -> None:
    directory = temporary_directory()
    (directory / "workload.yaml").write_text(yaml.safe_dump(WORKLOAD), "utf-8")
    with _secured_kafka(directory) as (address, client):
        highwater(
            "bench", "run", str(directory / "workload.yaml"), "--out", str(directory / "result"), "--quiet",
            "--launcher", "process", "--bootstrap-servers", address, "--command-config", str(client),
        )  # fmt: skip
    (trial,) = RunResult(directory / "result").trials
    assert trial.summary.delivery.received == trial.summary.delivery.acked == 3000
    assert trial.summary.system.connection == {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    told = [path for path in (directory / "result").rglob("*") if path.is_file() and b"geheim" in path.read_bytes()]
    assert not told, told
