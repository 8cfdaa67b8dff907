"""Answers without a session or a template: refusals, health, styles and script."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from markupsafe import escape
from starlette.responses import PlainTextResponse, Response

from highwater.drawing.svg import STYLE
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


_FOLDER: Final = Path(__file__).parent / "static"
TYPES: Final = {
    "chart.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "monitor.css": "text/css; charset=utf-8",
    "monitor.js": "text/javascript; charset=utf-8",
}


def static_file(call: Call) -> Response:
    name = call.route.path.rpartition("/")[2]
    body, tag = _read(name)
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if call.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers={**headers, "Content-Type": TYPES[name]})


@cache
def _read(name: str) -> tuple[bytes, str]:
    file = STYLE if name == STYLE.name else _FOLDER / name
    body = file.read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:24]}"'


def plain_page(title: str, text: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{escape(title)} – Highwater</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/static/monitor.css"></head>'
        f'<body><main class="narrow"><h1>{escape(title)}</h1><p>{escape(text)}</p>'
        '<p><a href="/">Go to the overview</a></p></main></body></html>'
    )
