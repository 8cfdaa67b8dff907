"""The one place that decides who may do what: it refuses what the route table does not allow."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from highwater.monitor.users import Role, Session, UsersUnwritableError
from highwater.monitor.web import request_checks
from highwater.monitor.web.plain_pages import plain_page
from highwater.monitor.web.routing import Call, Route
from highwater.monitor.web.site import Site

CALL: Final = "highwater.call"
LIVE_HEADER: Final = "x-live"
"""The header of a page that loads itself again: nobody is there, so it does not make a session last longer."""
_LOG: Final = logging.getLogger(__name__)
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware. What it lets through carries a Call for one route, and only that route's endpoint accepts it."""

    def __init__(self, app: ASGIApp, routes: Mapping[str, Route], site: Site) -> None:
        self._app = app
        self._routes = routes
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded_send = self._with_headers(send)
        try:
            answer = await self._decide(scope, receive)
            await (answer or self._app)(scope, receive, guarded_send)
        except ClientDisconnect:
            return
        except UsersUnwritableError as error:
            _LOG.error("%s %s: %s", scope["method"], scope["path"], error)
            await _refusal(scope, 503, "Not possible now", str(error))(scope, receive, guarded_send)
        except Exception:
            # The traceback names code, not what users sent; the answer says nothing of either.
            _LOG.exception("a page failed: %s %s", scope["method"], scope["path"])
            failed = _refusal(scope, 500, "The monitor has a bug here", "Its log says what happened.")
            await failed(scope, receive, guarded_send)

    async def _decide(self, scope: Scope, receive: Receive) -> Response | None:
        """The refusal, or None after it has put a Call into `scope`."""
        request = Request(scope, receive)
        settings = self._site.settings
        if not request_checks.is_our_host(request.headers.get("host", ""), settings.host_names):
            return _refusal(
                scope, 421, "Not this host", "The monitor is not configured for this host name: see web.host_names."
            )
        route = self._route(scope)
        if route is None:
            return _refusal(scope, 404, "No such page", "The monitor has no page here.")
        if request.method not in route.methods:
            refusal = _refusal(scope, 405, "Not possible here", f"This page does not take {request.method}.")
            refusal.headers["Allow"] = ", ".join(route.methods)
            return refusal
        cookies = _cookies(request.headers)
        token = cookies.get(settings.session_cookie, "")
        is_use = LIVE_HEADER not in request.headers
        session = await run_in_threadpool(self._site.users.session, token, is_use) if token else None
        if route.role is not None:
            if session is None:
                return self._to_login(request, route)
            if session.user.role < route.role:
                return await self._forbidden(request, session, route.role)
        query = request_checks.query_fields(scope.get("query_string", b""))
        if query is None:
            return _refusal(scope, 400, "Not understood", "The part of the address after “?” is not well formed.")
        visitor = cookies.get(settings.visitor_cookie, "")
        owner = token if session else visitor
        form: dict[str, str] = {}
        if request.method == "POST":
            checked = await self._form(request, owner)
            if isinstance(checked, Response):
                return checked
            form = checked
        new_visitor = secrets.token_urlsafe(32) if not owner else ""
        scope[CALL] = Call(
            route=route,
            query=query,
            form=form,
            session=session,
            form_token=request_checks.form_token(owner or new_visitor),
            address=_address(scope),
            agent=request.headers.get("user-agent", ""),
            headers=request.headers,
            site=self._site,
            session_token=token if session else "",
            new_visitor=new_visitor,
        )
        return None

    def _route(self, scope: Scope) -> Route | None:
        """Match paths by equality alone. A path that is spelt another way (`%2e`, `//`, a last `/`) is another path."""
        path: str = scope["path"]
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and raw.partition(b"?")[0] != path.encode("utf-8", "surrogatepass"):
            return None
        return self._routes.get(path) if not scope.get("root_path") else None

    def _to_login(self, request: Request, route: Route) -> Response:
        if route.is_for_programs or LIVE_HEADER in request.headers or request.method == "POST":
            return _refusal(request.scope, 401, "Log in first", "There is no session, or it has ended.")
        query = request.url.query
        wanted = quote(route.path + (f"?{query}" if query else ""))
        return RedirectResponse("/login" if route.path == "/" else f"/login?next={wanted}", status_code=303)

    async def _forbidden(self, request: Request, session: Session, role: Role) -> Response:
        users, action = self._site.users, f"{request.method} {request.url.path}"
        await run_in_threadpool(users.record, session.user.name, _address(request.scope), action, "", False)
        return _refusal(
            request.scope,
            403,
            "Not allowed",
            f"This needs the role {role.title}, and {session.user.name} has the role {session.user.role.title}. "
            "An admin can change the role.",
        )

    async def _form(self, request: Request, owner: str) -> dict[str, str] | Response:
        own = request_checks.own_origin(request.headers.get("host", ""), is_tls=self._site.settings.is_tls)
        problem = request_checks.cross_site_problem(request.headers, own)
        if problem:
            return _refusal(request.scope, 403, "Refused", problem)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != request_checks.FORM_TYPE:
            return _refusal(request.scope, 415, "Refused", "Only the forms of the monitor's own pages are accepted.")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > request_checks.LARGEST_FORM_BYTES:
                return _refusal(request.scope, 413, "Refused", "The form is larger than any form of the monitor.")
        form = request_checks.form_fields(body)
        if form is None:
            return _refusal(request.scope, 400, "Not understood", "The form is not well formed.")
        if not request_checks.is_form_token(form.pop("form_token", ""), owner):
            return _refusal(
                request.scope, 403, "Refused", "The form is not from this session. Read the page again and repeat."
            )
        return form

    def _with_headers(self, send: Send) -> Send:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if self._site.settings.is_tls:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        return guarded


def accept(scope: Scope, route: Route) -> Call | None:
    """The Call of a request that the guard let through to exactly this route; None for any other request."""
    call = scope.get(CALL)
    return call if isinstance(call, Call) and call.route is route else None


def _refusal(scope: Scope, status: int, title: str, text: str) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"error": text}, status)
    return Response(plain_page(title, text), status, media_type="text/html")


def _cookies(headers: Headers) -> dict[str, str]:
    """A cookie that is there twice counts as none: one of them may be set by somebody else."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name in found:
            twice.add(name)
        found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
