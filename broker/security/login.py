"""The client's side of SASL: how this broker logs in to other brokers. Challenges in, tokens out."""

from __future__ import annotations

from typing import Final, Protocol

from highwater.broker.security.sasl import PLAIN
from highwater.broker.security.scram import ScramMechanism, iterations_problem, scram_library

SCRAM_MECHANISMS: Final = tuple(mechanism.text for mechanism in ScramMechanism)
LOGIN_MODULES: Final = {PLAIN: "PlainLoginModule", **dict.fromkeys(SCRAM_MECHANISMS, "ScramLoginModule")}
"""The class of the JAAS entry, by mechanism."""


class LoginError(Exception):
    """The server is not authentic, or violates the mechanism."""


class Login(Protocol):
    """One login on one connection."""

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next token; None after the last challenge. Raises LoginError.

        SCRAM hashes the password here, for up to a second: an event loop calls it in a thread.
        """


class Credential:
    """The user and the mechanism with which a broker logs in."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client sets to log in so, under librdkafka's names; with the password."""
        return {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self._password}

    def begin(self) -> Login:
        if self.mechanism == PLAIN:
            return _PlainLogin(self.user, self._password)
        return _ScramLogin(self.mechanism, self.user, self._password)


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
