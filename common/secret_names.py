"""Which settings hold a secret, judged by their name: one list for what is refused, hidden, left out."""

from __future__ import annotations

import re
from typing import Final

WORDS: Final = (
    r"password|passwd|passphrase|pwd|secret|token|jaas|credential|private|api[._-]?key|access[._-]?key|account[._-]?key"
    # Of a login: SCRAM's parts as ZooKeeper keeps them, and the user with password of a schema registry.
    r"|scram|hmac|salt|stored_?key|server_?key|basic\.auth|auth\.user\.info"
    # PEM: a private key, and what Kafka types as a password though it is public.
    r"|[.]key\b|keystore\.certificate\.chain|truststore\.certificates"
)
"""A pattern in lower case; wide, because what is hidden for nothing costs less than a secret that is shown."""
_WORD: Final = re.compile(WORDS)
_WORD_OF_HEADER: Final = re.compile(rf"{WORDS}|auth|key|cookie|signature|session")
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{[^{}]*\}")
_PARAMETER_OF_URL: Final = re.compile(r"(?<=[?&;])([^=\s?&;]+)=[^\s&;]")
_SIGNATURES: Final = ("sig", "signature")
# They say where a secret is, and are none.
_PLACES: Final = (".location", ".file")
# Names with such a word whose value is a number, an algorithm or an address. Exact, because a rule such as "ends with
# .length" would let through what somebody else gave a name.
_PUBLIC: Final = frozenset(
    {
        "basic.auth.credentials.source",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "password.encoder.cipher.algorithm",
        "password.encoder.iterations",
        "password.encoder.key.length",
        "password.encoder.keyfactory.algorithm",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.token.endpoint.url",
    }
)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret; a prefix, such as that of a listener, changes nothing.

    All that Kafka types as PASSWORD and never returns counts, and what clients, Spark, schema registries and
    ZooKeeper have beside that.
    """
    lowered = name.lower()
    if lowered.endswith(_PLACES) or any(lowered == each or lowered.endswith(f".{each}") for each in _PUBLIC):
        return False
    return _WORD.search(lowered) is not None


def has_secret_word(text: str) -> bool:
    """Whether a name, a value or both at once may hold a secret: no name is an exception here."""
    return _WORD.search(text.lower()) is not None or has_secret_in_url(text)


def has_secret_in_url(text: str) -> bool:
    """Whether a URL in a text has a password before its host, or a secret among its parameters.

    `${NAME}` is no secret: it stands for a variable of the environment.
    """
    written = _VARIABLE.sub("", text)
    return any(map(_has_login, written.split())) or any(
        is_secret_name(each[1]) or each[1].lower().endswith(_SIGNATURES) for each in _PARAMETER_OF_URL.finditer(written)
    )


def _has_login(word: str) -> bool:
    """A password may have any character, so that what looks like a port or like another URL may be part of one."""
    has_at = False
    for piece in reversed(word.split("://")[1:]):
        user, _, rest = piece.partition(":")
        password, at, _ = rest.partition("@")
        if password and (at or has_at) and not any(each in user for each in "/?#@"):
            return True
        has_at = has_at or "@" in piece
    return False


def is_secret_header(name: str) -> bool:
    """Whether an HTTP header of this name is, or may be, part of a login."""
    return _WORD_OF_HEADER.search(name.lower()) is not None
