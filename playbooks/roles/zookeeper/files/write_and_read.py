"""Writes a znode through one member and reads it through each: `write_and_read.py HOST:PORT…`.

The znode is gone with the session that wrote it. Standard input has authority (PEM), username and password, as JSON, of
an ensemble with TLS and logins; else it is an empty object.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

_WITHIN_SECONDS = 20.0


def main() -> str:
    """What is wrong, in one line, or nothing."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        return "this Python lacks kazoo: pip install highwater-kafka, or set zookeeper_verify_from_controller to false"
    given = json.load(sys.stdin)
    refusals: list[str] = []

    def client(address: str) -> Any:
        if given:
            return secured(address, given, refusals)
        return KazooClient(address, timeout=_WITHIN_SECONDS)

    path, written = f"/highwater-verify-{secrets.token_hex(8)}", secrets.token_bytes(32)
    address = first = sys.argv[1]
    try:
        writer = client(first)
    except ImportError:
        return (
            "this Python lacks highwater: pip install highwater-kafka, or set zookeeper_verify_from_controller to false"
        )
    try:
        writer.start(_WITHIN_SECONDS)
        writer.create(path, written, ephemeral=True)
        for address in sys.argv[1:]:
            reader = client(address)
            try:
                reader.start(_WITHIN_SECONDS)
                reader.sync(path)
                if reader.get(path)[0] != written:
                    return f"{address} gives something else than was written through {first}"
            finally:
                reader.stop()
                reader.close()
    except (KazooException, KazooTimeoutError, OSError) as error:
        reason = refusals[-1] if refusals else error or type(error).__name__
        return f"{address} cannot be written or read from the controller: {reason}"
    finally:
        writer.stop()
        writer.close()
    return ""


def secured(address: str, given: dict[str, str], refusals: list[str]) -> Any:
    """A client with TLS and a login. Raises ImportError."""
    import ssl

    from kazoo.client import KazooClient

    from highwater.kafka.client.secure_kazoo import SecureHandler, secure
    from highwater.kafka.client.zookeeper_security import ZooKeeperLogin, ZooKeeperSecurity

    tls = ssl.create_default_context(cadata=given["authority"])
    login = ZooKeeperLogin(given["username"], given["password"])
    made = KazooClient(address, timeout=_WITHIN_SECONDS, handler=SecureHandler(tls))
    secure(made, ZooKeeperSecurity(tls, login), lambda failure: refusals.append(failure.reason), gives_up=True)
    return made


if __name__ == "__main__":
    sys.exit(main() or 0)
