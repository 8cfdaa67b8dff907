"""Serves the pages below a path of a proxy's site, while no page knows of it."""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Texts of a page have no quotation mark that is not escaped: what this finds are attributes of its own.
_ADDRESS: Final = re.compile(rb'(?<= )(href|src|action)="(?=/)')
_COOKIE_PATH: Final = re.compile(r"(;\s*path=)/(?=;|$)", re.IGNORECASE)


def with_base_path(app: ASGIApp, base: str) -> ASGIApp:
    """`base`: without a slash at its end; empty for none. What is not below it is a page that does not exist."""

    async def based(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        inner = {**scope, "path": _inner(scope["path"], base)}
        if scope.get("raw_path") is not None:
            inner["raw_path"] = _inner(scope["raw_path"].decode("latin-1"), base).encode("latin-1")
        await app(inner, receive, _Answer(send, base).send)

    return based if base else app


def _inner(path: str, base: str) -> str:
    """The path that the app knows, and an empty one, which nothing has, for a path that is not below `base`."""
    if path == base:
        return "/"
    return path.removeprefix(base) if path.startswith(f"{base}/") else ""


class _Answer:
    """Puts the base path into the headers and the page of an answer."""

    def __init__(self, send: Send, base: str) -> None:
        self._send = send
        self._base = base
        self._start: Message | None = None
        self._page = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if headers.get("location", "").startswith("/"):
                headers["location"] = self._base + headers["location"]
            message["headers"] = [
                (name, _COOKIE_PATH.sub(rf"\1{self._base}", value.decode("latin-1")).encode("latin-1"))
                if name == b"set-cookie"
                else (name, value)
                for name, value in message["headers"]
            ]
            if headers.get("content-type", "").startswith("text/html"):
                self._start = message
                return
        elif self._start is not None:
            self._page += message.get("body", b"")
            if message.get("more_body"):
                return
            page = _ADDRESS.sub(rb'\1="' + self._base.encode(), self._page)
            MutableHeaders(scope=self._start)["content-length"] = str(len(page))
            await self._send(self._start)
            message = {**message, "body": page}
        await self._send(message)
