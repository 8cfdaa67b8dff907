"""Child processes of a command: started, known to be ready, stopped, and their last words."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final


def program(module: str) -> list[str]:
    """The command of a module. -P: Python must not import a folder of the current directory with a package's name."""
    return [sys.executable, "-P", "-m", module]


HIGHWATER: Final = tuple(program("highwater"))
READY: Final = re.compile(
    r"^ready: listening on (?P<address>\S+:\d+)"
    r"(?: \(cluster (?P<cluster_id>\S+), (?P<partitions>\d+) partitions, (?P<duration_ms>\d+) ms\))?",
    re.MULTILINE,
)
"""The line that a broker prints on standard output when it accepts connections."""
_PR_SET_PDEATHSIG: Final = 1
_STANDARD_OUTPUT: Final = 1
_STANDARD_ERROR: Final = 2


def report_ready(
    host: str, port: int, cluster_id: str, partitions: int, duration_ms: int, ready_fd: int | None = None
) -> None:
    """Print the line that READY matches; write `HOST:PORT` and a newline to the descriptor `ready_fd`, and close it.

    Standard output as `ready_fd` gets the address in place of the line. Raises BrokenPipeError if nobody reads it.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if ready_fd != _STANDARD_OUTPUT:
        details = f"cluster {cluster_id}, {partitions} partitions, {duration_ms} ms"
        sys.stdout.write(f"ready: listening on {address} ({details})\n")
        sys.stdout.flush()
    if ready_fd is not None:
        os.write(ready_fd, f"{address}\n".encode())
        if ready_fd > _STANDARD_ERROR:
            os.close(ready_fd)


def start(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    before_exec: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process whose output is appended to `log`.

    It has a session of its own: a Ctrl-C at the terminal is for the command, which still needs the process to end.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=before_exec,
        )


def stop(process: subprocess.Popen[bytes], within_s: float, kill: Callable[[], None] | None = None) -> None:
    """Stop it with SIGTERM, and with `kill` (by default SIGKILL) if it has not ended after `within_s`."""
    process.terminate()
    await_end(process, within_s, kill)


def await_end(process: subprocess.Popen[bytes], within_s: float, kill: Callable[[], None] | None = None) -> None:
    """Wait for the end of a process that was asked to end, and `kill` it if it has not after `within_s`."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        (kill or process.kill)()
    process.wait()


def how_it_ended(status: int) -> str:
    """`was killed by SIGKILL` or `ended with exit status 1`."""
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"


@dataclass
class Serving:
    """A process that prints its address first. rest: what it printed after that, once it has ended."""

    process_id: int
    address: str
    rest: str = ""


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[Serving]:
    """Start a module that serves until its standard input ends; leaving the context ends it."""
    command = [*program(module), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = Serving(process.pid, process.stdout.readline().strip())
        try:
            yield server
        finally:
            server.rest, _ = process.communicate()


def ends_with_parent(by: signal.Signals) -> Callable[[], None]:
    """Returns a function that has the kernel send `by` to its process when the thread that has started it ends."""
    # Loaded here: between fork and exec, a child of a process with threads may do little.
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, by)


def last_words(lines: Iterable[str]) -> str:
    """The last line with text, which usually gives the reason of an end; places in a Java stack trace do not."""
    said = "it printed nothing"
    for line in lines:
        text = line.strip()
        if text and not text.startswith("at "):
            said = text
    return said.removeprefix("error: ")


def last_words_in(log: Path) -> str:
    """The last words of a process whose output is in `log`."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return last_words(lines)
