"""The styles, the script and the icon of the pages, read once."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.responses import Response

from highwater.drawing.svg import STYLE
from highwater.monitor.web.routing import Call

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
