"""TLS and SASL of a real broker, with clients that others wrote; and key stores that cannot be used."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from cryptography.hazmat.primitives.serialization import Encoding
from kafka import KafkaProducer

from highwater.broker.server.tls import tls_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority
from tests.broker.server.secured import PASSWORD, Secured, running_secured
from tests.waiting import wait_until

pytestmark = pytest.mark.clients

VALUE: Final = b"x" * 100_000


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with running_secured(tmp_path_factory.mktemp("secured")) as found:
        yield found


def round_trip(conf: dict[str, Any], topic: str) -> None:
    delivered: list[KafkaError | None] = []
    producer = Producer(conf | {"message.timeout.ms": 30_000})
    producer.produce(topic, VALUE, on_delivery=lambda error, _: delivered.append(error))
    producer.flush(60)
    assert delivered == [None]
    consumer = Consumer(conf | {"group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: list[Any] = []

        def has_come() -> bool:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
            return bool(found)

        wait_until(has_come, f"a record of {topic}")
        assert found == [VALUE]
    finally:
        consumer.close()


def refusal(conf: dict[str, Any]) -> str:
    """What a client is told that is not let in."""
    told: list[KafkaError] = []
    producer = Producer(conf | {"error_cb": told.append, "log_level": 0})

    def refusals() -> list[str]:
        producer.poll(0.1)
        return [str(error) for error in told if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]

    wait_until(refusals, lambda: f"a refusal among {told}")
    return refusals()[0]


def test_tls_with_certificates_of_both_sides(secured: Secured) -> None:
    round_trip(secured.with_certificate(), "tls")


def test_tls_without_the_certificate_that_is_required(secured: Secured) -> None:
    before = secured.broker.log_text().count("did not return a certificate")
    producer = Producer(secured.conf("SSL") | {"log_level": 0})

    def is_logged() -> bool:
        producer.poll(0.1)
        return secured.broker.log_text().count("did not return a certificate") > before

    wait_until(is_logged, "the line of the log")


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_plain(secured: Secured, protocol: str) -> None:
    user = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "a, secret; x"}
    round_trip(secured.conf(protocol, **user), f"plain-{protocol}")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls(secured: Secured, version: ssl.TLSVersion) -> None:
    assert tls_version_spoken(secured, version) == version.name.replace("_", ".")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_an_old_version_of_tls(secured: Secured) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        tls_version_spoken(secured, ssl.TLSVersion.TLSv1_1)
    wait_until(lambda: "unsupported protocol" in secured.broker.log_text().lower(), "the broker refuses the version")


def tls_version_spoken(secured: Secured, version: ssl.TLSVersion) -> str | None:
    context = ssl.create_default_context(cafile=str(secured.ca))
    context.check_hostname = False
    context.set_ciphers("ALL:@SECLEVEL=0")  # else the client would not speak old versions
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", int(secured.ports["SASL_SSL"])), timeout=60) as client,
        context.wrap_socket(client) as spoken,
    ):
        return spoken.version()


def test_plain_with_a_wrong_password(secured: Secured) -> None:
    conf = secured.conf("SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="x")  # noqa: S106
    assert "Invalid username or password" in refusal(conf)


@pytest.mark.parametrize(
    ("protocol", "mechanism", "number"),
    [
        ("SASL_PLAINTEXT", "SCRAM-SHA-256", ScramMechanism.SCRAM_SHA_256),
        ("SASL_SSL", "SCRAM-SHA-512", ScramMechanism.SCRAM_SHA_512),
    ],
)
def test_scram(secured: Secured, protocol: str, mechanism: str, number: ScramMechanism) -> None:
    user = f"user, of = {mechanism}"
    secured.set_password(number, user, b"first")
    conf = secured.conf(protocol, sasl_mechanism=mechanism, sasl_username=user)
    round_trip(conf | {"sasl.password": "first"}, mechanism)
    secured.set_password(number, user, b"second")
    assert "invalid credentials" in refusal(conf | {"sasl.password": "first"})
    assert "second" not in (secured.broker.log_dir / "embedded-metadata.json").read_text()
    admin = AdminClient(secured.conf("PLAINTEXT"))
    admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, number)])[user].result(60)
    assert "invalid credentials" in refusal(conf | {"sasl.password": "second"})


def test_kafka_python_comes_in(secured: Secured) -> None:
    secured.set_password(ScramMechanism.SCRAM_SHA_512, "pythonista", b"secret")
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{secured.ports['SASL_SSL']}",
        security_protocol="SASL_SSL",
        ssl_cafile=str(secured.ca),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="pythonista",
        sasl_plain_password="secret",  # noqa: S106
    )
    try:
        assert producer.send("python", VALUE).get(30).offset == 0
    finally:
        producer.close(10)


def test_nothing_is_answered_before_the_authentication(secured: Secured) -> None:
    metadata = struct.pack(">hhih", 3, 0, 7, -1) + struct.pack(">i", -1)
    with socket.create_connection(("127.0.0.1", int(secured.ports["SASL_PLAINTEXT"])), timeout=60) as client:
        client.sendall(struct.pack(">i", len(metadata)) + metadata)
        assert client.recv(1) == b""


def test_who_is_nobody_yet_cannot_make_the_broker_hold_a_large_frame(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", int(secured.ports["SASL_PLAINTEXT"])), timeout=60) as client:
        client.sendall(struct.pack(">i", 1_000_000))
        assert client.recv(1) == b""


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@contextmanager
def began_with_bare_tokens(secured: Secured) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", int(secured.ports["SASL_PLAINTEXT"])), timeout=60) as client:
        client.sendall(framed(struct.pack(">hhih", 17, 0, 1, -1) + struct.pack(">h", 5) + b"PLAIN"))
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
        assert struct.unpack_from(">ih", client.recv(size, socket.MSG_WAITALL)) == (1, 0)
        yield client


def test_bare_tokens_after_the_first_version_of_the_handshake(secured: Secured) -> None:
    with began_with_bare_tokens(secured) as client:
        client.sendall(framed(b"\0alice\0a, secret; x"))
        assert client.recv(4, socket.MSG_WAITALL) == struct.pack(">i", 0)
        client.sendall(framed(struct.pack(">hhih", 18, 0, 2, -1)))
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
        assert struct.unpack_from(">ih", client.recv(size, socket.MSG_WAITALL)) == (2, 0)


def test_each_refused_login_is_a_line_without_its_password(secured: Secured) -> None:
    before = secured.broker.log_text().count("Invalid username or password")
    for _ in range(5):
        with began_with_bare_tokens(secured) as client:
            client.sendall(framed(b"\0alice\0hush"))
            assert client.recv(1) == b""
    wait_until(
        lambda: secured.broker.log_text().count("Invalid username or password") == before + 5, "a line for each login"
    )
    assert "hush" not in secured.broker.log_text()
    assert PASSWORD not in secured.broker.log_text()


def test_a_handshake_that_never_ends_holds_nobody_up(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", int(secured.ports["SSL"])), timeout=60):
        round_trip(secured.with_certificate(), "beside")


def config_of(**properties: str) -> BrokerConfig:
    return BrokerConfig([Setting("test", name.replace("_", "."), text) for name, text in properties.items()])


def test_pem_in_the_properties_themselves() -> None:
    certified = Authority().certify("broker")
    tls = tls_of(
        config_of(
            ssl_keystore_type="PEM",
            ssl_keystore_certificate_chain=certified.certificate_pem,
            ssl_keystore_key=certified.key_pem,
            ssl_principal_mapping_rules="RULE:CN=(.*),O=.*/$1/U",
        ),
        "SSL",
    )
    assert tls.principal_of_certificate(certified.certificate.public_bytes(Encoding.DER)) == "BROKER"
    assert tls.principal_of_certificate(None) == "ANONYMOUS"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot read .*No such file"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore"),
        (b"garbage", "neither PEM nor PKCS12"),
        (b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "no usable certificate"),
    ],
)
def test_key_stores_that_cannot_be_used(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "keystore"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"listener SSL: ssl.keystore.location: .*{reason}"):
        tls_of(config_of(ssl_keystore_location=str(path)), "SSL")


def test_a_key_with_a_password_that_is_not_told(tmp_path: Path) -> None:
    path = Authority().certify("broker").write_pem(tmp_path / "broker.pem", "secret")
    with pytest.raises(ConfigError, match="no usable certificate and private key"):
        tls_of(config_of(ssl_keystore_location=str(path)), "SSL")


def test_a_listener_that_cannot_be_secured_leaves_nothing_behind(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    with pytest.raises(AssertionError, match="a listener with TLS needs a key"):
        RunningBroker(log_dir, "--property", "listeners=SASL_SSL://127.0.0.1:0")
    assert not log_dir.exists()


def test_tls_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="a listener with TLS needs a key"):
        tls_of(config_of(), "SSL")
