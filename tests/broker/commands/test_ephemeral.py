"""`broker start --ephemeral` and `--ready-fd`: what it reports, and that nothing is left however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from highwater.broker.cli import app
from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.settings import address_of, settings_of
from highwater.kafka.requests.metadata import metadata
from tests.broker.running import COMMAND
from tests.processes import runs
from tests.waiting import wait_until

DEADLINE_S = 60.0
PARENT = "import subprocess, sys; subprocess.run(sys.argv[1:])"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program whose temporary folders are in `tmp_path`, and kill it at the end if it runs."""
    begun: list[subprocess.Popen[str]] = []

    def begin(command: Sequence[str], pass_fds: Sequence[int] = ()) -> subprocess.Popen[str]:
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, pass_fds=pass_fds))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def leaves_nothing(folder: Path) -> None:
    wait_until(lambda: not list(folder.iterdir()), f"{folder} is empty", DEADLINE_S)


def test_the_address_goes_to_the_descriptor(start: Start, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    broker = start([*COMMAND, "--ephemeral", "--ready-fd", str(writing)], [writing])
    os.close(writing)
    with os.fdopen(reading) as ready:
        address, nothing_more = ready.read().split("\n")  # it ends, as the broker closes the descriptor
    assert nothing_more == ""
    assert first_line(broker).startswith(f"ready: listening on {address} (")
    client = BlockingClient(settings_of({"bootstrap.servers": address}))
    (listed,) = client.ask(address_of(address), metadata(with_topics=False)).brokers
    client.close()
    assert f"{listed.host}:{listed.port}" == address
    assert [path.name.startswith("highwater-") for path in tmp_path.iterdir()] == [True]
    processes = psutil.Process(broker.pid).children()
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(DEADLINE_S) == 0
    assert list(tmp_path.iterdir()) == []
    assert [process for process in processes if runs(process)] == []


def test_nothing_is_left_after_a_kill(start: Start, tmp_path: Path) -> None:
    broker = start([*COMMAND, "--ephemeral", "--ready-fd", "1"])
    assert first_line(broker).startswith("127.0.0.1:")
    broker.kill()
    assert broker.communicate(timeout=DEADLINE_S)[0] == ""  # who reads its output waits for nobody else
    leaves_nothing(tmp_path)


def test_it_ends_when_its_parent_is_killed(start: Start, tmp_path: Path) -> None:
    parent = start([sys.executable, "-c", PARENT, *COMMAND, "--ephemeral", "--ready-fd", "1"])
    assert first_line(parent).startswith("127.0.0.1:")
    processes = psutil.Process(parent.pid).children(recursive=True)
    assert len(processes) == 2
    parent.kill()
    wait_until(lambda: not any(map(runs, processes)), "the broker and its guard end", DEADLINE_S)
    leaves_nothing(tmp_path)


def test_a_log_directory_of_its_own_is_refused(start: Start, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["start", "--ephemeral", "--log-dir", str(tmp_path / "log")])
    assert done.exit_code == 2
    assert done.stderr == "error: --log-dir: --ephemeral makes a log directory of its own: leave one of them out\n"
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(("flags", "reason"), [(os.O_RDONLY, "open for reading alone"), (None, "is not open")])
def test_a_descriptor_that_cannot_be_written_is_refused(tmp_path: Path, flags: int | None, reason: str) -> None:
    descriptor = os.open(os.devnull, flags or os.O_RDONLY)
    if flags is None:
        os.close(descriptor)
    done = CliRunner().invoke(app, ["start", "--log-dir", str(tmp_path / "log"), "--ready-fd", str(descriptor)])
    if flags is not None:
        os.close(descriptor)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: --ready-fd {descriptor} ")
    assert reason in line
