"""A web app over a made-up cluster, and browsers with and without a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from starlette.testclient import TestClient

from highwater.monitor.alerts.keeper import AlertKeeper
from highwater.monitor.events import Event
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.model import Snapshot
from highwater.monitor.oidc.login import OidcLogin
from highwater.monitor.passwords import ScryptCost
from highwater.monitor.users import Role, Users
from highwater.monitor.web.app import make_app
from highwater.monitor.web.site import Settings, ZooKeeperReader
from tests.monitor.agents import with_hostile_host, with_hosts
from tests.monitor.clusters import HOSTILE_NAMES, SMALL, UNIX_START_MS, Shape, window, with_transactions

PASSWORD = "correct horse battery"  # noqa: S105 - of tests
CHEAP = ScryptCost(log2_n=4, r=8, p=1)
ORIGIN = "http://localhost:8080"


@dataclass
class Clock:
    now_s: float = UNIX_START_MS / 1000 + 60

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Web:
    users: Users
    clock: Clock
    client: TestClient
    settings: Settings = field(default_factory=Settings)

    def browser(self, role: Role | None = None, address: str = "127.0.0.1") -> TestClient:
        """A browser of its own, logged in as a user of `role`."""
        client = TestClient(
            self.client.app, ORIGIN, follow_redirects=False, client=(address, 50000), raise_server_exceptions=False
        )
        client.portal = self.client.portal  # without one each request starts a thread
        if role is not None:
            assert log_in(client, role.title).status_code == 303
        return client


def seen(shape: Shape) -> tuple[Snapshot, Figures]:
    """With three hosts, whose names are odd in a hostile shape, which has open transactions too."""
    names = ("h1", "h2", HOSTILE_NAMES[0]) if shape.hostile else ("h1", "h2", "h3")
    snapshots = with_hosts(window(shape), *names)
    if shape.hostile:
        snapshots = with_hostile_host(snapshots, HOSTILE_NAMES[0])
        snapshots[-1] = with_transactions(snapshots[-1])
    return snapshots[-1], derive(snapshots)


@contextmanager
def web_app(
    folder: Path,
    shape: Shape | None = SMALL,
    history: HistoryReader | None = None,
    alerts: AlertKeeper | None = None,
    zookeeper: ZooKeeperReader | None = None,
    view: tuple[Snapshot, Figures] | None = None,
    actions: Any = None,
    messages: Any = None,
    oidc: Callable[[Clock], OidcLogin] | None = None,
    has_local: bool = True,
    note: Callable[[Event], None] = lambda event: None,
) -> Iterator[Web]:
    """With one user of each role, whose name is the role's. `shape=None`: before the first snapshot.

    `view` goes before `shape`.
    """
    folder.mkdir(exist_ok=True)
    clock = Clock()
    login = None if oidc is None else oidc(clock)
    users = Users(folder / "users.db", clock, CHEAP)
    for role in Role:
        users.add(role.title, PASSWORD, role)
    if login is not None:
        users.close()
        users = Users(folder / "users.db", clock, CHEAP, issuer=login.settings.issuer, has_local=has_local)
    settings = Settings(monotonic_s=clock, now_ms=lambda: int(clock.now_s * 1000))
    shown = view or (None if shape is None else seen(shape))
    try:
        app = make_app(
            lambda: shown,
            history,
            users,
            settings,
            alerts=alerts,
            zookeeper=zookeeper,
            actions=actions,
            messages=messages,
            oidc=login,
            note=note,
        )
        with TestClient(app, ORIGIN) as client:
            yield Web(users, clock, client, settings)
    finally:
        users.close()


def log_in(client: TestClient, name: str, password: str = PASSWORD, **fields: str) -> httpx2.Response:
    token = form_token(client.get("/login").text)
    return client.post("/login", data={"name": name, "password": password, "form_token": token, **fields})


def form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', page)
    return found[1] if found else ""
