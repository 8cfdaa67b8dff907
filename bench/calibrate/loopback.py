"""Measures TCP throughput over 127.0.0.1 between two processes.

As a script it listens, prints its port, and serves one connection after the other. If the first byte is `e`, it echoes
all that follows; if it is `d`, it reads and discards. It ends with its standard input.
"""

from __future__ import annotations

import selectors
import socket
import statistics
import sys
import time
from typing import Final

from highwater.common.child_process import serving
from highwater.results.calibration import Loopback

ROUND_TRIP_BYTES: Final = 128
_ROUND_TRIPS_MAX: Final = 20_000
_CHUNK_BYTES: Final = 1 << 20


def measure_loopback(seconds: float = 1.0) -> Loopback:
    """Measure throughput and round trips; takes a little more than twice `seconds`."""
    with serving("highwater.bench.calibrate.loopback") as server:
        address = ("127.0.0.1", int(server.address))
        round_trips_ns = _round_trips_ns(address, seconds)
        bytes_per_s = _throughput_bytes_per_s(address, seconds)
    percentiles = statistics.quantiles(round_trips_ns, n=100, method="inclusive")
    return Loopback(
        bytes_per_s=bytes_per_s,
        round_trip_p50_ns=round(percentiles[49]),
        round_trip_p99_ns=round(percentiles[98]),
        round_trip_bytes=ROUND_TRIP_BYTES,
    )


def _connect(address: tuple[str, int], what: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(what)
    return connection


def _round_trips_ns(address: tuple[str, int], seconds: float) -> list[int]:
    taken_ns: list[int] = []
    message = bytes(ROUND_TRIP_BYTES)
    end_ns = time.perf_counter_ns() + round(seconds * 1e9)
    with _connect(address, b"e") as connection:
        while len(taken_ns) < 2 or (len(taken_ns) < _ROUND_TRIPS_MAX and time.perf_counter_ns() < end_ns):
            started_ns = time.perf_counter_ns()
            connection.sendall(message)
            connection.recv(ROUND_TRIP_BYTES, socket.MSG_WAITALL)
            taken_ns.append(time.perf_counter_ns() - started_ns)
    return taken_ns


def _throughput_bytes_per_s(address: tuple[str, int], seconds: float) -> float:
    chunk, sent_bytes = bytes(_CHUNK_BYTES), 0
    with _connect(address, b"d") as connection:
        started_s = time.perf_counter()
        while (elapsed_s := time.perf_counter() - started_s) < seconds:
            connection.sendall(chunk)
            sent_bytes += len(chunk)
    return sent_bytes / elapsed_s


def _main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                _serve(connection)


def _serve(connection: socket.socket) -> None:
    buffer = bytearray(_CHUNK_BYTES)
    echo = connection.recv(1) == b"e"
    while size := connection.recv_into(buffer):
        if echo:
            connection.sendall(memoryview(buffer)[:size])


if __name__ == "__main__":
    _main()
