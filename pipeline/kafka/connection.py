"""The blocking connection of this room: its errors, shared tokens, and memory that is not zeroed."""

from __future__ import annotations

import functools
import os
from typing import Any, Final

import numpy as np

from highwater.kafka.client import blocking_connection, errors
from highwater.kafka.client.request import Request
from highwater.kafka.client.security import Sasl, TlsError
from highwater.kafka.client.settings import Address
from highwater.kafka.client.tokens import credential_of
from highwater.kafka.login.credentials import Credential
from highwater.kafka.login.token_request import TokenSettings
from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka.settings import Settings

UNREACHABLE: Final = blocking_connection.UNREACHABLE
_TOKEN_TIMEOUT_S: Final = 10.0
_KEPT: Final = 32
_REUSED_BYTES_MAX: Final = 16 << 20


class HandshakeError(ClientError):
    """The broker and this client do not come together: TLS, login or versions. A retry would change nothing."""


class BrokerConnection(blocking_connection.BlockingConnection):
    """Connects when it is made. Raises UNREACHABLE, or HandshakeError."""

    def __init__(self, address: Address, settings: Settings) -> None:
        try:
            super().__init__(address, settings, None if settings.sasl is None else credential(settings.sasl))
        except (errors.ClientError, TlsError) as error:
            raise HandshakeError(str(error)) from None

    def send(self, request: Request[Any]) -> None:
        try:
            super().send(request)
        except errors.ClientError as error:
            raise HandshakeError(str(error)) from None

    def memory(self, size: int) -> memoryview:
        _reuse_memory()
        return np.empty(size, np.uint8).data


@functools.cache
def _reuse_memory() -> None:
    """Have glibc keep what large arrays leave: to get it from the kernel again costs more than to fill it.

    It keeps twice as much as the largest block that was freed, up to 64 MiB (M_MMAP_THRESHOLD in mallopt(3)). This one
    is not touched. Other allocators go on as before.
    """
    np.empty(_REUSED_BYTES_MAX, np.uint8)


@functools.lru_cache(_KEPT)
def credential(sasl: Sasl | TokenSettings) -> Credential:
    """The same for the same settings, so that all tasks here ask a token server once in the life of a token.

    Raises TlsError for an authority of the token server that cannot be read.
    """
    return credential_of(sasl, _TOKEN_TIMEOUT_S)


# A thread of the parent may have held a lock of a token, which nobody would release in a child.
os.register_at_fork(after_in_child=credential.cache_clear)
