"""Kafka's end-to-end authorisation tests over SASL_SSL and SSL: clients of few rights on Kafka 3.9 and on ours.

.venv/bin/python -m tests.compat.apache_kafka.end_to_end_authorization [--ours | --record] [CASE ...]

runs the cases of SaslScramSslEndToEndAuthorizationTest, SaslPlainSslEndToEndAuthorizationTest and
SslEndToEndAuthorizationTest (kafka.api in core/src/test of Apache Kafka) by their names on both (`--ours`: there
alone), and compares both with recorded/end_to_end_authorization.txt, which Kafka wrote (`--record`). One broker of each
kind has a listener for each way to come in. Kafka's tests have a principal builder in Java of their own; in its place
here are the whole name of a certificate, and mapping rules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from highwater.common.ports import free_ports
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority
from tests.compat.apache_kafka.answers.script import Connection
from tests.compat.apache_kafka.authorizer_world import LOCAL, Check, Way
from tests.compat.apache_kafka.end_to_end_cases import COMMON_CASES, SASL_CASES
from tests.compat.apache_kafka.recorded_outcomes import TABLES, Outcomes, Suite, main_of, outcomes
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper
from tests.waiting import wait_until

PASSWORDS: Final = {"alice": "alice, the first", "bob": "bob=b"}
_NAME: Final = """#A client with special chars in CN : (, + " \\ < > ; ')"""
_PRINCIPAL: Final = """User:CN=\\#A client with special chars in CN : (\\, \\+ \\" \\\\ \\< \\> \\; '),O=Tests"""
_MAPPED_NAME: Final = "Alice.Example"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_{user}="{password}"' for user, password in PASSWORDS.items()
)
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SCRAM_CLASS, _PLAIN_CLASS = "SaslScramSslEndToEndAuthorizationTest", "SaslPlainSslEndToEndAuthorizationTest"
_SSL_CLASS, _MAPPED_CLASS = "SslEndToEndAuthorizationTest", "SslEndToEndAuthorizationTest, with mapping rules"
_OF_CLASS: Final[Mapping[str, Mapping[str, Check]]] = {
    _SCRAM_CLASS: COMMON_CASES | SASL_CASES,
    _PLAIN_CLASS: COMMON_CASES | SASL_CASES,
    _SSL_CLASS: COMMON_CASES,
    _MAPPED_CLASS: COMMON_CASES,
}
CASES: Final = tuple(f"{group}.{name}" for group, cases in _OF_CLASS.items() for name in cases)


class _Certificates:
    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self.ca = directory / "ca.pem"
        self.ca.write_text(authority.pem)
        self.broker = authority.certify("broker").write_pem(directory / "broker.pem")
        self.clients = {
            group: authority.certify(name).write_pem(directory / f"client-{number}.pem")
            for number, (group, name) in enumerate(((_SSL_CLASS, _NAME), (_MAPPED_CLASS, _MAPPED_NAME)))
        }

    def properties(self, ports: Sequence[int]) -> dict[str, object]:
        """Of a broker whose first listener is for its administrator; `{port}` is the first port."""
        names = ("SASL_SSL", "SSL", "MAPPED")
        secured = [f"{name}://{LOCAL}:{port}" for name, port in zip(names, ports, strict=True)]
        return {
            "listeners": ",".join((f"PLAINTEXT://{LOCAL}:{{port}}", *secured)),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,MAPPED:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.mapped.ssl.client.auth": "required",
            "listener.name.mapped.ssl.principal.mapping.rules": "RULE:^CN=([^,.]+).*$/$1/L",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_PLAIN};",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
            "listener.name.sasl_ssl.connections.max.reauth.ms": 1500,
            "connection.failed.authentication.delay.ms": 1,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS",
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "log.cleaner.dedupe.buffer.size": 1 << 21,
        }

    def way(self, group: str, inside: int, ports: Sequence[int]) -> Way:
        sasl, ssl, mapped = ports
        principals = {_SSL_CLASS: _PRINCIPAL}

        def login(user: str) -> dict[str, Any]:
            if user == "admin":
                return {"bootstrap.servers": f"{LOCAL}:{inside}"}
            own: dict[str, Any] = {"ssl.ca.location": str(self.ca)}
            if group in self.clients:
                pem = str(self.clients[group])
                port = ssl if group == _SSL_CLASS else mapped
                own |= {"security.protocol": "SSL", "ssl.certificate.location": pem, "ssl.key.location": pem}
                return own | {"bootstrap.servers": f"{LOCAL}:{port}"}
            mechanism = "PLAIN" if group == _PLAIN_CLASS else "SCRAM-SHA-256"
            own |= {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": user}
            return own | {"sasl.password": PASSWORDS[user], "bootstrap.servers": f"{LOCAL}:{sasl}"}

        return Way(Connection(inside), None, login, principals.get(group, "User:alice"))


def _of_broker(certificates: _Certificates, inside: int, ports: Sequence[int], names: Sequence[str]) -> Outcomes:
    _make_users(certificates, inside, ports)
    found: dict[str, str] = {}
    for number, (group, cases) in enumerate(_OF_CLASS.items()):
        wanted = {f"{number}-{name.replace(', ', '-')}": name for name in cases if f"{group}.{name}" in names}
        named = {short: cases[name] for short, name in wanted.items()}
        way = certificates.way(group, inside, ports)
        found |= {f"{group}.{wanted[short]}": told for short, told in outcomes(way, named, list(named)).items()}
        way.admin.close()
    return found


def _make_users(certificates: _Certificates, inside: int, ports: Sequence[int]) -> None:
    """And wait until they are let in: the broker learns of them from ZooKeeper."""
    admin = AdminClient({"bootstrap.servers": f"{LOCAL}:{inside}"})
    for user, password in PASSWORDS.items():
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
        )
        admin.alter_user_scram_credentials([change])[user].result(60)
        login = certificates.way(_SCRAM_CLASS, inside, ports).login(user)
        wait_until(partial(_is_let_in, login), f"{user} is let in")


def _is_let_in(login: dict[str, Any]) -> bool:
    try:
        AdminClient(login | {"log_level": 0}).list_topics(timeout=5)
    except KafkaException:
        return False
    return True


@contextmanager
def _ours(directory: Path, properties: Mapping[str, object]) -> Iterator[int]:
    (port,) = free_ports(1)
    file = directory / "ours.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()).replace("{port}", str(port)))
    broker = RunningBroker(directory / "ours", "--config", str(file))
    try:
        yield port
    finally:
        broker.kill()


def _on_kafka(directory: Path, names: Sequence[str]) -> Outcomes:
    (directory / "log").mkdir()
    certificates, ports = _Certificates(directory), free_ports(3)
    properties = certificates.properties(ports)
    with running_zookeeper(directory) as zookeeper, running_kafka(directory / "log", zookeeper, properties) as kafka:
        return _of_broker(certificates, kafka.port, ports, names)


def _on_ours(directory: Path, names: Sequence[str]) -> Outcomes:
    certificates, ports = _Certificates(directory), free_ports(3)
    with _ours(directory, certificates.properties(ports)) as port:
        return _of_broker(certificates, port, ports, names)


SUITE: Final = Suite(TABLES / "end_to_end_authorization.txt", CASES, _on_kafka, _on_ours)

if __name__ == "__main__":
    sys.exit(main_of(SUITE, sys.argv[1:]))
