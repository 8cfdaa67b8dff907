"""Certificates and authorities that change under a running broker: who comes sees them, who is there stays."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.handlers.shared.reply import Listener
from highwater.broker.server.listeners import BoundListener
from highwater.broker.server.peer_security import PeerSecurity
from highwater.broker.server.renewables import of_listeners
from highwater.broker.server.renewal import Renewable, Renewal
from highwater.broker.server.tls import renewed_tls_of, tls_of
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from tests.admin.calling import Result, call
from tests.broker.handlers.harness import request_frame
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority, Certified
from tests.waiting import wait_until


def exchange(file: Path, certified: Certified) -> None:
    """As programs that renew certificates do it: whole or not at all."""
    certified.write_pem(file.with_suffix(".new")).replace(file)


class Client:
    """A connection that stays."""

    def __init__(self, port: int, authority: Authority, own: Path | None = None) -> None:
        context = ssl.create_default_context(cadata=authority.pem)
        if own is not None:
            context.load_cert_chain(own)
        self._socket = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), 60), server_hostname="127.0.0.1"
        )

    def is_answered(self) -> bool:
        self._socket.sendall(_framed(request_frame("api_versions", 0)))
        size = int.from_bytes(self._read(4))
        return len(self._read(size)) == size

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data

    def close(self) -> None:
        self._socket.close()


def _framed(request: bytes) -> bytes:
    return len(request).to_bytes(4) + request


def serial_seen_by_openssl(port: int) -> int:
    shown = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}"],
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    ).stdout
    read = ["openssl", "x509", "-noout", "-serial"]
    text = subprocess.run(read, input=shown, capture_output=True, timeout=60, check=True).stdout.decode()
    return int(text.strip().removeprefix("serial="), 16)


def is_told(broker: RunningBroker, text: str) -> bool:
    return text in broker.log_text()


@contextmanager
def running_broker(log_dir: Path, properties: Sequence[str]) -> Iterator[RunningBroker]:
    broker = RunningBroker(log_dir, *(word for each in properties for word in ("--property", each)))
    try:
        yield broker
    finally:
        broker.kill()


@pytest.mark.slow
def test_a_new_certificate_is_seen_and_no_connection_is_lost(tmp_path: Path) -> None:
    authority = Authority()
    store = tmp_path / "broker.pem"
    first = authority.certify("broker")
    first.write_pem(store)
    properties = ["listeners=SSL://127.0.0.1:0", f"ssl.keystore.location={store}"]
    with running_broker(tmp_path / "log", properties=properties) as broker:
        port = broker.port
        old = Client(port, authority)
        assert old.is_answered()
        assert serial_seen_by_openssl(port) == first.certificate.serial_number
        second = authority.certify("broker", "broker.example")
        exchange(store, second)
        wait_until(lambda: serial_seen_by_openssl(port) == second.certificate.serial_number, "the new certificate")
        assert old.is_answered()
        for content, reason in (
            (b"nothing", "neither PEM nor PKCS12"),
            (authority.certify("other", "broker.example"), "the certificate is of CN=other,O=Tests, and before of"),
            (authority.certify("broker"), "lacks the alternative names broker.example"),
        ):
            if isinstance(content, bytes):
                store.write_bytes(content)
            else:
                exchange(store, content)
            wait_until(partial(is_told, broker, reason), reason)
        assert serial_seen_by_openssl(port) == second.certificate.serial_number
        assert old.is_answered()
        assert broker.log_text().count("the old ones stay in force") == 3
        old.close()
        asked = partial(ask_to_read, port, authority, tmp_path)
        answer = asked(store)
        assert answer.exit_code == 1
        assert "lacks the alternative names broker.example" in answer.errors
        third = authority.certify("broker", "broker.example")
        exchange(store, third)
        assert asked(store).exit_code == 0
        assert serial_seen_by_openssl(port) == third.certificate.serial_number
        other = asked(tmp_path / "other.pem")
        assert (other.exit_code, "ssl.keystore.location; restart the broker" in other.errors) == (1, True)


def ask_to_read(port: int, authority: Authority, directory: Path, store: Path) -> Result:
    """Set the place of the key store of the listener."""
    (directory / "ca.pem").write_text(authority.pem)
    client = directory / "client.properties"
    client.write_text(f"security.protocol=SSL\nssl.ca.location={directory / 'ca.pem'}\n")
    setting = f"listener.name.ssl.ssl.keystore.location={store}"
    return call(
        *("configs", "-b", f"127.0.0.1:{port}", "--command-config", client),
        *("--alter", "--broker", "0", "--add-config", setting),
    )


def test_who_asks_is_told_whether_the_files_are_in_force(tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_text("first")
    in_force: list[str] = []

    def read() -> Callable[[], str]:
        text = file.read_text()
        if text == "bad":
            raise ConfigError("it is bad")

        def put_in_force() -> str:
            in_force.append(text)
            return "in force"

        return put_in_force

    async def asked(renewal: Renewal) -> str | None:
        told: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        renewal.look_now(told.set_result)
        return await asyncio.wait_for(told, 60)

    async def story() -> list[str | None]:
        renewal = Renewal([Renewable("the store", [file], read)])
        answers = [await asked(renewal)]
        for text in ("second", "bad"):
            file.write_text(text)
            answers += [await asked(renewal), await asked(renewal)]
        file.write_text("the third")
        answers.append(await asked(renewal))
        await renewal.stop()
        return answers

    bad = "the store: it is bad"
    assert asyncio.run(story()) == [None, None, None, bad, bad, None]
    assert in_force == ["second", "the third"]


def test_a_new_authority_of_clients_counts_for_those_who_come(tmp_path: Path) -> None:
    servers, first, second = Authority(), Authority(), Authority()
    servers.certify("broker").write_pem(tmp_path / "broker.pem")
    own = {each: each.certify("client").write_pem(tmp_path / f"{id(each)}.pem") for each in (first, second)}
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(first.pem)
    properties = [
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.location={tmp_path / 'broker.pem'}",
        f"ssl.truststore.location={trusted}",
        "ssl.client.auth=required",
    ]

    def comes_in(client: Authority) -> bool:
        try:
            connection = Client(port, servers, own[client])
        except OSError:
            return False
        try:
            return connection.is_answered()
        except OSError:
            return False
        finally:
            connection.close()

    with running_broker(tmp_path / "log", properties=properties) as broker:
        port = broker.port
        stays = Client(port, servers, own[first])
        assert stays.is_answered()
        assert not comes_in(second)
        trusted.write_text(second.pem)
        wait_until(lambda: comes_in(second), "the new authority")
        assert not comes_in(first)
        assert stays.is_answered()
        stays.close()


def test_subjects_and_names_change_where_it_is_allowed(tmp_path: Path) -> None:
    authority = Authority()
    store = authority.certify("broker", "a.example").write_pem(tmp_path / "broker.pem")

    def config(**more: str) -> BrokerConfig:
        settings = {
            "ssl.keystore.location": str(store),
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        return BrokerConfig(Setting("test", *item) for item in settings.items())

    present = tls_of(config(), "SSL")
    exchange(store, authority.certify("other", "b.example"))
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn.changes=true"):
        renewed_tls_of(config(), "SSL", present)
    with pytest.raises(ConfigError, match=r"a\.example, .*ssl\.allow.san.changes=true"):
        renewed_tls_of(config(ssl_allow_dn_changes="true"), "SSL", present)
    renewed = renewed_tls_of(config(ssl_allow_dn_changes="true", ssl_allow_san_changes="true"), "SSL", present)
    assert renewed.certificate.subject.rfc4514_string() == "CN=other,O=Tests"


def test_connections_to_other_brokers_change_with_their_listener(tmp_path: Path) -> None:
    authority = Authority()
    store = authority.certify("broker").write_pem(tmp_path / "broker.pem")
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SSL,INSIDE:SSL",
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.location": str(store),
    }
    config = BrokerConfig(Setting("test", *item) for item in settings.items())
    peers = PeerSecurity(config)
    bound = [BoundListener(Listener(name, "127.0.0.1", 1), [], tls_of(config, name)) for name in ("CLIENTS", "INSIDE")]
    endpoint = Endpoint("INSIDE", "SSL", "127.0.0.1", 1)
    clients, inside = of_listeners(config, bound, peers)
    assert clients.files == inside.files == [store]
    before = peers.tls_context(endpoint)
    exchange(store, authority.certify("other"))
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn"):
        inside.read()
    assert peers.tls_context(endpoint) is before
    second = authority.certify("broker")
    exchange(store, second)
    clients.read()()
    assert peers.tls_context(endpoint) is before
    assert f"{second.certificate.serial_number:x}" in inside.read()()
    assert peers.tls_context(endpoint) is not before
    assert bound[1].tls is not None
    assert bound[1].tls.certificate == second.certificate


def test_a_file_counts_when_it_is_the_same_in_two_looks(tmp_path: Path) -> None:
    file = tmp_path / "store"
    renewable = Renewable("it", [file], lambda: lambda: "")
    assert not renewable.changed()
    file.write_text("a")
    assert not renewable.changed()
    file.write_text("ab")
    assert not renewable.changed()
    assert renewable.changed()
    assert not renewable.changed()
    file.unlink()
    assert not renewable.changed()
    assert renewable.changed()
