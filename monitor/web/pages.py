"""Templates to responses: the frame of every page, its entity tag, the words for an old snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import JSONResponse, RedirectResponse, Response

from highwater.common.units import wait_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.model import Snapshot
from highwater.monitor.state import MonitorState
from highwater.monitor.users import Role
from highwater.monitor.web import cells, words
from highwater.monitor.web.routing import Call, Handler
from highwater.monitor.web.tables import address

_TICKS_UNTIL_STALE: Final = 2
_TEMPLATES: Final = Path(__file__).parent / "templates"
NAVIGATION: Final = (
    ("/", "Overview", Role.VIEWER),
    ("/brokers", "Brokers", Role.VIEWER),
    ("/topics", "Topics", Role.VIEWER),
    ("/groups", "Groups", Role.VIEWER),
    ("/clients", "Clients", Role.VIEWER),
    ("/retries", "Retries", Role.VIEWER),
    ("/transactions", "Transactions", Role.VIEWER),
    ("/hosts", "Hosts", Role.VIEWER),
    ("/headroom", "Headroom", Role.VIEWER),
    ("/events", "Events", Role.VIEWER),
    ("/explorer", "Explorer", Role.VIEWER),
    ("/alerts", "Alerts", Role.VIEWER),
    ("/zookeeper", "ZooKeeper", Role.VIEWER),
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
        finalize=lambda value: cells.visible(value) if type(value) is str else value,
    )
    made.globals["navigation"] = NAVIGATION
    made.globals.update(words=words, cells=cells, address_with=address_with, data_address=data_address)
    made.filters["unix_time"] = lambda at_s: words.clock_time(1000 * at_s)
    made.filters["level_class"] = words.LEVEL_CLASSES.__getitem__
    made.filters["level_word"] = words.LEVEL_WORDS.__getitem__
    return made


def compile_templates() -> None:
    """So that the first reader of a page does not wait for it."""
    for name in environment().list_templates():
        environment().get_template(name)


def render(call: Call, template: str, title: str, status: int = 200, **values: object) -> Response:
    view = call.site.view() if call.session else None
    cluster, cluster_id = (view[0].cluster, view[0].cluster_id) if view else ("", "")
    text = (
        environment()
        .get_template(template)
        .render(call=call, title=title, cluster=cluster, cluster_id=cluster_id, **values)
    )
    response = Response(text, status, media_type="text/html")
    if call.new_visitor:
        set_cookie(call, response, call.site.settings.visitor_cookie, call.new_visitor)
    return response


def address_with(call: Call, changes: Mapping[str, object]) -> str:
    """The address of this page with other values in its query."""
    return address(call.route.path, {**call.query, **{key: str(value) for key, value in changes.items()}})


def data_address(call: Call, root: str, name: str, prefix: str) -> str:
    """A table of this page as data, filtered and sorted as the page shows it."""
    of_tables = ("q", "sort", "page", "rows")
    own = {key: value for key, value in call.query.items() if "." not in key and key not in of_tables}
    view = {key: call.query.get(prefix + key, "") for key in ("q", "sort")}
    return address(f"{root}{name}", {**own, **view})


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page of the cluster is made of."""

    snapshot: Snapshot
    figures: Figures
    stale: str
    """Since when nothing new has come, as a sentence; empty while ticks come."""
    failures: int
    """Ticks without a snapshot, and ticks that the history missed: pages show them."""

    @property
    def tag(self) -> str:
        """The number alone would begin anew with the monitor."""
        return f'"{self.snapshot.taken_at_ms}-{self.snapshot.number}-{self.failures}{"-old" if self.stale else ""}"'


def look(call: Call) -> Seen | None:
    view = call.site.view()
    if view is None:
        return None
    snapshot, figures = view
    settings = call.site.settings
    age_s = (settings.now_ms() - snapshot.taken_at_ms) / 1000
    stale = ""
    if age_s > _TICKS_UNTIL_STALE * settings.tick_s:
        stale = (
            f"No news since {words.clock_time(snapshot.taken_at_ms)} ({wait_text(age_s)}): the values are from then."
        )
    return Seen(snapshot, figures, stale, _failures(call.site.state()))


def _failures(state: MonitorState | None) -> int:
    if state is None:
        return 0
    return state.failed_ticks + (state.history.missed_ticks if state.history else 0)


def of_cluster(section: str) -> Callable[[Callable[[Call, Seen], Response]], Handler]:
    """Makes a handler of a function that shows a snapshot; it is called if there is one that the browser lacks."""

    def decorated(page: Callable[[Call, Seen], Response]) -> Handler:
        def handler(call: Call) -> Response:
            seen = look(call)
            if seen is None:
                return _no_snapshot(call, section)
            if call.headers.get("if-none-match") == seen.tag:
                return Response(status_code=304, headers={"ETag": seen.tag})
            response = page(call, seen)
            if response.status_code == 200:
                response.headers["ETag"] = seen.tag
            return response

        return handler

    return decorated


def render_cluster(
    call: Call, seen: Seen, template: str, title: str, section: str, status: int = 200, **values: object
) -> Response:
    return render(
        call,
        template,
        title,
        status,
        section=section,
        seen=seen,
        figures=seen.figures,
        snapshot=seen.snapshot,
        monitor=call.site.state(),
        tick_s=call.site.settings.tick_s,
        **values,
    )


def not_found(call: Call, seen: Seen, section: str, what: str, name: str) -> Response:
    """For a topic, group or broker that the newest snapshot does not have."""
    if call.route.is_for_programs:
        return JSONResponse({"error": f"There is no {what} {name!r} in the newest snapshot."}, 404)
    title = f"No such {what}"
    return render_cluster(call, seen, "not_found.html.j2", title, section, 404, what=what, name=name)


def _no_snapshot(call: Call, section: str) -> Response:
    tick_s = call.site.settings.tick_s
    sentence = f"The monitor has not read the state of the cluster yet. This takes up to {wait_text(tick_s)}."
    if call.route.is_for_programs:
        return JSONResponse({"error": sentence}, 503)
    return render(call, "no_snapshot.html.j2", "No data yet", 503, section=section, sentence=sentence, tick_s=tick_s)


def set_cookie(call: Call, response: Response, name: str, value: str) -> None:
    """Until the browser ends; the server ends it earlier."""
    response.set_cookie(name, value, path="/", secure=call.site.settings.is_tls, httponly=True, samesite="lax")


def redirect(to: str) -> Response:
    """After a POST, so that a reload does not repeat it."""
    return RedirectResponse(to, status_code=303)
