"""The one error of the client: which broker, which request, why, and the way out, in one line."""

from __future__ import annotations


class ClientError(Exception):
    """The text has no secrets.

    `is_refusal`: the broker and the client do not come together (TLS, login, versions); a retry changes nothing.
    """

    def __init__(self, text: str, *, broker: str = "", api: str = "", is_refusal: bool = False) -> None:
        super().__init__(text)
        self.broker = broker
        """HOST:PORT; empty if it is about no single one."""
        self.api = api
        """Kafka's name of the request; empty while a connection begins."""
        self.is_refusal = is_refusal

    def __reduce__(self) -> tuple[object, ...]:
        state = {"broker": self.broker, "api": self.api, "is_refusal": self.is_refusal}
        return type(self), (str(self),), state


class ClientSettingsError(ClientError):
    """A property is unknown, or has a value that cannot work."""
