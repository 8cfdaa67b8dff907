"""Starts a control broker and the job of live figures, for simulations and comparisons."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Producer

from highwater.bench.errors import UsageError
from highwater.bench.systems.process import ready_line
from highwater.bench.telemetry.control import TOPIC
from highwater.bench.telemetry.store import Store
from highwater.bench.telemetry.topics import make_topic
from highwater.spark_loadgen.telemetry.message import TaskMessage

Process = subprocess.Popen[str] | subprocess.Popen[bytes]

_POLL_S: Final = 0.2
_START_S: Final = 600.0


@contextmanager
def control_broker(log_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A control broker with its topic, and its address."""
    command = [sys.executable, "-m", "highwater", "broker", "start", "--log-dir", str(log_dir), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = ready_line(process.stdout.readline())
        if address is None:
            raise RuntimeError("the control broker does not start")
        make_topic(address, {}, TOPIC)
        yield process, address
    finally:
        end_family(process)


@contextmanager
def live_job(address: str, state: Path, log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`bench telemetry live`, when it has stored a first message."""
    command = [sys.executable, "-m", "highwater", "bench", "telemetry", "live", "--quiet"]
    with log_path.open("wb") as log:
        job = subprocess.Popen([*command, "--control", address, "--state", str(state)], stdout=log, stderr=log)
    try:
        producer = Producer({"bootstrap.servers": address})
        producer.produce(TOPIC, TaskMessage("warm-up", 0, 0, 0, last=True).encode())
        producer.flush(30)
        wait_for(lambda: _has_stored(state), job, "a first micro-batch")
        yield job
    finally:
        end_family(job)


def _has_stored(state: Path) -> bool:
    try:
        with Store(state) as store:
            return bool(store.trials())
    except UsageError:
        return False


def wait_for(condition: Callable[[], bool], job: subprocess.Popen[bytes], what: str) -> None:
    """Raises RuntimeError if the job ends before `condition` holds."""
    deadline_s = time.monotonic() + _START_S
    while not condition():
        if job.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"{what} did not come; see the log of the job")
        time.sleep(_POLL_S)


def family(process: Process) -> list[psutil.Process]:
    """A process and all that it started and that still run."""
    try:
        first = psutil.Process(process.pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal to a process and all that it started."""
    for one in family(process):
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)


def end_family(process: Process) -> None:
    """End a process that may be stopped or dead already."""
    send(process, signal.SIGCONT)
    process.terminate()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def cpu_s(pid: int) -> float:
    """Of the process and its children, also of those that have ended."""
    total = 0.0
    process = psutil.Process(pid)
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
