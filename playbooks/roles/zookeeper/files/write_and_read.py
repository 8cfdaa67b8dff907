"""Writes a znode through one member and reads it through each: `write_and_read.py HOST:PORT…`.

The znode is gone with the session that wrote it.
"""

from __future__ import annotations

import secrets
import sys

_WITHIN_SECONDS = 20.0


def main() -> str:
    """What is wrong, in one line, or nothing."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        return "this Python lacks kazoo: pip install kazoo, or set zookeeper_verify_from_controller to false"
    path, written = f"/highwater-verify-{secrets.token_hex(8)}", secrets.token_bytes(32)
    first = sys.argv[1]
    writer = KazooClient(first, timeout=_WITHIN_SECONDS)
    address = first
    try:
        writer.start(_WITHIN_SECONDS)
        writer.create(path, written, ephemeral=True)
        for address in sys.argv[1:]:
            reader = KazooClient(address, timeout=_WITHIN_SECONDS)
            try:
                reader.start(_WITHIN_SECONDS)
                reader.sync(path)
                if reader.get(path)[0] != written:
                    return f"{address} gives something else than was written through {first}"
            finally:
                reader.stop()
                reader.close()
    except (KazooException, KazooTimeoutError, OSError) as error:
        return f"{address} cannot be written or read from the controller: {error or type(error).__name__}"
    finally:
        writer.stop()
        writer.close()
    return ""


if __name__ == "__main__":
    sys.exit(main() or 0)
