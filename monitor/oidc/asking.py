"""Asks a provider over HTTP, bounded in time and size, without redirects."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Final
from urllib.parse import urlencode, urlsplit

from highwater.monitor.oidc.refusal import Refusal, provider_fault

TIMEOUT_S: Final = 10.0
_LARGEST_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Question:
    address: str
    """Checked (addresses.py)."""
    form: Mapping[str, str] | None = field(default=None, repr=False)
    """It is a POST if there is one."""
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = field(repr=False)


def ask(question: Question, tls: ssl.SSLContext | None, timeout_s: float = TIMEOUT_S) -> Answer | Refusal:
    """Neither the sentence nor the log has what was sent or what came back: both may hold secrets."""
    host = urlsplit(question.address).netloc
    try:
        answer = _exchange(question, tls, timeout_s)
    except TimeoutError:
        return provider_fault(f"The provider at {host} does not answer within {timeout_s:g} s.")
    except ssl.SSLCertVerificationError as error:
        return provider_fault(f"The certificate of {host} is not trusted: {error.verify_message}. See web.oidc.ca.")
    except ssl.SSLError as error:
        return provider_fault(f"TLS with {host} fails: {error.reason or 'closed'}.")
    except OSError as error:
        return provider_fault(f"The provider at {host} cannot be reached: {error.strerror or type(error).__name__}.")
    except http.client.HTTPException as error:
        return provider_fault(f"What {host} answers is not understood ({type(error).__name__}).")
    if answer is None:
        return provider_fault(f"What {host} answers is larger than {_LARGEST_BYTES >> 20} MiB.")
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        return provider_fault(f"{host} answers with a redirect, which is not followed.")
    return answer


def _exchange(question: Question, tls: ssl.SSLContext | None, timeout_s: float) -> Answer | None:
    """None if the answer is too large."""
    ends_s = monotonic() + timeout_s
    parts = urlsplit(question.address)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = tls or ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    headers = {"Accept": "application/json", "User-Agent": "highwater-monitor"}
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
            if len(found) > _LARGEST_BYTES:
                return None
            if monotonic() > ends_s:
                raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(bytes(found), response.length)
        return Answer(response.status, bytes(found))
    finally:
        connection.close()
