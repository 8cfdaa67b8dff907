"""The broker of a trial: a process of its own with the file's topics, gone with the run."""

from __future__ import annotations

import contextlib
import ctypes
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from highwater.pipeline.errors import ClientError
from highwater.pipeline.run.model import SampleTopic

_READY: Final = re.compile(r"^ready: listening on (\S+:\d+)")
_TIMEOUT_S: Final = 30
_PR_SET_PDEATHSIG: Final = 1
_HIGHWATER: Final = (sys.executable, "-m", "highwater", "broker")


@contextlib.contextmanager
def trial_broker(topics: Sequence[SampleTopic]) -> Iterator[str]:
    """A broker on a free port of this host with these topics and their records; yields HOST:PORT.

    It ends with this process too, however that ends. Raises ClientError if it does not start or takes no records.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-trial-") as folder, contextlib.ExitStack() as cleanup:
        process = _start(Path(folder))
        cleanup.callback(_stop, process)
        assert process.stdout is not None
        address = _address(process, process.stdout)
        for topic in topics:
            make_topic(topic, address)
        yield address


def _start(folder: Path) -> subprocess.Popen[str]:
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return subprocess.Popen(
        [*_HIGHWATER, "start", "--log-dir", str(folder / "log"), "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A Ctrl-C on the terminal is for the run, which still needs its broker to finish a batch.
        start_new_session=True,
        preexec_fn=end_with_parent,
    )


def _address(process: subprocess.Popen[str], output: IO[str]) -> str:
    watchdog = threading.Timer(_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        for line in output:
            if match := _READY.match(line):
                return match[1]
    finally:
        watchdog.cancel()
    raise ClientError("the broker of the trial did not start; 'highwater broker start --port 0' says why")


def make_topic(topic: SampleTopic, address: str) -> None:
    """Create the topic and write its records. Raises ClientError."""
    of_topic = ("--topic", topic.name, "--bootstrap-server", address)
    _command(topic, "topics", "--create", "--partitions", str(topic.partitions), *of_topic)
    if topic.records is not None:
        with topic.records.open("rb") as lines:
            _command(topic, "produce", *of_topic, lines=lines)


def _command(topic: SampleTopic, *arguments: str, lines: IO[bytes] | None = None) -> None:
    done = subprocess.run(
        [*_HIGHWATER, *arguments],
        stdin=lines or subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it failed without a word"]
        raise ClientError(f"topic {topic.name} of the trial: {said[-1].removeprefix('error: ')}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
