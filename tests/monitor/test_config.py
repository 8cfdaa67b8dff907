"""The monitor's configuration: defaults, every key, and errors that name file, line and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.common.listen_address import ListenAddress, read_listen_address
from highwater.monitor.alerts.targets import Mail, MailTls, Webhook
from highwater.monitor.config import MonitorConfig, read_config, with_options
from highwater.monitor.history.kinds import DAY_MS, HOUR_MS

EVERYTHING = """
name: orders
bootstrap_servers: broker1:9092,broker2:9092
client:
  security.protocol: SASL_SSL
  sasl.password: ${PASSWORD}
  ssl.ca.location: /etc/ca.pem
tick: 5s
zookeeper: zk1:2181,zk2:2182/kafka
zookeeper_client:
  zookeeper.ssl.client.enable: true
  zookeeper.ssl.keystore.password: ${PASSWORD}
actions: true
messages: true
data: state
web:
  listen: 0.0.0.0:8443
  proxies: [10.0.0.1]
  host_names: [monitor.example]
history:
  address: postgresql://monitor:${PASSWORD}@db/monitor
  raw: 24h
  five_minutes: 14d
  hours: 365d
  max_size: 500 MiB
metrics:
  listen: ":9100"
  token_file: token
  partitions: true
alerts:
  address: https://monitor.example/alerts
  webhooks:
    chat:
      url: https://chat.example/${PASSWORD}
      headers: {Authorization: "${PASSWORD}"}
  mail:
    oncall: {host: mail.example, sender: m@example.org, recipients: [a@example.org], user: m, password: "${PASSWORD}"}
"""


def read(tmp_path: Path, text: str) -> MonitorConfig:
    file = tmp_path / "monitor.yaml"
    file.write_text(text, "utf-8")
    return read_config(file, yaml, {"PASSWORD": "s3cret"})


def test_an_address_alone_is_a_whole_configuration(tmp_path: Path) -> None:
    config = with_options(MonitorConfig("127.0.0.1:9092"))
    assert config == read(tmp_path, "bootstrap_servers: 127.0.0.1:9092")
    assert config.web.listen == ListenAddress("127.0.0.1", 9644)
    assert config.tick_s == 15
    assert config.folder({"XDG_STATE_HOME": "/state"}) == Path("/state/highwater/monitor/127.0.0.1_9092")


def test_every_key_has_its_place(tmp_path: Path) -> None:
    config = read(tmp_path, EVERYTHING)
    assert (config.name, config.tick_s, config.data) == ("orders", 5, tmp_path / "state")
    assert config.client["sasl.password"] == "s3cret"
    assert config.zookeeper is not None
    assert (config.zookeeper.hosts, config.zookeeper.chroot) == ("zk1:2181,zk2:2182", "/kafka")
    assert config.zookeeper_client == {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.password": "s3cret",
    }
    assert (config.has_actions, config.has_messages) == (True, True)
    assert config.web.listen == ListenAddress("0.0.0.0", 8443)
    assert config.web.proxies == ("10.0.0.1",)
    assert config.history.address == "postgresql://monitor:s3cret@db/monitor"
    assert config.history.retention.raw_ms == 24 * HOUR_MS
    assert config.history.retention.minutes_ms == 14 * DAY_MS
    assert config.history.max_bytes == 500 << 20
    assert config.metrics.listen == ListenAddress("127.0.0.1", 9100)
    assert config.metrics.token_file == tmp_path / "token"
    assert config.metrics.has_partitions
    chat, oncall = config.alerts.targets
    assert isinstance(chat, Webhook)
    assert (chat.name, chat.url, chat.headers) == (
        "chat",
        "https://chat.example/s3cret",
        {"Authorization": "s3cret"},
    )
    assert isinstance(oncall, Mail)
    assert (oncall.recipients, oncall.port, oncall.tls) == (("a@example.org",), 587, MailTls.STARTTLS)
    assert "s3cret" not in repr(config.alerts)


def test_hosts_and_their_agents(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    text = """
hosts:
  near: {address: "127.0.0.1:9646"}
  far: {address: "broker1.example.org:9646", token_file: token, brokers: [1, 2]}
"""
    near, far = read(tmp_path, "bootstrap_servers: a:1" + text).hosts
    assert (near.name, near.address, near.port, near.token, near.tls) == ("near", "127.0.0.1", 9646, None, None)
    assert (far.address, far.token, far.brokers) == ("broker1.example.org", "0123456789abcdef", (1, 2))
    assert far.tls is not None  # a token does not cross the network as it is
    assert "0123456789abcdef" not in repr(far)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hosts:\n  h: {}\n", ":2: hosts.h: has no address: write HOST:PORT of its agent"),
        ("hosts:\n  h: {address: x}\n", ":2: hosts.h.address: 'x' is not HOST:PORT"),
        ("hosts:\n  h: {address: 'a b:1'}\n", ":2: hosts.h.address: 'a b:1' is not HOST:PORT of an agent"),
        ("hosts:\n  h: {address: 'h:1', brokers: 1}\n", ":2: hosts.h.brokers: is not a list of whole numbers"),
        ("hosts:\n  h: {address: 'h:1', token: x}\n", ":2: hosts.h.token: unknown key; did you mean token_file?"),
        ("hosts:\n  h: {address: 'h:1', token_file: none}\n", "none: cannot read the token: No such file"),
        ("hosts:\n  h: {address: 'h:1', ca: none}\n", "none: cannot use its certificates: No such file"),
        ("ceilings: [none.json]\n", "none.json: cannot be read: No such file"),
        ("ceilings: [monitor.yaml]\n", "monitor.yaml is not JSON"),
        ("hosts: [h]\n", ":1: hosts: is not a mapping"),
        ("bootstrap_server: a:1", ":1: bootstrap_server: unknown key; did you mean bootstrap_servers?"),
        ("tick: 1h\n", ":1: tick: a tick takes 1 s to 300 s"),
        ("web:\n  listen: nowhere\n", ":2: web.listen: 'nowhere' is not HOST:PORT"),
        ("web:\n  listn: 1\n", ":2: web.listn: unknown key; did you mean listen?"),
        ("client:\n  sasl.password: abc\n", ":2: client.sasl.password: a secret does not belong into a file"),
        ("history:\n  address: postgresql://u:pw@h/d\n", ":2: history.address: a secret does not belong into a file"),
        ("- a\n", "expected a mapping"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert says in str(raised.value)
    assert str(tmp_path / "monitor.yaml") in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "pw" not in str(raised.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("9000", ListenAddress("127.0.0.1", 9000)),
        (":9000", ListenAddress("127.0.0.1", 9000)),
        ("[::1]:0", ListenAddress("::1", 0)),
        ("example.org:1", ListenAddress("example.org", 1)),
    ],
)
def test_where_to_listen(text: str, listen: ListenAddress) -> None:
    assert read_listen_address(text) == listen


@pytest.mark.parametrize("text", ["", "a", "a:", "::1:80", "a:65536", "a:-1"])
def test_where_nobody_can_listen(text: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        read_listen_address(text)


def test_options_go_before_the_file_and_tls_needs_both(tmp_path: Path) -> None:
    config = read(tmp_path, EVERYTHING)
    changed = with_options(config, listen="127.0.0.1:1", data=tmp_path, client={"security.protocol": "PLAINTEXT"})
    assert (changed.web.listen, changed.data) == (ListenAddress("127.0.0.1", 1), tmp_path)
    assert changed.client["security.protocol"] == "PLAINTEXT"
    file = tmp_path / "cert.pem"
    with pytest.raises(UsageError, match="TLS needs both"):
        with_options(MonitorConfig("a:1"), tls_certificate=file)
    with pytest.raises(UsageError, match="no such file"):
        with_options(MonitorConfig("a:1"), tls_certificate=file, tls_key=file)
    file.write_text("")
    with pytest.raises(UsageError, match="exclude each other"):
        with_options(MonitorConfig("a:1"), tls_certificate=file, tls_key=file, is_behind_proxy=True)
    assert with_options(MonitorConfig("a:1"), is_behind_proxy=True).web.proxies == ("127.0.0.1", "::1")
