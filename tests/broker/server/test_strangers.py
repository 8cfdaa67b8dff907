"""Clients that speak TLS, HTTP or nothing known to the wrong listener: the log names it, in few lines."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from highwater.broker.handlers.shared.reply import Listener
from highwater.broker.server.strangers import Strangers, handshake_failure, not_kafka
from highwater.common.listener_rules import MOST_LINES, WINDOW_MS
from highwater.common.ports import free_ports
from highwater.kafka.protocol.cold import encode_request
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority
from tests.waiting import wait_until

LISTENER = Listener("OUTSIDE", "10.0.0.1", 9092)


def send_all(port: int, data: bytes) -> None:
    """And wait until the broker closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 60) as client, suppress(ConnectionError):
        client.sendall(data)
        while client.recv(4096):
            pass


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_one_line_for_each_address_and_reason_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    strangers = Strangers()
    for port in range(100):
        strangers.tell(f"192.0.2.1:{port}", "reason", port)
    strangers.tell("192.0.2.1:7", "another", 100)
    strangers.tell("2001:db8::1:7", "reason", 100)
    strangers.tell("192.0.2.1:8", "reason", WINDOW_MS)
    assert lines(caplog) == [
        "closing the connection of 192.0.2.1:0: reason",
        "closing the connection of 192.0.2.1:7: another (99 such connections before this one are not in the log)",
        "closing the connection of 2001:db8::1:7: reason",
        "closing the connection of 192.0.2.1:8: reason",
    ]


def test_a_scan_from_many_addresses_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    strangers = Strangers()
    for number in range(10_000):
        strangers.tell(f"192.0.{number // 256}.{number % 256}:1", "reason", number)
    assert len(caplog.records) == MOST_LINES
    strangers.tell("192.0.2.1:8", "reason", 2 * WINDOW_MS)
    assert f"({10_000 - MOST_LINES} such connections before this one" in lines(caplog)[-1]


def test_a_reason_names_the_way_out() -> None:
    tls, http = bytes.fromhex("1603010200010001"), b"GET / HT"
    assert not_kafka(tls, LISTENER, has_sasl=False) == (
        "it sent a TLS handshake, and listener OUTSIDE has no TLS; set security.protocol=PLAINTEXT for this client, or "
        "have it use a listener with TLS"
    )
    assert "security.protocol=SASL_PLAINTEXT" in (not_kafka(tls, LISTENER, has_sasl=True) or "")
    assert "metrics.listener" in (not_kafka(http, LISTENER, has_sasl=False) or "")
    assert not_kafka(b"SSH-2.0-", LISTENER, has_sasl=False) is None
    assert handshake_failure(TimeoutError(), LISTENER, has_sasl=False) == "its TLS handshake failed: TimeoutError"


@pytest.mark.clients
def test_the_log_of_a_broker_names_what_came_to_the_wrong_listener(tmp_path: Path) -> None:
    ports = plain, with_tls = free_ports(2)
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{with_tls}\n"
        f"ssl.keystore.location={Authority().certify('broker').write_pem(tmp_path / 'broker.pem')}\n"
    )
    frame = encode_request("api_versions", 0, {})
    request = (10 + len(frame)).to_bytes(4, "big") + bytes.fromhex("00120000" + "00000001" + "ffff") + frame
    running = RunningBroker(tmp_path / "log", "--config", str(properties))
    try:
        for _ in range(3):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ssl.create_default_context().wrap_socket(
                    socket.create_connection(("127.0.0.1", plain)), server_hostname="broker"
                )
            for port in ports:
                send_all(port, b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n")
            send_all(with_tls, request)
            send_all(plain, b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n")
        wanted = (
            "it sent a TLS handshake, and listener PLAINTEXT has no TLS",
            "it sent an HTTP request, and listener PLAINTEXT is for Kafka's protocol",
            "it sent an HTTP request without TLS, and listener SSL has TLS",
            "it sent no TLS, and listener SSL has TLS; set security.protocol=SSL",
            "malformed request: a frame claims",
        )
        for text in wanted:
            wait_until(lambda text=text: text in running.log_text(), f"the log says: {text}")  # type: ignore[misc]
        closed = [line for line in running.log_text().splitlines() if "closing the connection of 127.0.0.1:" in line]
        assert len(closed) < 3 * len(wanted), closed
    finally:
        running.kill()
