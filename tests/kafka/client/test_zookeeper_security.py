"""Settings of a ZooKeeper client, and those that cannot be: one line each, without a secret."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from highwater.kafka.client.zookeeper_security import (
    ZooKeeperLogin,
    ZooKeeperSecurity,
    ZooKeeperSecurityError,
    security_of,
)
from tests.broker.server.certificates import Authority

ENTRY = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="hush";'
TLS = {"zookeeper.ssl.client.enable": "true"}
JAAS = "zookeeper.sasl.jaas.config"


def test_nothing_is_set() -> None:
    assert security_of(lambda _: None) == ZooKeeperSecurity()


def test_a_login_is_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.jaas"
    file.write_text(f"Client {{\n  {ENTRY}\n}};\n")
    for settings in ({JAAS: ENTRY}, {JAAS: file.read_text()}, {f"{JAAS}.file": str(file)}):
        security = security_of(settings.get)
        assert security.login == ZooKeeperLogin("kafka", "hush")
        assert "hush" not in repr(security)
    assert security_of({JAAS: ENTRY, "zookeeper.set.acl": "true"}.get).sets_acls


def test_tls_has_kafkas_defaults(tmp_path: Path) -> None:
    context = security_of(TLS.get).tls
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2
    more = {
        "zookeeper.ssl.enabled.protocols": "TLSv1.2, TLSv1.3",
        "zookeeper.ssl.endpoint.identification.algorithm": "",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
    }
    context = security_of((TLS | more).get).tls
    assert context is not None
    assert not context.check_hostname
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3


def test_stores_are_pem_or_pkcs12(tmp_path: Path) -> None:
    authority = Authority()
    certified = authority.certify("broker")
    (tmp_path / "ca.pem").write_text(authority.pem)
    plain, locked = (certified.write_pem(tmp_path / "a.pem"), certified.write_pem(tmp_path / "b.pem", "hush"))
    stores = (plain, locked, certified.write_pkcs12(tmp_path / "c.p12", "hush"))
    for store in stores:
        settings = TLS | {
            "zookeeper.ssl.keystore.location": str(store),
            "zookeeper.ssl.truststore.location": str(tmp_path / "ca.pem"),
            "zookeeper.set.acl": "true",
        }
        if store != plain:
            settings["zookeeper.ssl.keystore.password"] = "hush"
        context = security_of(settings.get).tls
        assert context is not None
        assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true needs to be somebody"),
        (TLS | {"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true needs to be somebody"),
        ({JAAS: ENTRY, f"{JAAS}.file": "/f"}, "are the same thing"),
        ({f"{JAAS}.file": "/not/there"}, f"{JAAS}.file: cannot read /not/there: No such file"),
        ({JAAS: ENTRY.replace('password="hush"', "")}, "the login has no password: write org.apache"),
        ({JAAS: ENTRY.replace('username="kafka"', "")}, "the login has no username"),
        ({JAAS: ENTRY.replace("DigestLoginModule", "Krb5LoginModule")}, "Krb5LoginModule is not DigestLoginModule"),
        ({JAAS: ENTRY[:-2]}, "a quote missing"),
        ({JAAS: f"Server {{ {ENTRY} }};"}, "no section Client"),
        ({"zookeeper.clientCnxnSocket": "org.example.Mine"}, "org.example.Mine is not one of"),
        (TLS | {"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "NIO has no TLS"),
        (TLS | {"zookeeper.ssl.protocol": "TLSv1.1"}, "zookeeper.ssl.enabled.protocols: name TLSv1.2"),
        (TLS | {"zookeeper.ssl.keystore.location": "/not/there"}, "zookeeper.ssl.keystore.location: cannot read"),
        (TLS | {"zookeeper.ssl.truststore.location": "/not/there"}, "zookeeper.ssl.truststore.location: cannot read"),
    ],
)
def test_what_cannot_be(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ZooKeeperSecurityError, match=reason) as caught:
        security_of(settings.get)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_javas_own_stores_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "k.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ZooKeeperSecurityError, match=r"zookeeper.ssl.keystore.location: .*keytool -importkeystore"):
        security_of((TLS | {"zookeeper.ssl.keystore.location": str(tmp_path / "k.jks")}).get)
