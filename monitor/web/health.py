"""Two addresses for those who watch the monitor: is the process there, and does it see the cluster."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from highwater.monitor.web.pages import look
from highwater.monitor.web.routing import Call


def alive(call: Call) -> Response:
    return PlainTextResponse("ok\n")


def ready(call: Call) -> Response:
    """503 before the first snapshot, and while the newest one is older than two ticks. Says nothing of the cluster."""
    seen = look(call)
    if seen is None:
        return PlainTextResponse("no snapshot yet\n", 503)
    return PlainTextResponse("the newest snapshot is old\n", 503) if seen.stale else PlainTextResponse("ok\n")
