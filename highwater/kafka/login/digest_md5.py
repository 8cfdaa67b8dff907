"""SASL DIGEST-MD5 (RFC 2831), the client's side, as ZooKeeper's servers want it. Tokens in, tokens out."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

_DIRECTIVE: Final = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^,\s]*))\s*(?:,|$)')


class DigestError(Exception):
    """The server's challenge cannot be answered, or the server does not know the password."""


class DigestMd5:
    """One login. The first token to send is empty; `answer` gives the next to each challenge."""

    def __init__(self, user: str, password: str, *, service: str, host: str, client_nonce: str) -> None:
        """`client_nonce` is random, and of the letters of Base64."""
        self._user = user
        self._password = password
        self._uri = f"{service}/{host}"
        self._client_nonce = client_nonce
        self._expected: bytes | None = None
        self.is_complete = False
        """The server has shown that it knows the password too."""

    def answer(self, challenge: bytes) -> bytes:
        """Raises DigestError."""
        fields = _directives(challenge)
        if self._expected is not None:
            if not hmac.compare_digest(fields.get("rspauth", "").encode(), self._expected):
                raise DigestError("the server does not know the password of this user")
            self.is_complete = True
            return b""
        if "nonce" not in fields or "auth" not in re.split(r"[\s,]+", fields.get("qop", "auth")):
            raise DigestError("the server's challenge is not one of DIGEST-MD5 with qop=auth")
        if fields.get("algorithm") != "md5-sess":
            raise DigestError("the server's challenge does not name the algorithm md5-sess")
        realm, nonce = fields.get("realm", ""), fields["nonce"]
        response, self._expected = (self._proof(realm, nonce, method) for method in ("AUTHENTICATE", ""))
        charset = "charset=utf-8," if fields.get("charset") == "utf-8" else ""
        text = (
            f'{charset}username="{_quoted(self._user)}",realm="{_quoted(realm)}",nonce="{_quoted(nonce)}",nc=00000001,'
            f'cnonce="{self._client_nonce}",digest-uri="{self._uri}",maxbuf=65536,response={response.decode()},qop=auth'
        )
        return text.encode() if charset else text.encode("latin-1", "replace")

    def _proof(self, realm: str, nonce: str, method: str) -> bytes:
        """`response-value` of RFC 2831; with no method, what the server answers."""
        secret = b":".join(_octets(each) for each in (self._user, realm, self._password))
        first = _md5(_md5(secret).digest() + f":{nonce}:{self._client_nonce}".encode()).hexdigest()
        second = _md5(f"{method}:{self._uri}".encode()).hexdigest()
        return _md5(f"{first}:{nonce}:00000001:{self._client_nonce}:auth:{second}".encode()).hexdigest().encode()


def _md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)


def _octets(text: str) -> bytes:
    """Encode in ISO 8859-1 where that is possible, whatever the charset of the exchange (RFC 2831, 2.1.2.1)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _quoted(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)


def _directives(challenge: bytes) -> Mapping[str, str]:
    text = challenge.decode("utf-8", "replace")
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        directive = _DIRECTIVE.match(text, position)
        if directive is None:
            raise DigestError("the server's challenge is not one of DIGEST-MD5")
        name, quoted, word = directive.groups()
        found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else word)
        position = directive.end()
    return found
