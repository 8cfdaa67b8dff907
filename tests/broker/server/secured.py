"""A broker process with a listener of each security protocol, and what clients need to come in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority, Certified

PASSWORD: Final = "a, secret; x"  # noqa: S105
"""Of alice, in PLAIN."""
_USERS: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Secured:
    """A broker with one listener of each protocol, and what clients need to come in."""

    def __init__(self, broker: RunningBroker, directory: Path, client: Certified, authority: Authority) -> None:
        self.ports = dict(re.findall(r"listener (\w+) at port (\d+)", broker.log_text()))
        self.broker = broker
        self.ca = directory / "ca.pem"
        self.ca.write_text(authority.pem)
        self._certificate = directory / "client.pem"
        self._certificate.write_text(client.certificate_pem)
        self._key = directory / "client.key"
        self._key.write_text(client.key_pem)

    def conf(self, protocol: str, **more: str) -> dict[str, Any]:
        conf = {"bootstrap.servers": f"127.0.0.1:{self.ports[protocol]}", "security.protocol": protocol}
        if protocol.endswith("SSL"):
            conf["ssl.ca.location"] = str(self.ca)
        return conf | {name.replace("_", "."): value for name, value in more.items()}

    def with_certificate(self) -> dict[str, Any]:
        return self.conf("SSL", ssl_certificate_location=str(self._certificate), ssl_key_location=str(self._key))

    def set_password(self, mechanism: ScramMechanism, user: str, password: bytes) -> None:
        admin = AdminClient(self.conf("PLAINTEXT"))
        change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password)
        admin.alter_user_scram_credentials([change])[user].result(60)


@contextmanager
def running_secured(directory: Path, *more: str) -> Iterator[Secured]:
    """more: further lines of the broker's properties."""
    authority = Authority()
    certified = authority.certify("broker")
    (directory / "trusted.pem").write_text(authority.pem)
    properties = directory / "server.properties"
    properties.write_text(
        "\n".join(
            (
                "listeners=" + ",".join(f"{name}://127.0.0.1:0" for name in _PROTOCOLS),
                f"ssl.keystore.location={certified.write_pkcs12(directory / 'broker.p12', 'secret')}",
                "ssl.keystore.password=secret",
                f"listener.name.ssl.ssl.keystore.location={certified.write_pem(directory / 'broker.pem', 'other')}",
                "listener.name.ssl.ssl.key.password=other",
                "listener.name.ssl.ssl.client.auth=required",
                f"listener.name.ssl.ssl.truststore.location={directory / 'trusted.pem'}",
                "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f"listener.name.sasl_plaintext.plain.sasl.jaas.config={_USERS}",
                f"listener.name.sasl_ssl.plain.sasl.jaas.config={_USERS}",
                "connection.failed.authentication.delay.ms=1",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=1",
                *more,
            )
        )
    )
    broker = RunningBroker(directory / "log", "--config", str(properties))
    try:
        yield Secured(broker, directory, authority.certify("client"), authority)
    finally:
        broker.kill()
