"""A cluster that asks for TLS and a login, measured as it is; and what is told to who is not let in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

import highwater.bench.cli
from highwater.bench.systems import broker_client
from highwater.results.environment_key import key_of
from highwater.results.reader import RunResult
from tests.admin.calling import call
from tests.bench.fakes import MINIMAL
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority

PASSWORD: Final = "ge,h= eim"  # noqa: S105
ACLS_OF_THE_BENCH: Final = (
    (
        "--allow-principal User:bench --topic highwater- --resource-pattern-type prefixed --operation Create "
        "--operation Write --operation Read --operation Delete --operation DescribeConfigs"
    ),
)
"""As docs/access-control.md has them."""

pytestmark = [pytest.mark.clients, pytest.mark.slow]


@dataclass(frozen=True, slots=True)
class Secured:
    address: str
    directory: Path

    def client_properties(self, name: str, **changed: str) -> Path:
        properties = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": "ca.pem",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "bench",
            "sasl.password": PASSWORD,
        } | {key.replace("_", "."): value for key, value in changed.items()}
        file = self.directory / name
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items() if value))
        return file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    (directory / "ca.pem").write_text(authority.pem)
    (directory / "w.yaml").write_text(MINIMAL.replace("n: 2", "n: 1") + "for_measurement: false\n")
    key_store = authority.certify("broker").write_pem(directory / "broker.pem")
    properties = directory / "server.properties"
    properties.write_text(
        "listeners=SASL_SSL://127.0.0.1:0\n"
        "security.inter.broker.protocol=SASL_SSL\n"
        f"ssl.keystore.location={key_store}\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        "sasl.mechanism.inter.broker.protocol=PLAIN\n"
        "connection.failed.authentication.delay.ms=1\n"
        "listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
        f'required user_bench="{PASSWORD}" user_admin="{PASSWORD}";\n'
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"
        "super.users=User:admin\n"
    )
    broker = RunningBroker(directory / "log", "--config", str(properties))
    try:
        found = Secured(broker.address, directory)
        admin = found.client_properties(
            "admin.properties", sasl_username="admin", ssl_ca_location=str(directory / "ca.pem")
        )
        for arguments in ACLS_OF_THE_BENCH:
            set_acl = call("acls", "-b", broker.address, "--command-config", admin, "--add", *arguments.split())
            assert set_acl.exit_code == 0, set_acl.errors
        yield found
    finally:
        broker.kill()


def run(secured: Secured, out: Path, *options: str | Path, begin: str = "--out") -> Result:
    arguments = ["run", secured.directory / "w.yaml", "--bootstrap-servers", secured.address, begin, out, *options]
    return CliRunner().invoke(
        highwater.bench.cli.app, [str(part) for part in (*arguments, "--launcher", "process", "--quiet")]
    )


def test_it_is_measured_and_no_result_has_its_password(secured: Secured, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = run(secured, out, "--command-config", secured.client_properties("client.properties"))
    assert ended.exit_code in (0, 4), ended.output  # 4: a busy host, whose figures are not to be trusted
    result = RunResult(out)
    (trial,) = result.trials
    assert trial.summary.delivery.received == trial.summary.delivery.acked == 300
    assert trial.summary.system.connection == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert key_of(result).facts["connection.security.protocol"] == "SASL_SSL"
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not [text for text in written if PASSWORD.encode() in text]

    # Another way in is another measurement, also under the same name.
    (out / "manifest.json").write_text((out / "manifest.json").read_text().replace('"done"', '"interrupted"'))
    plain = secured.client_properties("client.properties", security_protocol="SASL_PLAINTEXT", ssl_ca_location="")
    refused = run(secured, out, "--command-config", plain, begin="--resume")
    assert refused.exit_code == 5, refused.output
    assert "came in by SASL_SSL PLAIN, and now it is SASL_PLAINTEXT PLAIN" in refused.stderr


def test_who_is_not_let_in_is_told_why(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: dict[str, Path | None] = {
        "something listens there: if it wants TLS or a login, give --command-config FILE": None,
        "Invalid username or password": secured.client_properties("a", sasl_username="eve"),
        "certificate verify failed": secured.client_properties("b", ssl_ca_location=""),
        "SCRAM-SHA-256": secured.client_properties("c", sasl_mechanism="SCRAM-SHA-256"),
    }
    for reason, file in refused.items():
        options: tuple[str | Path, ...] = ("--command-config", file) if file else ()
        # All of the time is waited for; a busy machine may need more of it.
        for timeout_s in (4.0, 20.0, 60.0):
            monkeypatch.setattr(broker_client, "_TIMEOUT_S", timeout_s)
            ended = run(secured, tmp_path / "out", *options)
            if reason in ended.stderr:
                break
        assert ended.exit_code == 2
        assert reason in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert PASSWORD not in ended.stderr
        assert not (tmp_path / "out").exists()
