"""The monitor's configuration: its YAML file, the options of the command, and defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from highwater.common.ceilings import Ceilings, CeilingsError, parse_ceilings
from highwater.common.errors import UsageError
from highwater.common.listen_address import LAST_PORT, LOOPBACK, ListenAddress, read_listen_address
from highwater.common.yaml_nodes import read
from highwater.common.yaml_part import Part
from highwater.monitor.alerts.targets import Mail, MailTls, Target, Webhook
from highwater.monitor.history.kinds import Retention
from highwater.monitor.host_source.settings import HostSettings, tls_of, token_of
from highwater.monitor.oidc.settings import OidcSettings, oidc_of
from highwater.monitor.zookeeper.address import ZooKeeperAddress, address_of

_SHORTEST_TICK_S: Final = 1.0
_LONGEST_TICK_S: Final = 300.0
_EXAMPLE: Final = "bootstrap_servers: broker1:9092,broker2:9092"
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9._:%-]{1,253}")
DEFAULT_LISTEN: Final = ListenAddress(LOOPBACK, 9644)
_MAIL_PORTS: Final = {MailTls.STARTTLS: 587, MailTls.TLS: 465, MailTls.NONE: 25}
_Found = TypeVar("_Found")
_PATH: Final = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._~-]*)+")


@dataclass(frozen=True, slots=True)
class WebConfig:
    listen: ListenAddress = DEFAULT_LISTEN
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    host_names: tuple[str, ...] = ()
    """Further names that browsers call the monitor by."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies that end TLS, whose headers are trusted."""
    base_path: str = ""
    """The path of the pages below that of the site, such as `/monitor`; empty for the root."""
    has_local_users: bool = True
    """People may log in with a password that the monitor keeps."""
    oidc: OidcSettings | None = None
    """The provider that people may log in by."""

    @property
    def issuer(self) -> str:
        """What names the provider; empty for none."""
        return "" if self.oidc is None else self.oidc.issuer


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    address: str = "sqlite"
    """`sqlite` for a file in the data folder, a URL of PostgreSQL, or `none`."""
    retention: Retention = field(default_factory=Retention)
    max_bytes: int = 4 << 30


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    listen: ListenAddress | None = None
    """A port of its own without a login, which is for loopback, unless there is a token."""
    token_file: Path | None = None
    """A file with a token; /metrics answers on the port of the pages too, if a request has the token."""
    has_partitions: bool = False
    """Series of every partition, which are many."""


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    targets: tuple[Target, ...] = ()
    address: str = ""
    """Where people open the pages, for links in messages; empty for the address that is listened on."""


@dataclass(frozen=True, slots=True)
class MonitorConfig:
    bootstrap_servers: str
    name: str = ""
    """The cluster's name for people; empty for its first address."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Client properties, named as in librdkafka."""
    tick_s: float = 15.0
    has_actions: bool = False
    """Operators may change the cluster on pages."""
    has_messages: bool = False
    """Operators may read records, which are data of users."""
    zookeeper: ZooKeeperAddress | None = None
    """That of the cluster; None if it has none, or if nobody named it."""
    zookeeper_client: Mapping[str, str] = field(default_factory=dict)
    """`zookeeper.ssl.*` and `zookeeper.sasl.jaas.config` of Kafka's brokers."""
    data: Path | None = None
    """The folder for users and history; None for one of the user's, by the cluster's address."""
    web: WebConfig = WebConfig()
    history: HistoryConfig = HistoryConfig()
    metrics: MetricsConfig = MetricsConfig()
    alerts: AlertsConfig = AlertsConfig()
    hosts: tuple[HostSettings, ...] = ()
    """Hosts with an agent (`highwater tune agent`)."""
    ceilings: tuple[Ceilings, ...] = ()
    """Measured (`highwater bench ceilings`), for headroom."""

    @property
    def shown_name(self) -> str:
        return self.name or self.bootstrap_servers.partition(",")[0]

    def folder(self, environment: Mapping[str, str]) -> Path:
        """The data folder; by default below XDG_STATE_HOME, so that each cluster has its own."""
        if self.data is not None:
            return self.data
        state = environment.get("XDG_STATE_HOME") or str(Path("~").expanduser() / ".local" / "state")
        return Path(state) / "highwater" / "monitor" / re.sub(r"[^A-Za-z0-9._-]", "_", self.shown_name)


def read_config(path: Path, yaml: Any, environment: Mapping[str, str]) -> MonitorConfig:
    """Read the file. Relative paths in it begin at its folder; yaml is the module of PyYAML.

    Raises UsageError that begins with file and line.
    """
    return _config(Part(read(yaml, path, _EXAMPLE), environment, path.parent))


def with_options(
    config: MonitorConfig,
    *,
    listen: str | None = None,
    data: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    is_behind_proxy: bool = False,
    base_path: str | None = None,
    client: Mapping[str, str] | None = None,
    zookeeper: str | None = None,
    zookeeper_client: Mapping[str, str] | None = None,
    has_actions: bool = False,
) -> MonitorConfig:
    """What the command line gives goes before the file. Raises UsageError."""
    web = config.web
    if listen is not None:
        web = replace(web, listen=_checked("--listen", lambda: read_listen_address(listen)))
    if tls_certificate is not None or tls_key is not None:
        web = replace(web, tls_certificate=tls_certificate, tls_key=tls_key)
    if is_behind_proxy and not web.proxies:
        web = replace(web, proxies=("127.0.0.1", "::1"))
    if base_path is not None:
        web = replace(web, base_path=_checked("--base-path", lambda: _base_path(base_path)))
    if zookeeper is not None:
        config = replace(config, zookeeper=_checked("--zookeeper", lambda: address_of(zookeeper)))
    if has_actions:
        config = replace(config, has_actions=True)
    changed = replace(config, web=web, data=data or config.data, client={**config.client, **(client or {})})
    changed = replace(changed, zookeeper_client={**config.zookeeper_client, **(zookeeper_client or {})})
    _check_tls(changed.web)
    return changed


def _base_path(text: str) -> str:
    """Return the path without a slash at its end. Raises UsageError."""
    path = text.rstrip("/")
    if path and not _PATH.fullmatch(path):
        raise UsageError(f"{text!r} is no path such as /monitor: letters, digits, - and _ after each slash")
    return path


def _checked(option: str, read: Callable[[], _Found]) -> _Found:
    try:
        return read()
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _check_tls(web: WebConfig) -> None:
    if (web.tls_certificate is None) != (web.tls_key is None):
        raise UsageError("TLS needs both: --tls-certificate FILE and --tls-key FILE")
    if web.tls_certificate is not None and web.proxies:
        raise UsageError("a certificate and a proxy that ends TLS exclude each other: give one of them")
    for file in (web.tls_certificate, web.tls_key):
        if file is not None and not file.is_file():
            raise UsageError(f"{file}: no such file")


def _config(root: Part) -> MonitorConfig:
    root.check_keys(
        (
            *("name", "bootstrap_servers", "client", "tick", "zookeeper", "zookeeper_client", "actions", "messages"),
            *("data", "web", "history", "metrics", "alerts", "hosts", "ceilings"),
        )
    )
    default = MonitorConfig("")
    tick_s = root.seconds("tick", default.tick_s)
    if not _SHORTEST_TICK_S <= tick_s <= _LONGEST_TICK_S:
        root.fail("tick", f"a tick takes {_SHORTEST_TICK_S:.0f} s to {_LONGEST_TICK_S:.0f} s")
    return MonitorConfig(
        bootstrap_servers=root.text("bootstrap_servers", ""),
        name=root.text("name", ""),
        client=root.texts("client"),
        tick_s=tick_s,
        zookeeper=root.read("zookeeper", address_of),
        zookeeper_client=root.texts("zookeeper_client"),
        has_actions=root.switch("actions", default=False),
        has_messages=root.switch("messages", default=False),
        data=root.path("data"),
        web=_web(root.part("web")),
        history=_history(root.part("history")),
        metrics=_metrics(root.part("metrics")),
        alerts=_alerts(root.part("alerts")),
        hosts=tuple(_host(name, part) for name, part in root.parts("hosts").items()),
        ceilings=tuple(_ceilings(root, path) for path in root.paths("ceilings")),
    )


def _web(part: Part) -> WebConfig:
    part.check_keys(
        ("listen", "tls_certificate", "tls_key", "host_names", "proxies", "base_path", "local_users", "oidc")
    )
    oidc = oidc_of(part.part("oidc")) if "oidc" in part else None
    has_local_users = part.switch("local_users", default=True)
    if oidc is None and not has_local_users:
        part.fail("local_users", "without local users and without oidc nobody could log in")
    return WebConfig(
        listen=part.read("listen", read_listen_address) or DEFAULT_LISTEN,
        tls_certificate=part.path("tls_certificate"),
        tls_key=part.path("tls_key"),
        host_names=part.several("host_names"),
        proxies=part.several("proxies"),
        base_path=part.read("base_path", _base_path) or "",
        has_local_users=has_local_users,
        oidc=oidc,
    )


def _history(part: Part) -> HistoryConfig:
    default = HistoryConfig()
    part.check_keys(("address", "raw", "five_minutes", "hours", "events", "max_size"))
    kept = default.retention
    return HistoryConfig(
        address=part.text("address", default.address),
        retention=Retention(
            raw_ms=round(part.seconds("raw", kept.raw_ms / 1000) * 1000),
            minutes_ms=round(part.seconds("five_minutes", kept.minutes_ms / 1000) * 1000),
            hours_ms=round(part.seconds("hours", kept.hours_ms / 1000) * 1000),
            events_ms=round(part.seconds("events", kept.events_ms / 1000) * 1000),
        ),
        max_bytes=part.size_bytes("max_size", default.max_bytes),
    )


def _metrics(part: Part) -> MetricsConfig:
    part.check_keys(("listen", "token_file", "partitions"))
    return MetricsConfig(
        listen=part.read("listen", read_listen_address),
        token_file=part.path("token_file"),
        has_partitions=part.switch("partitions", default=False),
    )


def _alerts(part: Part) -> AlertsConfig:
    part.check_keys(("address", "webhooks", "mail"))
    webhooks = [_webhook(name, each) for name, each in part.parts("webhooks").items()]
    mails = [_mail(name, each) for name, each in part.parts("mail").items()]
    return AlertsConfig((*webhooks, *mails), part.text("address", ""))


def _ceilings(root: Part, path: Path) -> Ceilings:
    try:
        return parse_ceilings(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        root.fail("ceilings", f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    except CeilingsError as error:
        root.fail("ceilings", f"{path} {error}")


def _host(name: str, part: Part) -> HostSettings:
    part.check_keys(("address", "token_file", "ca", "brokers"))
    address = part.read("address", read_listen_address)
    if address is None:
        part.fail(None, "has no address: write HOST:PORT of its agent, such as broker1:9646")
    if not _HOST_NAME.fullmatch(address.host) or address.port == 0:
        part.fail("address", f"{part.text('address')!r} is not HOST:PORT of an agent")
    token_file, authority = part.path("token_file"), part.path("ca")
    try:
        tls = tls_of(address.host, authority)
        token = None if token_file is None else token_of(token_file)
    except UsageError as error:
        part.fail(None, str(error))
    return HostSettings(name, address.host, address.port, token, tls, part.numbers("brokers"))


def _webhook(name: str, part: Part) -> Webhook:
    part.check_keys(("url", "headers"))
    url, headers = part.text("url"), part.headers("headers")
    try:
        return Webhook(name, url, headers)
    except UsageError as error:
        part.fail(None, str(error))


def _mail(name: str, part: Part) -> Mail:
    part.check_keys(("host", "port", "tls", "user", "password", "sender", "recipients"))
    tls = part.choice("tls", MailTls, MailTls.STARTTLS)
    port = part.text("port", str(_MAIL_PORTS[MailTls(tls)]))
    if not port.isdecimal() or not 0 < int(port) <= LAST_PORT:
        part.fail("port", f"{port!r} is not a port")
    host, sender, recipients = part.text("host"), part.text("sender"), part.several("recipients")
    user, password = part.text("user", ""), part.secret("password")
    try:
        return Mail(name, host, sender, recipients, int(port), MailTls(tls), user, password)
    except UsageError as error:
        part.fail(None, str(error))
