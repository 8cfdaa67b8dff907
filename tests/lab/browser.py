"""A browser from outside of the hosts: TLS by one authority alone, cookies, forms; it follows no redirect."""

from __future__ import annotations

import html
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx2

_WITHIN_S: Final = 20.0
_FORM_TOKEN: Final = re.compile(r'name="form_token" value="([^"]*)"')
_MARKUP: Final = re.compile(r"<[^>]*>")


class UnreachableError(Exception):
    """There is no connection, or no trust in the certificate."""


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    location: str
    """Where a redirect leads; empty without one."""

    @property
    def words(self) -> str:
        """What a person reads."""
        return " ".join(html.unescape(_MARKUP.sub(" ", self.text)).split())


class Browser:
    """Of one site. Its methods raise UnreachableError."""

    def __init__(self, site: str, authority: str | None = None) -> None:
        """authority: its certificate in PEM; None for the authorities of this machine."""
        self._site = site
        self._client = httpx2.Client(
            base_url=site,
            verify=ssl.create_default_context(cadata=authority),
            timeout=_WITHIN_S,
            trust_env=False,
            follow_redirects=False,
        )

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self._answer("GET", path, headers=dict(headers or {}))

    def post(self, path: str, fields: Mapping[str, str]) -> Answer:
        headers = {"Sec-Fetch-Site": "same-origin", "Origin": self._site}
        return self._answer("POST", path, headers=headers, fields=fields)

    def log_in(self, name: str, password: str) -> Answer:
        form = self.get("/login")
        token = _FORM_TOKEN.search(form.text)
        assert token is not None, f"the page of the login has no form: {form.status} {form.words[:200]}"
        return self.post("/login", {"form_token": token[1], "name": name, "password": password, "next": "/"})

    def _answer(
        self, method: str, path: str, headers: Mapping[str, str], fields: Mapping[str, str] | None = None
    ) -> Answer:
        try:
            response = self._client.request(method, path, headers=headers, data=fields)
        except httpx2.TransportError as error:
            raise UnreachableError(str(error)) from error
        return Answer(response.status_code, response.text, response.headers.get("location", ""))
