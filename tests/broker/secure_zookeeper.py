"""A real ZooKeeper for tests that lets in who has a certificate of our authority, and a login by DIGEST-MD5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.common.ports import free_ports
from tests.broker.server.certificates import Authority
from tests.broker.zookeeper_server import Ensemble, running_zookeeper

USER = "kafka"
PASSWORD = 'pass "word" of the brokers; ä'  # noqa: S105


class SecureZooKeeper(NamedTuple):
    directory: Path
    ensemble: Ensemble
    authority: Authority
    secure_port: int

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.secure_port}"

    def tls(self) -> dict[str, str]:
        """What a client needs to reach it."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self.directory / "broker.pem"),
            "zookeeper.ssl.truststore.location": str(self.directory / "authority.pem"),
        }

    def restart(self, password: str) -> None:
        """With another password of the user, or the same again."""
        write_server_section(self.directory, password)
        with _java_of(self.directory):
            self.ensemble.restart()

    def login(self) -> dict[str, str]:
        return {"zookeeper.sasl.jaas.config.file": str(self.directory / "client.jaas")}


def client_section(password: str = PASSWORD, user: str = USER) -> str:
    quoted = password.replace('"', '\\"')
    return (
        "Client {\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'    username="{user}" password="{quoted}";\n}};\n'
    )


def write_server_section(directory: Path, password: str) -> None:
    quoted = password.replace('"', '\\"')
    (directory / "server.jaas").write_text(
        "Server {\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'    user_{USER}="{quoted}"\n    user_other="of another";\n}};\n'
    )


@contextmanager
def secure_zookeeper(directory: Path, *, login_required: bool = True) -> Iterator[SecureZooKeeper]:
    authority = Authority()
    (directory / "authority.pem").write_text(authority.pem)
    for name in ("server", "broker"):
        authority.certify(name).write_pem(directory / f"{name}.pem")
    write_server_section(directory, PASSWORD)
    (directory / "client.jaas").write_text(client_section())
    (port,) = free_ports(1)
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(directory / "server.pem"),
        "ssl.trustStore.location": str(directory / "authority.pem"),
        "ssl.clientAuth": "need",
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    if login_required:
        settings |= {"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}
    with ExitStack() as stack:
        with _java_of(directory):
            ensemble = stack.enter_context(running_zookeeper(directory, settings=settings))
        yield SecureZooKeeper(directory, ensemble, authority, port)


@contextmanager
def _java_of(directory: Path) -> Iterator[None]:
    """Processes that start meanwhile know who may log in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={directory / 'server.jaas'}")
        yield
