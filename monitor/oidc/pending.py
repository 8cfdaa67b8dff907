"""Logins on their way to the provider: each comes back once, to the browser in which it began."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

KEPT_S: Final = 600.0
MOST: Final = 10_000
MOST_OF_ADDRESS: Final = 100


@dataclass(frozen=True, slots=True)
class Pending:
    began_s: float
    """The start by the monotonic clock."""
    address: str
    """The browser's address, as the throttle counts addresses."""
    browser: str = field(repr=False)
    """What only a page for this browser can contain."""
    redirect_uri: str
    wanted: str
    """The page to go to afterwards; a path of this site."""
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    """The code verifier of PKCE (RFC 7636)."""


class PendingLogins:
    """Strangers can begin logins, so that their number is bounded: the oldest of an address, or of all, goes first."""

    def __init__(self, most: int = MOST, most_of_address: int = MOST_OF_ADDRESS) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._lock = threading.Lock()
        self._by_state: OrderedDict[str, Pending] = OrderedDict()
        self._states: dict[str, list[str]] = {}

    def begin(self, login: Pending) -> str:
        """Return its state, with which the provider sends the browser back."""
        state = secrets.token_urlsafe(32)
        with self._lock:
            self._drop_old(login.began_s)
            own = self._states.setdefault(login.address, [])
            if len(own) >= self._most_of_address:
                self._drop(own[0])
            elif len(self._by_state) >= self._most:
                self._drop(next(iter(self._by_state)))
            self._by_state[state] = login
            self._states.setdefault(login.address, []).append(state)
        return state

    def take(self, state: str, browser: str, now_s: float) -> Pending | None:
        """The login of `state`, once; None if it is unknown, used, too old, or of another browser."""
        with self._lock:
            self._drop_old(now_s)
            login = self._by_state.get(state)
            if login is None or not hmac.compare_digest(login.browser, browser):
                return None
            self._drop(state)
        return login

    def _drop_old(self, now_s: float) -> None:
        while self._by_state:
            state, login = next(iter(self._by_state.items()))
            if now_s - login.began_s <= KEPT_S:
                return
            self._drop(state)

    def _drop(self, state: str) -> None:
        login = self._by_state.pop(state)
        own = self._states[login.address]
        own.remove(state)
        if not own:
            del self._states[login.address]
