"""Samplers of hosts that are this process."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from highwater.bench.host.sampling_service import serve


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A host's sampler as systemd has it: each connection is answered by itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threads = []

        def talk(connection: socket.socket) -> None:
            with connection:
                answer(connection)

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                thread = threading.Thread(target=talk, args=(connection,))
                thread.start()
                threads.append(thread)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def tell_of_this_process(connection: socket.socket) -> None:
    serve(connection.fileno(), connection.fileno(), lambda units: [os.getpid()] * len(units))
