"""One request as the rules of a script see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from highwater.kafka.protocol.apis import APIS, Api

CONNECT: Final = "Connect"
"""The name in a script for a connection that was made, in the place of an API."""
API_NAMES: Final = {"".join(word.capitalize() for word in api.name.split("_")): api for api in APIS.values()}
"""The APIs that a rule may name, in Kafka's spelling. Those between brokers are none of them."""
_NAMES: Final = {api.key: name for name, api in API_NAMES.items()}


@dataclass(frozen=True)
class FaultRequest:
    api: Api | None
    """None for a connection that was made."""
    version: int = 0
    correlation_id: int = 0
    client_id: str = ""
    principal: str = ""
    listener: str = ""
    connection: int = 1
    """The number of the connection, counted from 1 from the start of the broker."""
    open_connections: int = 1
    read_topics: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False)

    @property
    def name(self) -> str:
        return CONNECT if self.api is None else _NAMES[self.api.key]

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """The topics that the request names; decoded when a rule asks for them."""
        return self.read_topics()
