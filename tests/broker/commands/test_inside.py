"""How a command reaches the brokers of a cluster on this host, read from their settings and their output."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from highwater.broker.commands.inside import Inside, inside_address, inside_properties
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.kafka.client.security import tls_context
from highwater.kafka.client.settings import settings_of
from tests.broker.server.certificates import Authority

OLD = "listener INSIDE at port 1\nready: listening on h:2 (a life before)\n"
NEW = "… listener CLIENTS at port 4001\n… listener INSIDE at port 4002\nready: listening on h:4001 (…)\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig(Setting("here", name.replace("__", "."), value) for name, value in settings.items())


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "h:4001"),
        ({"inter__broker__listener__name": "CLIENTS"}, "h:4001"),
        ({"inter__broker__listener__name": "INSIDE"}, "127.0.0.1:4002"),
        (
            {
                "inter__broker__listener__name": "INSIDE",
                "advertised__listeners": "CLIENTS://a:1,INSIDE://[::1]:9000",
            },
            "[::1]:9000",
        ),
    ],
    ids=["alone", "first", "second", "advertised"],
)
def test_the_listener_of_the_brokers_is_asked(settings: dict[str, str], address: str) -> None:
    two = {
        "listeners": "CLIENTS://127.0.0.1:9092,INSIDE://127.0.0.1:0",
        "listener__security__protocol__map": "CLIENTS:PLAINTEXT,INSIDE:PLAINTEXT",
    }
    used = config(**(settings if "listeners" in settings else two | settings))
    assert inside_address(used, OLD + NEW) == address
    assert inside_address(used, "") is None


@pytest.mark.parametrize("kind", ["PKCS12", "PEM", "PEM as text"])
def test_both_clients_come_as_the_broker_does(kind: str, tmp_path: Path) -> None:
    authority = Authority()
    certified = authority.certify("broker")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.pem)
    stores = {
        "PKCS12": {
            "ssl__keystore__location": str(certified.write_pkcs12(tmp_path / "broker.p12", "secret")),
            "ssl__keystore__password": "secret",
            "ssl__truststore__location": str(certified.write_pkcs12(tmp_path / "trusted.p12", "secret")),
            "ssl__truststore__password": "secret",
        },
        "PEM": {
            "ssl__keystore__location": str(certified.write_pem(tmp_path / "broker.pem", "other")),
            "ssl__key__password": "other",
            "ssl__truststore__location": str(trusted),
        },
        "PEM as text": {
            "ssl__keystore__certificate__chain": certified.certificate_pem,
            "ssl__keystore__key": certified.key_pem,
            "ssl__truststore__certificates": authority.pem,
        },
    }
    used = config(
        listeners="SASL_SSL://127.0.0.1:0",
        security__inter__broker__protocol="SASL_SSL",
        sasl__mechanism__inter__broker__protocol="PLAIN",
        listener__name__sasl_ssl__plain__sasl__jaas__config=f'{PLAIN} username="b" password="s3cret" user_b="s3cret";',
        **stores[kind],
    )
    found = inside_properties(used)
    assert (found["security.protocol"], found["sasl.username"]) == ("SASL_SSL", "b")
    inside = Inside({1: "127.0.0.1:9"}, found)
    assert "s3cret" not in repr(inside)
    assert "PRIVATE" not in repr(inside)
    settings = settings_of({"bootstrap.servers": inside.servers, **found})
    assert settings.tls is not None
    assert len(tls_context(settings.tls).get_ca_certs()) == 1 or kind == "PKCS12"  # that one is of no authority
    AdminClient({"bootstrap.servers": inside.servers, "log_level": 0, **found})  # refuses what it cannot read


def test_host_names_are_checked_as_brokers_check_them_and_files_that_are_gone_are_named(tmp_path: Path) -> None:
    tls = {"listeners": "SSL://127.0.0.1:0", "security__inter__broker__protocol": "SSL"}
    own = Authority().certify("broker").write_pem(tmp_path / "broker.pem")
    found = inside_properties(
        config(**tls, ssl__keystore__location=str(own), ssl__endpoint__identification__algorithm="")
    )
    assert found["ssl.endpoint.identification.algorithm"] == "none"
    assert "ssl.ca.pem" not in found
    own.unlink()
    with pytest.raises(ConfigError, match=r"listener SSL: ssl.keystore.location: cannot read .*broker\.pem"):
        inside_properties(config(**tls, ssl__keystore__location=str(own)))
