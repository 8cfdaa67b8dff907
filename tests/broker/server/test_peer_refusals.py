"""Log lines about brokers that refuse each other: one for each reason in a minute, with the way out."""

from __future__ import annotations

import ssl

import pytest

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.server.peer_refusals import AGAIN_AFTER_MS, PeerRefusals

INSIDE = Endpoint("INSIDE", "SASL_SSL", "10.0.0.3", 9093)
WORDS = "as User:b", "username and password"


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_reason_is_told_again_after_a_minute_or_if_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    refusals = PeerRefusals()
    for now_ms in range(0, AGAIN_AFTER_MS, 100):
        refusals.login_failed("broker 3", INSIDE, "it is wrong", WORDS, now_ms)
    refusals.login_failed("broker 3", INSIDE, "no such\nuser.", WORDS, AGAIN_AFTER_MS - 1)
    refusals.login_failed("broker 3", INSIDE, "it is wrong", WORDS, AGAIN_AFTER_MS)
    refusals.login_failed("broker 3", INSIDE, "it is wrong", WORDS, AGAIN_AFTER_MS + 1)
    refusals.login_failed("broker 4", INSIDE._replace(port=9094), "it is wrong", WORDS, AGAIN_AFTER_MS + 1)
    where, check = "10.0.0.3:9093 (listener INSIDE) as User:b", "Check username and password"
    assert lines(caplog) == [
        ("WARNING", f"cannot log in to broker 3 at {where}: it is wrong. {check}"),
        ("WARNING", f"cannot log in to broker 3 at {where}: no such user. {check}"),
        ("WARNING", f"cannot log in to broker 3 at {where}: it is wrong. {check}"),
        ("WARNING", f"cannot log in to broker 4 at {where.replace('9093', '9094')}: it is wrong. {check}"),
    ]


def failed(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


def unverified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, message)
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            unverified(18, "self-signed certificate"),
            ": self-signed certificate. At this broker, ssl.truststore.location",
        ),
        (unverified(10, "certificate has expired"), ": certificate has expired. Renew the certificate of that broker"),
        (unverified(64, "IP address mismatch"), ": IP address mismatch. That broker has a certificate for other names"),
        (
            failed("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "certificate required. If that broker refuses the certificate of",
        ),
        (failed("SSLV3_ALERT_HANDSHAKE_FAILURE"), "handshake failure. Compare ssl.enabled.protocols and ssl.cipher"),
        (failed("WRONG_VERSION_NUMBER"), "wrong version number. That port has no TLS: set the same protocol for"),
        (ConnectionResetError(), "ConnectionResetError. The log of that broker may say why; listener INSIDE needs the"),
    ],
)
def test_a_failed_handshake_has_a_way_out(error: OSError, said: str, caplog: pytest.LogCaptureFixture) -> None:
    PeerRefusals().tls_failed("broker 3", INSIDE, error, 0)
    ((level, line),) = lines(caplog)
    assert level == "WARNING"
    assert line.startswith("no TLS with broker 3 at 10.0.0.3:9093 (listener INSIDE): ")
    assert said in line
