"""Apache Kafka's Java tools: run to their end in a JVM that many of them share, or started in one of their own."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final

from highwater.bench.systems.apache_kafka import jars

HERE: Final = Path(__file__).parent
TIMEOUT_S: Final = 120.0
_JAVA: Final = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@cache
def jars_3_9() -> Path:
    return jars(HERE / "pom.xml")


@cache
def jars_4() -> Path:
    """The newest tools and clients that can be had."""
    return jars(HERE / "pom-4.xml")


class ToolHost:
    """One JVM, started with the first tool and again after one that hung."""

    def __init__(self, jars: Path) -> None:
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, main_class: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Output and exit status of the tool. Raises TimeoutExpired when it hangs, EOFError when the JVM ended."""
        words = [main_class, *arguments]
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        request = struct.pack(">i", len(words)) + b"".join(_sized(word.encode()) for word in [*words, stdin])
        timed_out = threading.Event()

        def end() -> None:
            timed_out.set()
            process.kill()

        timer = threading.Timer(timeout_s, end)
        timer.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            (status,) = struct.unpack(">i", _read(process.stdout, 4))
            stdout, stderr = (_read_sized(process.stdout).decode(errors="replace") for _ in range(2))
        except (EOFError, BrokenPipeError):
            self.close()
            if timed_out.is_set():
                raise subprocess.TimeoutExpired(words, timeout_s) from None
            raise EOFError(f"the JVM ended while it ran {' '.join(words)}") from None
        finally:
            timer.cancel()
        return subprocess.CompletedProcess(words, status, stdout, stderr)

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [
                *_JAVA,
                "--add-opens",
                "java.base/java.lang=ALL-UNNAMED",
                "-cp",
                f"{self._jars}/*",
                str(HERE / "ToolHost.java"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _read_sized(stream: IO[bytes]) -> bytes:
    (size,) = struct.unpack(">i", _read(stream, 4))
    return _read(stream, size)


_hosts: dict[Path, ToolHost] = {}


def kafka_tool(
    main_class: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S, jars: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A tool of Kafka 3.9, or of `jars`, run to its end. See `ToolHost.run`."""
    folder = jars or jars_3_9()
    return _hosts.setdefault(folder, ToolHost(folder)).run(main_class, *arguments, stdin=stdin, timeout_s=timeout_s)


def close_hosts() -> None:
    while _hosts:
        _hosts.popitem()[1].close()


@contextmanager
def started_tool(main_class: str, *arguments: str, jars: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A tool of Kafka 3.9, or of `jars`, in a JVM of its own, for what runs beside other things; killed at the end."""
    process = subprocess.Popen(
        [*_JAVA, "-cp", f"{jars or jars_3_9()}/*", main_class, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
