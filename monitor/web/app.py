"""Makes the web app: the route table, and the guard before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as StarletteRoute

from highwater.monitor.actions.acting import Actions
from highwater.monitor.alerts.keeper import AlertKeeper
from highwater.monitor.events import Event
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.messages.reading import MessageReader
from highwater.monitor.model import Snapshot
from highwater.monitor.oidc.login import CALLBACK_PATH, OidcLogin
from highwater.monitor.state import MonitorState
from highwater.monitor.users import Role, Users
from highwater.monitor.web import (
    action_pages,
    cluster_pages,
    data,
    explorer,
    host_pages,
    login_pages,
    message_pages,
    oidc_pages,
    search,
    user_pages,
    zookeeper_pages,
)
from highwater.monitor.web.guard import Guard, accept
from highwater.monitor.web.history_charts import EXPLORER
from highwater.monitor.web.pages import compile_templates
from highwater.monitor.web.plain_pages import TYPES, alive, ready, static_file
from highwater.monitor.web.routing import Route
from highwater.monitor.web.site import Settings, Site, ZooKeeperReader

ROUTES: Final = (
    *(Route(f"/static/{name}", None, static_file) for name in TYPES),
    Route("/healthz", None, alive),
    Route("/readyz", None, ready),
    Route("/login", None, login_pages.login_form, login_pages.login),
    Route("/setup", None, login_pages.set_up_form, login_pages.set_up),
    Route("/", Role.VIEWER, cluster_pages.overview),
    Route("/brokers", Role.VIEWER, cluster_pages.brokers),
    Route("/broker", Role.VIEWER, cluster_pages.broker),
    Route("/topics", Role.VIEWER, cluster_pages.topics),
    Route("/topic", Role.VIEWER, cluster_pages.topic),
    Route("/transactions", Role.VIEWER, cluster_pages.transactions),
    Route("/clients", Role.VIEWER, cluster_pages.clients),
    Route("/retries", Role.VIEWER, cluster_pages.retries),
    Route("/groups", Role.VIEWER, cluster_pages.groups),
    Route("/group", Role.VIEWER, cluster_pages.group),
    Route("/hosts", Role.VIEWER, host_pages.hosts),
    Route("/host", Role.VIEWER, host_pages.host),
    Route("/headroom", Role.VIEWER, host_pages.headroom),
    Route("/events", Role.VIEWER, cluster_pages.events),
    Route(EXPLORER, Role.VIEWER, explorer.explorer_page),
    Route("/alerts", Role.VIEWER, cluster_pages.alerts),
    Route("/zookeeper", Role.VIEWER, zookeeper_pages.browser),
    Route(search.PATH, Role.VIEWER, search.search_page),
    Route("/about", Role.VIEWER, cluster_pages.about),
    *(Route(data.API + name, Role.VIEWER, data.table_as_json) for name in data.TABLES),
    *(Route(data.CSV + name, Role.VIEWER, data.table_as_csv) for name in data.TABLES),
    Route(data.API + "cluster", Role.VIEWER, data.cluster_as_json),
    Route(data.API + "zookeeper", Role.VIEWER, zookeeper_pages.znode_as_json),
    Route("/logout", Role.VIEWER, post=login_pages.logout),
    Route("/account", Role.VIEWER, login_pages.account),
    Route("/account/password", Role.VIEWER, post=login_pages.change_password),
    Route("/account/sessions/end", Role.VIEWER, post=login_pages.end_own_session),
    Route("/users", Role.ADMIN, user_pages.users_page),
    Route("/users/add", Role.ADMIN, post=user_pages.add_user),
    Route("/users/role", Role.ADMIN, post=user_pages.set_role),
    Route("/users/password", Role.ADMIN, post=user_pages.set_password),
    Route("/users/disable", Role.ADMIN, post=user_pages.set_disabled),
    Route("/users/remove", Role.ADMIN, post=user_pages.remove_user),
    Route("/users/sessions/end", Role.ADMIN, post=user_pages.end_session),
)


# They exist where somebody switched actions on, and nowhere else.
ACTION_ROUTES: Final = tuple(
    Route(action_pages.ROOT + name, Role.OPERATOR, action_pages.form, action_pages.act) for name in action_pages.FORMS
)


MESSAGE_ROUTES: Final = (Route(message_pages.PATH, Role.OPERATOR, message_pages.form, message_pages.read),)


# Before a login, as /login is: what comes there is checked by the state that the browser got from us.
OIDC_ROUTES: Final = (
    Route(login_pages.BEGIN_PATH, None, oidc_pages.begin),
    Route(CALLBACK_PATH, None, oidc_pages.come_back),
)


def routes_of(site: Site) -> tuple[Route, ...]:
    return (
        *ROUTES,
        *(OIDC_ROUTES if site.oidc is not None else ()),
        *(ACTION_ROUTES if site.actions is not None else ()),
        *(MESSAGE_ROUTES if site.messages is not None else ()),
    )


def make_app(
    view: Callable[[], tuple[Snapshot, Figures] | None],
    history: HistoryReader | None,
    users: Users,
    settings: Settings,
    state: Callable[[], MonitorState | None] = lambda: None,
    alerts: AlertKeeper | None = None,
    *,
    zookeeper: ZooKeeperReader | None = None,
    actions: Actions | None = None,
    messages: MessageReader | None = None,
    oidc: OidcLogin | None = None,
    note: Callable[[Event], None] = lambda event: None,
) -> Starlette:
    """`view` returns the newest snapshot with its figures, and None before the first one."""
    site = Site(
        view,
        history,
        users,
        settings,
        state,
        alerts,
        zookeeper=zookeeper,
        actions=actions,
        messages=messages,
        oidc=oidc,
        note=note,
    )
    compile_templates()
    routes = routes_of(site)
    table = {route.path: route for route in routes}
    app = Starlette(
        routes=[_mounted(route) for route in routes],
        middleware=[Middleware(Guard, routes=table, site=site)],
    )
    app.router.redirect_slashes = False
    return app


def _mounted(route: Route) -> StarletteRoute:
    async def endpoint(request: Request) -> Response:
        call = accept(request.scope, route)
        handler = route.post if request.method == "POST" else route.get
        if call is None or handler is None:
            return PlainTextResponse("refused", 403)
        return await run_in_threadpool(handler, call)

    return StarletteRoute(route.path, endpoint, methods=list(route.methods))
