"""What the web app is made of: the view of the cluster, the users, the settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from highwater.monitor.actions.acting import Actions
from highwater.monitor.alerts.keeper import AlertKeeper
from highwater.monitor.events import Event
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.messages.reading import MessageReader
from highwater.monitor.model import Snapshot
from highwater.monitor.oidc.login import OidcLogin
from highwater.monitor.state import MonitorState
from highwater.monitor.users import Users
from highwater.monitor.web.throttle import ACCOUNT, ADDRESS, LoginThrottle
from highwater.monitor.zookeeper.znode import Znode

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Settings:
    bootstrap: str = "localhost:9092"
    """HOST:PORT,… of the cluster, for the commands that pages show."""
    is_tls: bool = False
    """Browsers reach the app over https: by itself, or through a proxy that it trusts."""
    host_names: frozenset[str] = LOOPBACK_NAMES
    """Names and addresses that browsers may call it by; a request for another one is refused."""
    tick_s: float = 15.0
    base_path: str = ""
    """What browsers have before each path, as `--base-path`."""
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    """Unix time."""
    monotonic_s: Callable[[], float] = time.monotonic

    @property
    def session_cookie(self) -> str:
        return f"{self._cookie_prefix}highwater"

    @property
    def visitor_cookie(self) -> str:
        """The cookie of a browser without a login: it ties the login's form to the browser that requested it."""
        return f"{self._cookie_prefix}highwater-visitor"

    @property
    def _cookie_prefix(self) -> str:
        # Browsers take a __Host- cookie from this very host over https alone, so that no neighbour can set it. It is
        # for the whole host: below a base path a cookie that only https can set has to do.
        if not self.is_tls:
            return ""
        return "__Secure-" if self.base_path else "__Host-"


class ZooKeeperReader(Protocol):
    """Reads znodes for the browser page; `ZooKeeperSource` is one."""

    @property
    def address(self) -> str: ...

    def read(self, path: str, contains: str = "", page: int = 1) -> Znode: ...


@dataclass(frozen=True, slots=True)
class Site:
    view: Callable[[], tuple[Snapshot, Figures] | None]
    """The newest snapshot and its figures; None before the first tick."""
    history: HistoryReader | None
    users: Users
    settings: Settings
    state: Callable[[], MonitorState | None] = lambda: None
    """What the monitor says of itself; None where no monitor runs."""
    alerts: AlertKeeper | None = None
    """None where nobody keeps alerts: pages then show what is found in the newest snapshot alone."""
    zookeeper: ZooKeeperReader | None = None
    """None if the configuration names no ZooKeeper."""
    actions: Actions | None = None
    """None without the switch: then the routes of actions do not exist."""
    messages: MessageReader | None = None
    """None without the switch: then the route of the message viewer does not exist."""
    oidc: OidcLogin | None = None
    """None without a provider: then the routes of its login do not exist."""
    note: Callable[[Event], None] = lambda event: None
    """Writes down what somebody did by the monitor, for the history."""
    accounts: LoginThrottle = field(default_factory=lambda: LoginThrottle(ACCOUNT))
    addresses: LoginThrottle = field(default_factory=lambda: LoginThrottle(ADDRESS))


def bind_problem(host: str, is_tls: bool, is_behind_proxy: bool, has_users: bool) -> str:
    """Why the monitor must not listen on `host`, as a sentence with the way out; empty if it may."""
    if host in LOOPBACK_NAMES:
        return ""
    if not (is_tls or is_behind_proxy):
        return (
            f"{host} can be reached from other hosts, and passwords would cross the network as they are: "
            "give --tls-certificate FILE and --tls-key FILE, or --behind-proxy, or web.proxies in the file of -c."
        )
    if not has_users:
        return (
            f"{host} can be reached from other hosts, and there is no user yet: "
            "add one with `highwater monitor user add`, or begin on 127.0.0.1."
        )
    return ""
