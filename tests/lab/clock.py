"""What guests set their clocks by: this machine's clock, told by SNTP (RFC 4330) on the bridge of their lab.

Hosts of a lab reach nothing else; and a time daemon that never finds a server shows nothing of a playbook.
Started by `python -m tests.lab up`.
"""

from __future__ import annotations

import argparse
import socketserver
import struct
import time
from typing import Final

PORT: Final = 123

_PACKET: Final = struct.Struct(">BBbbII4sQQQQ")
_CLIENT: Final = 3
_SERVER: Final = 4
# One that is itself set by nothing better than what this machine has; any below 16 is believed.
_STRATUM: Final = 10
_PRECISION_LOG2_S: Final = -20
_SHORT_FORMAT_MILLISECOND: Final = 66
_NAME: Final = b"LOCL"
_FROM_1900_TO_1970_S: Final = 2_208_988_800


def answer(request: bytes, received_ns: int, sent_ns: int) -> bytes | None:
    """What is told to one that asks; None for what is no question. Times are of the Unix epoch."""
    if len(request) < _PACKET.size or request[0] & 7 != _CLIENT:
        return None
    version = request[0] >> 3 & 7
    asked_at = _PACKET.unpack_from(request)[-1]
    return _PACKET.pack(
        version << 3 | _SERVER,
        _STRATUM,
        struct.unpack_from(">b", request, 2)[0],
        _PRECISION_LOG2_S,
        0,
        _SHORT_FORMAT_MILLISECOND,
        _NAME,
        timestamp(received_ns),
        asked_at,
        timestamp(received_ns),
        timestamp(sent_ns),
    )


def timestamp(unix_ns: int) -> int:
    """Seconds since 1900 in the upper half, their 2^32nd parts in the lower one."""
    seconds, rest_ns = divmod(unix_ns, 1_000_000_000)
    return (seconds + _FROM_1900_TO_1970_S) % 2**32 << 32 | (rest_ns << 32) // 1_000_000_000


class Handler(socketserver.DatagramRequestHandler):
    def handle(self) -> None:
        received_ns = time.time_ns()
        told = answer(self.rfile.read(), received_ns, time.time_ns())
        if told is not None:
            self.wfile.write(told)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.clock", description=__doc__)
    parser.add_argument("--address", required=True, help="of the lab's bridge")
    socketserver.UDPServer((parser.parse_args().address, PORT), Handler).serve_forever()


if __name__ == "__main__":
    main()
