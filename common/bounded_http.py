"""One question over HTTP, bounded in time and size, without redirects; which addresses are asked."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final
from urllib.parse import SplitResult, urlencode, urlsplit

LARGEST_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Question:
    address: str
    """Checked with `address_problem`."""
    form: Mapping[str, str] | None = field(default=None, repr=False)
    """It is a POST if there is one."""
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = field(repr=False)


class TooLargeError(Exception):
    """The answer has more than LARGEST_BYTES."""


def exchange(question: Question, tls: ssl.SSLContext | None, timeout_s: float, software: str) -> Answer:
    """Without `tls`, the authorities of the host are trusted.

    Raises TimeoutError, ssl.SSLError, OSError, http.client.HTTPException or TooLargeError.
    """
    ends_s = monotonic() + timeout_s
    parts = urlsplit(question.address)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = tls or ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    headers = {"Accept": "application/json", "User-Agent": software}
    if question.authorization:
        headers["Authorization"] = question.authorization
    body = None
    if question.form is not None:
        body = urlencode(question.form)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        found = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            found += chunk
            if len(found) > LARGEST_BYTES:
                raise TooLargeError
            if monotonic() > ends_s:
                raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(bytes(found), response.length)
        return Answer(response.status, bytes(found))
    finally:
        connection.close()


def address_problem(address: str) -> str:
    """Why `address` is not asked, in words without a full stop; empty if it is. Http is for loopback alone."""
    parts = _parts(address)
    if parts is None or not parts.hostname or parts.scheme not in ("http", "https"):
        return "is not an https address"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user or a password"
    if parts.fragment or not address.isascii() or not address.isprintable() or " " in address:
        return "must not contain a fragment, a blank or what is not ASCII"
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        return "must be https: what crosses the network by http can be read and changed"
    return ""


def source_problem(address: str) -> str:
    """The `address_problem` of an address that may also be `file:///PATH`."""
    if not address.startswith("file:"):
        return address_problem(address)
    parts = _parts(address)
    is_here = parts is not None and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    if parts is None or not is_here or parts.query or parts.fragment:
        return "cannot be read: write a file as file:///PATH"
    return ""


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parts(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts
