"""Imagined load tasks and hosts publish: what live figures of them cost, and how late they are.

    python -m highwater.bench.development.telemetry_simulation --tasks 1000 --hosts 8 --seconds 60

Starts a control broker and `bench telemetry live`, publishes what the tasks of a real load would, and prints CPU
seconds of the broker and of the job, how far the figures were behind, and whether live and final ones are equal.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from confluent_kafka import Producer

from highwater.bench.errors import UsageError
from highwater.bench.telemetry.control import TOPIC, ControlTopic
from highwater.bench.telemetry.notes import EndNote, HostNote, Note, TrialNote, encode_note
from highwater.bench.telemetry.reading import sums_in_one_process
from highwater.bench.telemetry.running import compare_with_state
from highwater.bench.telemetry.store import Store
from highwater.bench.telemetry.topics import make_topic
from highwater.spark_loadgen.histogram import Histogram
from highwater.spark_loadgen.telemetry.message import TaskMessage

TRIAL: Final = "simulation/base-1"
_RECORDS_PER_S: Final = 500
_TEMPLATES: Final = 64
_POLL_S: Final = 0.2
_START_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """cpu seconds while the load ran, of all processes of a kind. behind_s: of each micro-batch."""

    seconds: float
    messages: int
    message_bytes: float
    broker_cpu_s: float
    job_cpu_s: float
    behind_s: Sequence[float]
    differences: int


def simulate(tasks: int, hosts: int, seconds: int, folder: Path, tell: Callable[[str], None]) -> Outcome:
    with _control_broker(folder / "log") as (broker, address):
        make_topic(address, {}, TOPIC)
        state = folder / "state"
        command = [sys.executable, "-m", "highwater", "bench", "telemetry", "live", "--quiet"]
        with (folder / "job.log").open("wb") as log:
            job = subprocess.Popen([*command, "--control", address, "--state", str(state)], stdout=log, stderr=log)
        try:
            _warm_up(address, state, job)
            load = _Load(tasks, hosts, seconds)
            before = _cpu_s(broker.pid), _cpu_s(job.pid)
            started_s = time.monotonic()
            behind_s = load.publish(address, state, tell)
            _wait(lambda: _has_ended(state), job, "the end of the trial in the live figures")
            elapsed_s = time.monotonic() - started_s
            after = _cpu_s(broker.pid), _cpu_s(job.pid)
        finally:
            job.terminate()
            job.wait()
        different = compare_with_state(sums_in_one_process(ControlTopic(address)), state, tell)
        mean_bytes = load.message_bytes / load.messages
        broker_cpu_s, job_cpu_s = (now - then for now, then in zip(after, before, strict=True))
        return Outcome(elapsed_s, load.messages, mean_bytes, broker_cpu_s, job_cpu_s, behind_s, different)


class _Load:
    """Messages as tasks make them: a second of its own and what was acknowledged late of the second before."""

    def __init__(self, tasks: int, hosts: int, seconds: int) -> None:
        self._tasks, self._hosts, self._seconds = tasks, hosts, seconds
        self.messages, self.message_bytes = 0, 0
        random = np.random.default_rng(1)
        self._templates = [
            Histogram.of_values(random.lognormal(15, 0.5, _RECORDS_PER_S).astype(np.int64).tolist())
            for _ in range(_TEMPLATES)
        ]
        self._few = [
            Histogram.of_values(random.lognormal(17, 0.3, 5).astype(np.int64).tolist()) for _ in range(_TEMPLATES)
        ]
        # Encoded before the clock runs: what is measured is the broker and the job.
        self._encoded = [
            [self._message(task, second).encode() for task in range(tasks)] for second in range(seconds + 1)
        ]

    def publish(self, address: str, state: Path, tell: Callable[[str], None]) -> list[float]:
        """Publish in real time. Returns how far behind the figures were, by micro-batch."""
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 20})
        t0_s = time.time() + 0.1
        half = self._tasks // 2
        slo = {"produce.p99": "<20ms", "produce.achieved_per_s": ">=1/s"}
        note = TrialNote(
            TRIAL, "simulation", "base-1", "base", int(t0_s * 1e9), half, self._tasks - half, 1, 5, self._seconds - 5,
            closed_loop=False, slo=slo,
        )  # fmt: skip
        self._send(producer, note)
        behind_s: list[float] = []
        seen = 0
        for second in range(self._seconds + 1):
            due_s = t0_s + second + 1
            for task in range(self._tasks):
                # Tasks publish spread over the second, as real ones do by the drift of their loops.
                if task % 50 == 0:
                    time.sleep(max(0.0, due_s + 0.2 * task / self._tasks - time.time()))
                self._put(producer, str(task).encode(), self._encoded[second][task])
            for host in range(self._hosts if second < self._seconds else 0):
                sample = {"cpu_ratio": 0.4 + 0.01 * host, "system_cpu_ratio": 1.5, "disk_write_bytes": 123456789}
                self._send(producer, HostNote(TRIAL, f"host-{host}", second, sample))
            producer.poll(0)
            if late_s := max(0.0, time.time() - due_s - 1):
                tell(f"second {second}: this machine was {late_s:.1f} s late to publish it")
            behind, seen = _behind_s(state, seen)
            behind_s += behind
        self._send(producer, EndNote(TRIAL, 5, "done"))
        producer.flush(60)
        return behind_s

    def _message(self, task: int, second: int) -> TaskMessage:
        producer, last = task < self._tasks // 2, second == self._seconds
        metrics = ("produce_response", "produce_service", "send_delay") if producer else ("e2e_response",)
        at = (task * 31 + second * 7) % _TEMPLATES
        histograms = {} if last else {(metric, second): self._templates[at - n] for n, metric in enumerate(metrics)}
        if second:
            histograms |= {(metric, second - 1): self._few[at] for metric in metrics}
        rows = ("sent", "acked", "acked_bytes") if producer else ("received", "received_bytes")
        counts = {} if last else {row: [_RECORDS_PER_S * (1000 if "bytes" in row else 1)] for row in rows}
        return TaskMessage(
            TRIAL, task, second, min(second, self._seconds - 1), second, last=last, counts=counts,
            cpu_ratio=[] if last else [0.3], histograms=histograms,
        )  # fmt: skip

    def _send(self, producer: Producer, note: Note) -> None:
        self._put(producer, b"driver", encode_note(note))

    def _put(self, producer: Producer, key: bytes, value: bytes) -> None:
        producer.produce(TOPIC, value=value, key=key)
        self.messages += 1
        self.message_bytes += len(value)


def _behind_s(state: Path, seen_ms: int) -> tuple[list[float], int]:
    """How far behind the trial was in the latest micro-batch, unless that was seen before."""
    with Store(state) as store:
        for trial in store.trials():
            if trial.name == TRIAL and trial.behind_s is not None and trial.written_unix_ms > seen_ms:
                return [trial.behind_s], trial.written_unix_ms
    return [], seen_ms


def _has_ended(state: Path) -> bool:
    with Store(state) as store:
        return any(trial.name == TRIAL and trial.figures["ended"] for trial in store.trials())


def _warm_up(address: str, state: Path, job: subprocess.Popen[bytes]) -> None:
    """Wait until the stream runs: it has stored a message."""
    producer = Producer({"bootstrap.servers": address})
    producer.produce(TOPIC, TaskMessage("warm-up", 0, 0, 0, last=True).encode())
    producer.flush(30)

    def stored() -> bool:
        try:
            with Store(state) as store:
                return bool(store.trials())
        except UsageError:
            return False

    _wait(stored, job, "a first micro-batch")


def _wait(condition: Callable[[], bool], job: subprocess.Popen[bytes], what: str) -> None:
    deadline_s = time.monotonic() + _START_S
    while not condition():
        if job.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"{what} did not come; see job.log")
        time.sleep(_POLL_S)


def _cpu_s(pid: int) -> float:
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


@contextmanager
def _control_broker(log_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "highwater", "broker", "start", "--log-dir", str(log_dir), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        ready = re.search(r"listening on (\S+) ", process.stdout.readline())
        if ready is None:
            raise RuntimeError("the control broker does not start")
        yield process, ready[1]
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", type=Path, help="keep the broker's log and the figures in this directory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="highwater-telemetry-") as scratch:
        found = simulate(options.tasks, options.hosts, options.seconds, options.keep or Path(scratch), print)
    told = {
        "tasks": options.tasks,
        "messages": found.messages,
        "message_bytes_mean": round(found.message_bytes),
        "seconds": round(found.seconds, 1),
        "broker_cores": round(found.broker_cpu_s / found.seconds, 3),
        "job_cores": round(found.job_cpu_s / found.seconds, 3),
        "behind_s_median": round(statistics.median(found.behind_s), 2) if found.behind_s else None,
        "behind_s_max": round(max(found.behind_s), 2) if found.behind_s else None,
        "differences_live_final": found.differences,
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    raise SystemExit(1 if found.differences else 0)


if __name__ == "__main__":
    main()
