"""How this process logs in, by settings: tokens are kept, for all connections of its tasks."""

from __future__ import annotations

import functools
import os
from typing import Final

from highwater.kafka.client.security import Sasl
from highwater.kafka.client.tokens import credential_of
from highwater.kafka.login.credentials import Credential
from highwater.kafka.login.token_request import TokenSettings

_TOKEN_TIMEOUT_S: Final = 10.0
_KEPT: Final = 32


@functools.lru_cache(_KEPT)
def credential(sasl: Sasl | TokenSettings) -> Credential:
    """The same for the same settings, so that all tasks here ask a token server once in the life of a token.

    Raises TlsError for an authority of the token server that cannot be read.
    """
    return credential_of(sasl, _TOKEN_TIMEOUT_S)


# A thread of the parent may have held a lock of a token, which nobody would release in a child.
os.register_at_fork(after_in_child=credential.cache_clear)
