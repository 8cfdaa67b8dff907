"""TLS and logins of the client, with a process of our broker; refusals are one line without the password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority

pytestmark = pytest.mark.clients

PASSWORD: Final = "a, secret; x"  # noqa: S105
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MODULES: Final = "org.apache.kafka.common.security"


class Secured:
    """A broker with one listener of each protocol, and files of its clients."""

    def __init__(self, broker: RunningBroker, directory: Path, authority: Authority) -> None:
        self.ports = dict(re.findall(r"listener (\w+) at port (\d+)", broker.log_text()))
        self.directory = directory
        self.client = authority.certify("client")
        self.ca = directory / "ca.pem"
        self.ca.write_text(authority.pem)

    def options(self, protocol: str, **more: str) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": f"127.0.0.1:{self.ports[protocol]}",
            "kafka.security.protocol": protocol,
            "kafka.default.api.timeout.ms": "5000",
        }
        if protocol.endswith("SSL"):
            options["kafka.ssl.truststore.location"] = str(self.ca)
        return options | {"kafka." + name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    (directory / "trusted.pem").write_text(authority.pem)
    users = f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    properties = directory / "server.properties"
    properties.write_text(
        "\n".join(
            (
                "listeners=" + ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
                f"ssl.keystore.location={authority.certify('broker').write_pem(directory / 'broker.pem')}",
                "listener.name.ssl.ssl.client.auth=required",
                f"listener.name.ssl.ssl.truststore.location={directory / 'trusted.pem'}",
                "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f"listener.name.sasl_plaintext.plain.sasl.jaas.config={users}",
                f"listener.name.sasl_ssl.plain.sasl.jaas.config={users}",
                "connection.failed.authentication.delay.ms=1",
            )
        )
    )
    broker = RunningBroker(directory / "log", "--config", str(properties))
    try:
        yield Secured(broker, directory, authority)
    finally:
        broker.kill()


def comes_in(options: dict[str, str]) -> bool:
    with Client(settings_of(options)) as client:
        return client.cluster([]).cluster_id is not None


def refusal(options: dict[str, str]) -> str:
    with Client(settings_of(options)) as client, pytest.raises(ClientError) as caught:
        client.cluster([])
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    return text


def login(mechanism: str, user: str = "alice", password: str = PASSWORD) -> dict[str, Any]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{MODULES}.{module} required username="{user}" password="{password}";',
    }


def test_tls_with_certificates_of_both_sides(secured: Secured) -> None:
    plain = secured.client.write_pem(secured.directory / "client.pem")
    locked = secured.client.write_pem(secured.directory / "locked.pem", PASSWORD)
    as_text = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_certificate_chain": secured.client.certificate_pem,
        "ssl_keystore_key": secured.client.key_pem,
    }
    assert comes_in(secured.options("SSL", ssl_keystore_location=str(plain)))
    assert comes_in(secured.options("SSL", ssl_keystore_location=str(locked), ssl_key_password=PASSWORD))
    assert comes_in(secured.options("SSL", **as_text))
    assert "cannot be used: its key is encrypted; set ssl.key.password" in refusal(
        secured.options("SSL", ssl_keystore_location=str(locked))
    )
    assert f"TLS: {secured.ca}, {locked} cannot be used: " in refusal(
        secured.options("SSL", ssl_keystore_location=str(locked), ssl_key_password="wrong")  # noqa: S106
    )


def test_tls_without_the_certificate_that_is_required(secured: Secured) -> None:
    options = secured.options("SSL") | {"kafka.default.api.timeout.ms": "300"}
    assert re.search("certificate required|closed the connection|reset by peer", refusal(options), re.IGNORECASE)


def test_a_broker_that_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority().pem)
    told = refusal(secured.options("SASL_SSL", **login("PLAIN")) | {"kafka.ssl.truststore.location": str(other)})
    assert re.fullmatch(r"TLS with broker 127\.0\.0\.1:\d+ failed: unable to get local issuer certificate", told) or (
        "certificate" in told
    )
    missing = secured.options("SASL_SSL", **login("PLAIN")) | {"kafka.ssl.truststore.location": "/none.pem"}
    assert refusal(missing) == "TLS: /none.pem cannot be used: No such file or directory"


def test_the_name_of_the_host_is_checked(secured: Secured) -> None:
    named = secured.options("SASL_SSL", **login("PLAIN"))
    named["kafka.bootstrap.servers"] = named["kafka.bootstrap.servers"].replace("127.0.0.1", "localhost")
    assert "Hostname mismatch" in refusal(named)
    assert comes_in(named | {"kafka.ssl.endpoint.identification.algorithm": ""})


def test_tls_to_a_port_without(secured: Secured) -> None:
    options = secured.options("SASL_SSL", **login("PLAIN"))
    options["kafka.bootstrap.servers"] = f"127.0.0.1:{secured.ports['PLAINTEXT']}"
    options["kafka.default.api.timeout.ms"] = "300"
    refusal(options)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_logins(secured: Secured, protocol: str) -> None:
    assert comes_in(secured.options(protocol, **login("PLAIN")))
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{secured.ports['PLAINTEXT']}"})
    for mechanism, of_client in (
        (ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-256"),
        (ScramMechanism.SCRAM_SHA_512, "SCRAM-SHA-512"),
    ):
        change = UserScramCredentialUpsertion("bob", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([change])["bob"].result(60)
        assert comes_in(secured.options(protocol, **login(of_client, "bob")))
        told = refusal(secured.options(protocol, **login(of_client, "bob", "wrong")))
        assert "refuses the login: SASL_AUTHENTICATION_FAILED (58)" in told
    assert "refuses the login: SASL_AUTHENTICATION_FAILED (58)" in refusal(
        secured.options(protocol, **login("PLAIN", "alice", "wrong"))
    )


@pytest.mark.parametrize(
    ("own", "listener"),
    [("PLAINTEXT", "SASL_PLAINTEXT"), ("PLAINTEXT", "SASL_SSL"), ("SASL_SSL", "SASL_PLAINTEXT"), ("SSL", "PLAINTEXT")],
)
def test_another_protocol_than_that_of_the_listener(secured: Secured, own: str, listener: str) -> None:
    options = secured.options(own, **(login("PLAIN") if own.startswith("SASL") else {}))
    told = refusal(options | {"kafka.bootstrap.servers": f"127.0.0.1:{secured.ports[listener]}"})
    words = f"speaks {listener} at this address, and this client speaks {own}: set security.protocol={listener}"
    assert words in told
