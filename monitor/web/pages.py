"""Templates to responses: the frame of every page, its entity tag, and what it says of an old snapshot."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

from highwater.monitor.users import Role
from highwater.monitor.web.routing import Call
from highwater.reports.svg import readable

_TEMPLATES: Final = Path(__file__).parent / "templates"
NAVIGATION: Final = (
    ("/", "Overview", Role.VIEWER),
    ("/brokers", "Brokers", Role.VIEWER),
    ("/topics", "Topics", Role.VIEWER),
    ("/groups", "Groups", Role.VIEWER),
    ("/events", "Events", Role.VIEWER),
    ("/alerts", "Alerts", Role.VIEWER),
    ("/about", "About", Role.VIEWER),
    ("/users", "Users", Role.ADMIN),
)


@cache
def environment() -> Environment:
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(_TEMPLATES),
        auto_reload=False,
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    made.globals["navigation"] = NAVIGATION
    made.filters["unix_time"] = lambda at_s: f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return made


def render(call: Call, template: str, title: str, status: int = 200, **values: object) -> Response:
    text = environment().get_template(template).render(call=call, title=title, **values)
    response = Response(text, status, media_type="text/html")
    if call.new_visitor:
        set_cookie(call, response, call.site.settings.visitor_cookie, call.new_visitor)
    return response


def set_cookie(call: Call, response: Response, name: str, value: str) -> None:
    """Until the browser ends; the server ends it earlier."""
    response.set_cookie(name, value, path="/", secure=call.site.settings.is_tls, httponly=True, samesite="lax")


def redirect(to: str) -> Response:
    """After a POST, so that a reload does not repeat it."""
    return RedirectResponse(to, status_code=303)
