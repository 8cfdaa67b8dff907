"""How a client asks for a token (RFC 6749, section 4.4), and what the answer holds. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus

from highwater.common.bounded_http import Answer, Question
from highwater.kafka.login.credentials import OAUTHBEARER
from highwater.kafka.login.jwt import unix_time

MOST_TOKEN_BYTES: Final = 65_536
_LIFE_OF_UNKNOWN_S: Final = 60.0
"""The life of a token that comes without the time of its end."""
_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_ERROR: Final = re.compile(r"[A-Za-z_]{1,40}")


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Where tokens come from."""

    url: str
    """The URL of the token server; or `file://PATH` of a file that somebody else updates."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the broker gets with the token (KIP-342)."""
    ca_file: str = ""
    """The certificate of the authority that signed the token server's; empty for the host's authorities."""
    ca_pem: str = ""

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client sets to get such tokens, under librdkafka's names; with the secret."""
        found = {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.id": self.client_id,
            "sasl.oauthbearer.client.secret": self.client_secret,
            "sasl.oauthbearer.scope": self.scope,
            "sasl.oauthbearer.extensions": ",".join(f"{name}={value}" for name, value in self.extensions.items()),
            "https.ca.location": self.ca_file,
            "https.ca.pem": self.ca_pem,
        }
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    ends_s: float
    """Since the epoch."""


def question_of(settings: TokenSettings) -> Question:
    form = {"grant_type": "client_credentials"}
    if settings.scope:
        form["scope"] = settings.scope
    # Both parts are encoded as in a form before that (RFC 6749, section 2.3.1).
    pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
    return Question(settings.url, form, f"Basic {base64.b64encode(pair.encode()).decode()}")


def token_in(answer: Answer, now_s: float) -> Token | str:
    """The token of an answer of the token server; or why there is none, as a sentence without its subject."""
    found = _object_of(answer.body)
    if answer.status != HTTPStatus.OK:
        error = found.get("error") if found is not None else None
        reason = f": {error}" if isinstance(error, str) and _ERROR.fullmatch(error) else ""
        return f"answers with status {answer.status}{reason}"
    token = found.get("access_token") if found is not None else None
    if not isinstance(token, str) or not _is_token(token):
        return "answers without an access_token"
    assert found is not None
    lifetime_s = found.get("expires_in")
    if isinstance(lifetime_s, int | float) and not isinstance(lifetime_s, bool) and lifetime_s > 0:
        return Token(token, now_s + lifetime_s)
    return _with_its_end(token, now_s)


def token_in_file(data: bytes, now_s: float) -> Token | str:
    """Return what `token_in` does, for a file that holds a token and nothing else."""
    text = data.decode("ascii", "replace").strip()
    return _with_its_end(text, now_s) if _is_token(text) else "holds no token"


def _is_token(text: str) -> bool:
    return len(text) <= MOST_TOKEN_BYTES and _TOKEN.fullmatch(text) is not None


def _with_its_end(token: str, now_s: float) -> Token:
    """A JSON Web Token says itself when it ends; other tokens can be read by their receiver alone."""
    payload = [*token.split("."), ""][1]
    try:
        claims = _object_of(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        claims = None
    ends_s = unix_time(claims or {}, "exp")
    return Token(token, now_s + _LIFE_OF_UNKNOWN_S if ends_s is None else ends_s)


def _object_of(document: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
