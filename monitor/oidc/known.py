"""What is known of the provider, renewed each hour; one that is away is not asked often."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from highwater.common.bounded_http import Answer, Question
from highwater.monitor.oidc.discovery import DISCOVERY_PATH, Provider, keys_of, provider_of
from highwater.monitor.oidc.refusal import Refusal, provider_fault

Ask = Callable[[Question], Answer | Refusal]
Keys = tuple[Mapping[str, Any], ...]
_LOG: Final = logging.getLogger(__name__)
KEPT_S: Final = 3600.0
RENEWED_AFTER_S: Final = 30.0
"""Keys, if a token names one that is not there: whoever sends such tokens must not make us ask all the time."""
_LONGEST_S: Final = 24 * 3600.0
_AGAIN_S: Final = 10.0
_WAIT_S: Final = 3.0
_BUSY: Final = Refusal("The provider is being asked. Try again in a few seconds.", 503)
_Value = TypeVar("_Value")


class KnownProvider:
    """May be used from any thread."""

    def __init__(self, issuer: str, ask: Ask, monotonic_s: Callable[[], float]) -> None:
        self._issuer = issuer
        self._ask = ask
        self._provider = _Kept(self._asked_provider, monotonic_s)
        self._keys = _Kept(self._asked_keys, monotonic_s)

    def provider(self) -> Provider | Refusal:
        return self._provider.get(KEPT_S)

    def last_provider(self) -> Provider | None:
        """What was known last; asks nobody."""
        return self._provider.last()

    def keys(self, oldest_s: float) -> Keys | Refusal:
        return self._keys.get(oldest_s)

    def _asked_provider(self) -> Provider | Refusal:
        answer = self._body(self._issuer.rstrip("/") + DISCOVERY_PATH)
        return answer if isinstance(answer, Refusal) else provider_of(answer, self._issuer)

    def _asked_keys(self) -> Keys | Refusal:
        provider = self.provider()
        if isinstance(provider, Refusal):
            return provider
        answer = self._body(provider.jwks_uri)
        return answer if isinstance(answer, Refusal) else keys_of(answer)

    def _body(self, address: str) -> bytes | Refusal:
        answer = self._ask(Question(address))
        if isinstance(answer, Refusal) or answer.status == 200:
            return answer if isinstance(answer, Refusal) else answer.body
        return provider_fault(f"{address} answers with HTTP status {answer.status}: is web.oidc.issuer right?")


class _Kept(Generic[_Value]):
    """One value; whoever asks for it while somebody else is fetching it waits for a short time."""

    def __init__(self, fetch: Callable[[], _Value | Refusal], monotonic_s: Callable[[], float]) -> None:
        self._fetch = fetch
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._kept: tuple[_Value, float] | None = None
        self._failed: tuple[Refusal, float] | None = None

    def last(self) -> _Value | None:
        return None if self._kept is None else self._kept[0]

    def get(self, oldest_s: float) -> _Value | Refusal:
        """A value no older than `oldest_s`; an older one, of a day at most, if the provider gives none."""
        fresh = self._within(oldest_s)
        if fresh is not None:
            return fresh
        if not self._lock.acquire(timeout=_WAIT_S):
            return self._within(_LONGEST_S) or _BUSY
        try:
            fresh = self._within(oldest_s)
            if fresh is not None:
                return fresh
            now_s = self._monotonic_s()
            if self._failed is None or now_s - self._failed[1] >= _AGAIN_S:
                found = self._fetch()
                if not isinstance(found, Refusal):
                    self._kept, self._failed = (found, self._monotonic_s()), None
                    return found
                self._failed = (found, self._monotonic_s())
                # Here, where it happens every ten seconds at most, and not for each stranger who follows the link.
                _LOG.warning("the OIDC provider: %s", found.sentence)
            return self._within(_LONGEST_S) or self._failed[0]
        finally:
            self._lock.release()

    def _within(self, oldest_s: float) -> _Value | None:
        kept = self._kept
        return kept[0] if kept is not None and self._monotonic_s() - kept[1] <= oldest_s else None
