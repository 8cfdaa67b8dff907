"""Why a login by OIDC does not go on: a sentence for the person and the log, without secrets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    sentence: str
    status: int
    """The HTTP status: 400 for a request that fits no login, 403 for a person, 502 or 503 for the provider."""

    @property
    def is_of_provider(self) -> bool:
        return self.status >= 500


def provider_fault(sentence: str) -> Refusal:
    return Refusal(sentence, 502)
