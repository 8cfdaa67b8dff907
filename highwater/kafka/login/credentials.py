"""The client's side of SASL: how clients, and brokers among each other, log in. Challenges in, tokens out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from highwater.kafka.login.scram import ScramMechanism, iterations_problem, scram_library

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM_MECHANISMS: Final = tuple(mechanism.text for mechanism in ScramMechanism)
LOGIN_MODULES: Final = {PLAIN: "PlainLoginModule", **dict.fromkeys(SCRAM_MECHANISMS, "ScramLoginModule")}
"""The class of the JAAS entry, by mechanism with a user and a password."""
_REFUSED: Final = b"\x01"


class LoginError(Exception):
    """The server is not authentic, or violates the mechanism; or there is no token to log in with."""


class Login(Protocol):
    """One login on one connection."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next token; None after the last challenge. Raises LoginError.

        SCRAM hashes the password here, for up to a second: an event loop calls it in a thread.
        """


class Credential(Protocol):
    """What a client logs in with, as often as it connects."""

    @property
    def mechanism(self) -> str: ...

    @property
    def client_properties(self) -> Mapping[str, str]:
        """What a client sets to log in so, under librdkafka's names; with the secret."""

    def begin(self) -> Login:
        """Raises LoginError. May ask a token server, for some seconds: an event loop calls it in a thread."""


class PasswordCredential:
    """A user of PLAIN or SCRAM."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password

    @property
    def client_properties(self) -> dict[str, str]:
        return {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self._password}

    def begin(self) -> Login:
        if self.mechanism == PLAIN:
            return _PlainLogin(self.user, self._password)
        return _ScramLogin(self.mechanism, self.user, self._password)


class TokenCredential:
    """Whoever the present token says."""

    mechanism = OAUTHBEARER

    def __init__(
        self, token: Callable[[], str], extensions: Mapping[str, str], client_properties: Mapping[str, str]
    ) -> None:
        """`token` returns one that is valid, or raises LoginError."""
        self._token = token
        self._extensions = extensions
        self.client_properties = client_properties

    def begin(self) -> Login:
        return _TokenLogin(self._token(), self._extensions)


class _TokenLogin:
    """RFC 7628: a challenge that is not empty says why the token is refused."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        self._first = "n,,\x01{}\x01".format("".join(f"{name}={value}\x01" for name, value in pairs.items()))

    def first(self) -> bytes:
        return self._first.encode()

    def answer(self, challenge: bytes) -> bytes | None:
        return _REFUSED if challenge else None


class _PlainLogin:
    """RFC 4616."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class _ScramLogin:
    """RFC 5802: the last challenge proves that the server knows the password too."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        scramp = scram_library()
        self._exception = scramp.ScramException
        self._client = scramp.ScramClient([mechanism], user, password)
        self._challenges = 0

    def first(self) -> bytes:
        text: str = self._client.get_client_first()
        return text.encode()

    def answer(self, challenge: bytes) -> bytes | None:
        self._challenges += 1
        try:
            text = challenge.decode()
            if self._challenges == 1:
                if problem := iterations_problem(text):
                    raise LoginError(problem)
                self._client.set_server_first(text)
                answer: str = self._client.get_client_final()
                return answer.encode()
            self._client.set_server_final(text)
        except (self._exception, UnicodeDecodeError) as error:
            raise LoginError(str(error)) from None
        return None
