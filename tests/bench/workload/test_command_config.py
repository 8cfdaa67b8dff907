"""Files of TLS and SASL properties: what is taken, and what each fault says without telling a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.workload.command_config import read_command_config, told_of
from bench.workload.specification import load_specification
from tests.bench.fakes import MINIMAL
from tests.broker.server.certificates import Authority

SECRET = "ge,h= eim"  # noqa: S105
PLAIN = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=bench\nsasl.password={SECRET}\n"


def read(directory: Path, text: str) -> dict[str, str]:
    (directory / "ca.pem").write_text(Authority().pem)
    (directory / "client.properties").write_text(text)
    return read_command_config(directory / "client.properties")


def test_the_names_of_librdkafka_with_paths_beside_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, PLAIN + "# the authority\nssl.ca.location = ca.pem\n")
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bench",
        "sasl.password": SECRET,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }
    assert told_of(found) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("module", "mechanism"), [("plain.PlainLoginModule", "PLAIN"), ("scram.ScramLoginModule", "SCRAM-SHA-512")]
)
def test_what_kafkas_own_clients_are_given(tmp_path: Path, module: str, mechanism: str) -> None:
    found = read(
        tmp_path,
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n"
        '  username="bench" \\\n  password="a, \\\\"b; c";\n',
    )
    assert (found["sasl.username"], found["sasl.password"]) == ("bench", 'a, "b; c')
    found = read(tmp_path, "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    assert found["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("acks=all", 1, "acks: is no setting of TLS or SASL"),
        (PLAIN + "sasl.pasword=x", 5, 'sasl.pasword: no librdkafka property has this name; did you mean "sasl.pass'),
        ("# one\nsecurity.protocol=TLS", 2, "security.protocol: is refused by librdkafka"),
        ("security.protocol=SSL\n\\\n\nssl.ca.location=no.pem", 4, "no.pem: no such file"),
        ("sasl.username=bench", 1, "sasl.username: has no effect with security.protocol=PLAINTEXT"),
        ("security.protocol=SASL_PLAINTEXT\nssl.ca.location=ca.pem", 2, "ssl.ca.location: has no effect with"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", None, "sasl.username and sasl.password must be set"),
        ("ssl.truststore.location=trust.jks", 1, "ssl.truststore.location: is Java's; librdkafka, which makes the"),
        (f"sasl.jaas.config=Krb5LoginModule required keyTab={SECRET};", 1, "is no login by user and password"),
        (f"security.protocol=SASL_SSL\nsasl.mechanism=NONE\nsasl.password={SECRET}", None, "Unsupported SASL mech"),
        ("security.protocol=\\u00", None, "Invalid"),
    ],
)
def test_each_fault_is_one_line_without_a_secret(tmp_path: Path, text: str, line: int | None, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    told = str(raised.value)
    assert told.startswith(f"{tmp_path}/client.properties" + (f":{line}: " if line else ": "))
    assert complaint in told
    assert SECRET not in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("system", "complaint"),
    [
        (
            "{kind: external, bootstrap_servers: 'a:1', command_config: none.properties}",
            "none.properties: no such file",
        ),
        ("{command_config: none.properties}", "w.yaml:9: system.command_config: is for kind: external"),
        (
            "{kind: external, cluster: c, clusters: {c: {bootstrap_servers: 'a:1', command_config: none}}}",
            "/none: no such file",
        ),
        (
            "{kind: external, cluster: c, command_config: none, clusters: {c: {bootstrap_servers: 'a:1'}}}",
            "system.command_config: belongs to one cluster: clusters.c.command_config",
        ),
    ],
)
def test_a_workload_names_the_file_of_its_cluster(tmp_path: Path, system: str, complaint: str) -> None:
    (tmp_path / "w.yaml").write_text(MINIMAL + f"system: {system}\n")
    with pytest.raises(UsageError) as raised:
        load_specification(tmp_path / "w.yaml")
    assert complaint in str(raised.value)


def test_the_wire_driver_has_no_tls(tmp_path: Path) -> None:
    system = "system: {kind: external, bootstrap_servers: 'a:1', command_config: client.properties}\n"
    (tmp_path / "w.yaml").write_text(MINIMAL + "producers: {driver: wire}\n" + system)
    with pytest.raises(UsageError, match=r"producers\.driver: wire has neither TLS nor a login"):
        load_specification(tmp_path / "w.yaml")


def test_no_secret_among_the_settings_of_a_load(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(MINIMAL + f"producers: {{client: {{sasl.password: {SECRET!r}}}}}\n")
    with pytest.raises(
        UsageError, match=r"producers\.client\.sasl\.password: belongs to how clients connect"
    ) as raised:
        load_specification(tmp_path / "w.yaml")
    assert SECRET not in str(raised.value)
