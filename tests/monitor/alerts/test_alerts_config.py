"""The section `alerts` of the configuration: every key, secrets from the environment only, errors with their line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.monitor.alerts.targets import Mail, MailTls, Webhook
from highwater.monitor.config import AlertsConfig, read_config

START = "bootstrap_servers: b:9092\nalerts:\n"
EVERYTHING = """  address: https://monitor.example.org
  webhooks:
    chat:
      url: ${CHAT_URL}
      headers:
        Authorization: Bearer ${TOKEN}
        X-Team: storage
  mail:
    oncall:
      host: mail.example.org
      port: 2525
      tls: tls
      user: monitor
      password: ${MAIL_PASSWORD}
      sender: monitor@example.org
      recipients: [a@example.org, b@example.org]
"""
ENVIRONMENT = {"CHAT_URL": "https://chat.example.org/hooks/T0/B1", "TOKEN": "t0ken", "MAIL_PASSWORD": "hunter2"}


def read(tmp_path: Path, text: str) -> AlertsConfig:
    file = tmp_path / "monitor.yaml"
    file.write_text(START + text, "utf-8")
    return read_config(file, yaml, ENVIRONMENT).alerts


def test_every_key_is_read(tmp_path: Path) -> None:
    both = ("a@example.org", "b@example.org")
    assert read(tmp_path, EVERYTHING) == AlertsConfig(
        (
            Webhook("chat", ENVIRONMENT["CHAT_URL"], {"Authorization": "Bearer t0ken", "X-Team": "storage"}),
            Mail("oncall", "mail.example.org", "monitor@example.org", both, 2525, MailTls.TLS, "monitor", "hunter2"),
        ),
        "https://monitor.example.org",
    )


@pytest.mark.parametrize(("tls", "port"), [("starttls", 587), ("tls", 465), ("none", 25)])
def test_the_port_follows_tls(tmp_path: Path, tls: str, port: int) -> None:
    text = f"  mail: {{m: {{host: h, tls: {tls}, sender: a@b.c, recipients: d@e.f}}}}\n"
    (mail,) = read(tmp_path, text).targets
    assert isinstance(mail, Mail)
    assert mail.port == port


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("  webhook: {}\n", "alerts.webhook: unknown key; did you mean webhooks?"),
        ("  webhooks: {chat: {url: 'file:///etc/passwd'}}\n", "webhook chat: its URL is not"),
        ("  webhooks: {chat: {}}\n", "alerts.webhooks.chat.url: is missing"),
        (
            "  webhooks: {chat: {url: 'http://h/', headers: {Authorization: Bearer x}}}\n",
            "alerts.webhooks.chat.headers.Authorization: a secret does not belong into a file",
        ),
        ("  mail: {m: {host: h, sender: a@b.c}}\n", "alerts.mail.m: mail m: it has no recipients"),
        ("  mail: {m: {tls: ssl}}\n", "alerts.mail.m.tls: 'ssl' is none of starttls, tls, none"),
        ("  mail: {m: {port: 70000}}\n", "alerts.mail.m.port: '70000' is not a port"),
        (
            "  mail: {m: {host: h, sender: a@b.c, recipients: [d@e.f], user: u, password: plain}}\n",
            "alerts.mail.m.password: a secret does not belong into a file",
        ),
        (
            "  mail: {m: {host: h, sender: a@b.c, recipients: [d@e.f], tls: none, user: u, password: '${TOKEN}'}}\n",
            "mail m: a password needs TLS",
        ),
    ],
)
def test_an_error_names_its_line_and_no_secret(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    shown = str(refused.value)
    assert reason in shown
    assert shown.startswith(f"{tmp_path / 'monitor.yaml'}:3")
    assert "t0ken" not in shown
    assert "plain" not in shown
