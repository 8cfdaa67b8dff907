"""Delivery to a real web server and a real mail server: tried again, given up, and no secret told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from email import message_from_bytes
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from highwater.common.ports import free_ports
from highwater.monitor.alerts.delivery import MOST_WAITING, Deliverer, Patience, TargetState
from highwater.monitor.alerts.message import AlertMessage
from highwater.monitor.alerts.targets import Mail, MailTls, Target, Webhook
from tests.broker.server.certificates import Authority
from tests.monitor.alerts.receivers import mail_server, web_server
from tests.waiting import wait_until

HASTE = Patience(timeout_s=20.0, first_wait_s=0.01, longest_wait_s=0.05, gives_up_after_s=0.3)
# On a busy machine the first try alone may take longer than haste allows.
PATIENCE = replace(HASTE, gives_up_after_s=60.0)
TOLD = AlertMessage("shop: error opened: größter Lag", "one line\nand – another\n", {"cluster": "shop", "alerts": []})
HIDDEN = "hunter2"

Deliver = Callable[..., Deliverer]


@pytest.fixture
def deliverer() -> Iterator[Deliver]:
    with ExitStack() as stack:

        def make(target: Target, patience: Patience = HASTE) -> Deliverer:
            made = Deliverer([target], patience)
            stack.callback(made.stop)
            return made

        yield make


def settled(deliverer: Deliverer) -> TargetState:
    wait_until(lambda: deliverer.states()[0].waiting == 0, "delivery", within_s=60)
    return deliverer.states()[0]


def webhook(port: int, scheme: str = "http") -> Webhook:
    return Webhook("chat", f"{scheme}://127.0.0.1:{port}/hooks/{HIDDEN}?a=b", {"Authorization": f"Bearer {HIDDEN}"})


def mail(port: int, user: str = "", password: str = "") -> Mail:
    both = ("a@example.org", "b@example.org")
    return Mail("oncall", "127.0.0.1", "monitor@example.org", both, port, MailTls.NONE, user, password)


def test_a_webhook_is_posted_as_json(deliverer: Deliver) -> None:
    with web_server(204) as server:
        made = deliverer(webhook(server.port))
        made.submit(TOLD)
        assert settled(made) == TargetState("chat", sent=1)
        ((path, headers, body),) = server.requests
    assert path == f"/hooks/{HIDDEN}?a=b"
    assert (headers["Content-Type"], headers["Authorization"]) == ("application/json", f"Bearer {HIDDEN}")
    assert json.loads(body) == {
        "text": f"{TOLD.subject}\n{TOLD.text}",
        "subject": TOLD.subject,
        "cluster": "shop",
        "alerts": [],
    }


def test_a_failure_that_may_pass_is_tried_again(deliverer: Deliver) -> None:
    with web_server(503, 429, 500, 200) as server:
        made = deliverer(webhook(server.port), PATIENCE)
        made.submit(TOLD)
        assert settled(made) == TargetState("chat", sent=1)
        assert len(server.requests) == 4


@pytest.mark.parametrize("status", [301, 307, 400, 404])
def test_a_refusal_is_final_and_a_redirect_is_not_followed(deliverer: Deliver, status: int) -> None:
    with web_server(status) as server:
        made = deliverer(webhook(server.port))
        made.submit(TOLD)
        assert settled(made) == TargetState("chat", lost=1, error=f"the answer is HTTP status {status}")
        assert len(server.requests) == 1


def test_a_server_that_is_away_is_given_up_and_the_next_message_is_tried(deliverer: Deliver) -> None:
    made = deliverer(webhook(free_ports(1)[0]))
    made.submit(TOLD)
    made.submit(TOLD)
    assert settled(made) == TargetState("chat", lost=2, error="Connection refused")


def test_a_certificate_that_nobody_trusts_is_refused(
    deliverer: Deliver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    server_pem = authority.certify("receiver").write_pem(tmp_path / "server.pem")
    (tmp_path / "authority.pem").write_text(authority.pem)
    with web_server(certificate=server_pem) as server:
        made = deliverer(webhook(server.port, "https"))
        made.submit(TOLD)
        state = settled(made)
        assert (state.lost, state.error) == (1, "TLS failed: CERTIFICATE_VERIFY_FAILED")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        made.submit(TOLD)
        assert settled(made).sent == 1


def test_mail_reaches_all_recipients(deliverer: Deliver) -> None:
    with mail_server() as server:
        made = deliverer(mail(server.port, user="monitor", password=HIDDEN))
        made.submit(TOLD)
        assert settled(made) == TargetState("oncall", sent=1)
        login, (sender, envelope, letter) = server.requests
    assert login[0] == "AUTH"
    assert sender.startswith("mail FROM:<monitor@example.org>")
    assert envelope["to"] == "rcpt TO:<a@example.org>; rcpt TO:<b@example.org>"
    parsed = message_from_bytes(letter)
    assert str(make_header(decode_header(parsed["Subject"]))) == TOLD.subject
    assert parsed["Auto-Submitted"] == "auto-generated"
    text = parsed.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert text.decode().replace("\r\n", "\n") == TOLD.text


def test_mail_that_is_refused_for_now_is_sent_again(deliverer: Deliver) -> None:
    with mail_server(451, 250) as server:
        made = deliverer(mail(server.port), PATIENCE)
        made.submit(TOLD)
        assert settled(made) == TargetState("oncall", sent=1)
        assert len(server.requests) == 2


def test_mail_that_is_refused_for_good_is_not(deliverer: Deliver) -> None:
    with mail_server(554) as server:
        made = deliverer(mail(server.port))
        made.submit(TOLD)
        assert settled(made) == TargetState("oncall", lost=1, error="the server refuses with SMTP status 554")


def test_a_mail_server_without_tls_gets_no_password(deliverer: Deliver) -> None:
    with mail_server() as server:
        made = deliverer(replace(mail(server.port, "m", HIDDEN), tls=MailTls.STARTTLS))
        made.submit(TOLD)
        assert settled(made).error == "the server does not offer starttls or a login"
        assert server.requests == []


def test_too_many_messages_drop_the_oldest() -> None:
    made = Deliverer([webhook(free_ports(1)[0])], Patience(first_wait_s=60))
    for _ in range(MOST_WAITING + 10):
        made.submit(TOLD)
    state = made.states()[0]
    assert (state.waiting, state.lost) == (MOST_WAITING, 10)
    made.stop()


def test_no_secret_is_shown() -> None:
    shown = f"{webhook(1)!r} {mail(1, user='m', password=HIDDEN)!r}"
    assert HIDDEN not in shown


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("file:///etc/passwd", {}),
        ("ftp://host/", {}),
        ("https:///path", {}),
        ("http://host:99999/", {}),
        ("http://host/a b", {}),
        ("http://host/\r\nX: y", {}),
        ("http://m:hunter2@host/", {}),
        ("http://host/", {"X": "a\r\nY: b"}),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_showing_it(url: str, headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="webhook chat: ") as refused:
        Webhook("chat", url, headers)
    assert HIDDEN not in str(refused.value)


@pytest.mark.parametrize(
    ("recipients", "host", "tls", "reason"),
    [
        ((), "mail.example.org", MailTls.TLS, "no recipients"),
        (("nobody",), "mail.example.org", MailTls.TLS, "'nobody' is not an address"),
        (("a@b\r\nBcc: c@d",), "mail.example.org", MailTls.TLS, "is not an address"),
        (("a@example.org",), "mail.example.org", MailTls.NONE, "a password needs TLS"),
    ],
)
def test_mail_that_cannot_work_is_refused(recipients: tuple[str, ...], host: str, tls: MailTls, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Mail("oncall", host, "m@example.org", recipients, tls=tls, user="m", password=HIDDEN)
