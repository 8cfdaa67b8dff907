"""The route table: every path of the monitor, and the role that each one needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from highwater.monitor.users import Role, Session
from highwater.monitor.web.site import Site


@dataclass(frozen=True, slots=True)
class Call:
    """A request that the guard has let through."""

    route: Route
    query: Mapping[str, str]
    form: Mapping[str, str] = field(repr=False)
    """Empty unless it is a POST."""
    session: Session | None
    """None on public routes without a login."""
    form_token: str = field(repr=False)
    address: str
    agent: str
    headers: Mapping[str, str]
    site: Site = field(repr=False)
    session_token: str = field(default="", repr=False)
    new_visitor: str = field(default="", repr=False)
    """The visitor's cookie to set with a form, if the browser has neither that cookie nor a session."""


Handler = Callable[[Call], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """A path without variable parts: names travel in the query, so that a path has exactly one spelling.

    `role` is None for what everybody may see. A path that is not in the table does not exist, and a method that has no
    handler is refused.
    """

    path: str
    role: Role | None
    get: Handler | None = None
    post: Handler | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        return (("GET", "HEAD") if self.get else ()) + (("POST",) if self.post else ())

    @property
    def is_for_programs(self) -> bool:
        return self.path.startswith("/api/")
