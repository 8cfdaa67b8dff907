"""A login by OIDC from its begin to the person: the code flow with PKCE, each step checked."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from highwater.common.bounded_http import Answer, Question
from highwater.monitor.oidc.asking import ask
from highwater.monitor.oidc.discovery import POST, Provider, object_of
from highwater.monitor.oidc.id_token import Expected, UnknownKey, claims_of
from highwater.monitor.oidc.known import KEPT_S, RENEWED_AFTER_S, Ask, KnownProvider
from highwater.monitor.oidc.pending import Pending, PendingLogins
from highwater.monitor.oidc.refusal import Refusal, provider_fault
from highwater.monitor.oidc.roles import Claims, claim_of
from highwater.monitor.oidc.settings import OidcSettings
from highwater.monitor.users import Role

CALLBACK_PATH: Final = "/oidc/callback"
_AT_ONCE: Final = 4
_WAIT_S: Final = 3.0
_LONGEST_CODE: Final = 4096
_ERROR: Final = re.compile(r"[a-z_]{1,60}")
_OTHER_BROWSER: Final = Refusal(
    "This login was used already, is older than 10 minutes, or began in another browser. Log in again.", 400
)
_BUSY: Final = Refusal("Many people log in at this moment. Try again in a few seconds.", 503)


@dataclass(frozen=True, slots=True)
class Person:
    """Who came back from the provider."""

    subject: str
    name: str
    """The name as the claims have it: any text."""
    role: Role | None
    """None if no claim gives one: then nobody lets the person in."""
    has_claim: bool
    wanted: str
    """The page to go to; a path of this site."""


class OidcLogin:
    """May be used from any thread. `asked` sends a question to the provider."""

    def __init__(
        self,
        settings: OidcSettings,
        now_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
        asked: Ask | None = None,
    ) -> None:
        self.settings = settings
        self._now_s = now_s
        self._monotonic_s = monotonic_s
        self._asked = asked or (lambda question: ask(question, settings.tls))
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._known = KnownProvider(settings.issuer, self._ask, monotonic_s)
        self._pending = PendingLogins()

    def begin(self, address: str, browser: str, origin: str, wanted: str) -> str | Refusal:
        """Return where the browser goes to. `browser`: what only a page for this browser can contain."""
        provider = self._known.provider()
        if isinstance(provider, Refusal):
            return provider
        login = Pending(self._monotonic_s(), address, browser, origin + CALLBACK_PATH, wanted)
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": login.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": self._pending.begin(login),
            "nonce": login.nonce,
            "code_challenge": _base64url(hashlib.sha256(login.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        return _with_query(provider.authorization_endpoint, query)

    def finish(self, query: Mapping[str, str], browser: str) -> Person | Refusal:
        """Take what the browser brings from the provider. A state works once, whatever comes of it."""
        login = self._pending.take(query.get("state", ""), browser, self._monotonic_s())
        if login is None:
            return _OTHER_BROWSER
        provider = self._known.provider()
        if isinstance(provider, Refusal):
            return provider
        if query.get("iss", self.settings.issuer if not provider.names_itself else "") != self.settings.issuer:
            return Refusal("The answer is of another provider than the one that was asked.", 400)
        if "error" in query:
            return _refused_by_provider(query["error"])
        code = query.get("code", "")
        if not 0 < len(code) <= _LONGEST_CODE:
            return Refusal("The provider sent no code.", 400)
        tokens = self._tokens(provider, login, code)
        if isinstance(tokens, Refusal):
            return tokens
        claims = self._claims(str(tokens.get("id_token", "")), login.nonce)
        if isinstance(claims, Refusal):
            return claims
        if not (self.settings.table.is_there(claims) and claim_of(claims, self.settings.name_claim)):
            claims = self._with_user_info(provider, claims, tokens.get("access_token"))
            if isinstance(claims, Refusal):
                return claims
        return self._person(claims, login.wanted)

    def end_address(self, origin: str) -> str:
        """Where a person can end the session at the provider too; empty if that is not known."""
        provider = self._known.last_provider()
        if provider is None or not provider.end_session_endpoint:
            return ""
        query = {"client_id": self.settings.client_id, "post_logout_redirect_uri": f"{origin}/login"}
        return _with_query(provider.end_session_endpoint, query)

    def _tokens(self, provider: Provider, login: Pending, code: str) -> dict[str, Any] | Refusal:
        client, secret = self.settings.client_id, self.settings.client_secret
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": login.redirect_uri,
            "code_verifier": login.verifier,
        }
        authorization = ""
        if secret and provider.secret_by != POST:
            # Both parts are encoded as in a form before that (RFC 6749, section 2.3.1).
            pair = f"{quote_plus(client)}:{quote_plus(secret)}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client, **({"client_secret": secret} if secret else {})}
        answer = self._ask(Question(provider.token_endpoint, form, authorization))
        if isinstance(answer, Refusal):
            return answer
        found = object_of(answer.body)
        if answer.status != 200 or found is None:
            return _refused_code(answer.status, found or {})
        return found

    def _claims(self, token: str, nonce: str) -> Claims | Refusal:
        expected = Expected(self.settings.issuer, self.settings.client_id, nonce)
        sentence = ""
        for oldest_s in (KEPT_S, RENEWED_AFTER_S):
            keys = self._known.keys(oldest_s)
            if isinstance(keys, Refusal):
                return keys
            found = claims_of(token, keys, expected, self._now_s())
            if not isinstance(found, UnknownKey):
                return found
            sentence = found.sentence
        return provider_fault(sentence)

    def _with_user_info(self, provider: Provider, claims: Claims, access_token: Any) -> Claims | Refusal:
        """Return the claims with what the ID token leaves out, as many providers do; a claim of the token wins."""
        if not provider.userinfo_endpoint or not isinstance(access_token, str) or not access_token.isascii():
            return claims
        answer = self._ask(Question(provider.userinfo_endpoint, authorization=f"Bearer {access_token}"))
        if isinstance(answer, Refusal):
            return answer
        found = object_of(answer.body)
        if answer.status != 200 or found is None:
            return provider_fault(f"The provider returned nothing about the person (HTTP status {answer.status}).")
        if found.get("sub") != claims["sub"]:
            return provider_fault("The provider returned another person than the one who logged in.")
        return {**found, **claims}

    def _person(self, claims: Claims, wanted: str) -> Person:
        table, subject = self.settings.table, claims["sub"]
        names = (claim_of(claims, each) for each in (self.settings.name_claim, "email"))
        name = next((each for each in names if isinstance(each, str) and each), subject)
        return Person(subject, name, table.role(claims), table.is_there(claims), wanted)

    def _ask(self, question: Question) -> Answer | Refusal:
        """A provider that hangs holds a few threads of the pages, not all."""
        if not self._slots.acquire(timeout=_WAIT_S):
            return _BUSY
        try:
            return self._asked(question)
        finally:
            self._slots.release()


def _refused_by_provider(error: str) -> Refusal:
    if error == "access_denied":
        return Refusal("The provider refused the login, or you cancelled it.", 403)
    # Whoever makes a link can write what they like there.
    return provider_fault(f"The provider refuses the login: {_shown(error)}.")


def _refused_code(status: int, found: Mapping[str, Any]) -> Refusal:
    error = str(found.get("error", ""))
    if error == "invalid_grant":
        return Refusal("The provider no longer accepts the code: it is used or too old. Log in again.", 400)
    if error in ("invalid_client", "unauthorized_client"):
        return provider_fault(f"The provider refuses the monitor itself ({error}): see client_id and client_secret.")
    return provider_fault(f"The provider gives no token: HTTP status {status}, {_shown(error)}.")


def _shown(error: str) -> str:
    return error if _ERROR.fullmatch(error) else "an error that is not understood"


def _with_query(address: str, query: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
