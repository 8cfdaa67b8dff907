"""Imagined load tasks and hosts publish: what live figures of them cost, and how late they are.

    python -m highwater.bench.development.telemetry_simulation --tasks 1000 --hosts 8 --seconds 60

Starts a control broker and `bench telemetry live`, publishes what the tasks of a real load would, and prints CPU
seconds of the broker and of the job, how long it took from the last message of each second to figures that have it,
and whether live and final figures are equal.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Producer

from highwater.bench.development.telemetry_processes import control_broker, cpu_s, live_job, wait_for
from highwater.bench.telemetry.control import TOPIC, ControlTopic
from highwater.bench.telemetry.notes import EndNote, HostNote, Note, TrialNote, encode_note
from highwater.bench.telemetry.reading import sums_in_one_process
from highwater.bench.telemetry.running import compare_with_state
from highwater.bench.telemetry.store import Store
from highwater.spark_loadgen.histogram import Histogram
from highwater.spark_loadgen.telemetry.message import TaskMessage

TRIAL: Final = "simulation/base-1"
_RECORDS_PER_S: Final = 500
_TEMPLATES: Final = 64
# How often the figures are looked at.
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """CPU seconds while the load ran, of all processes of a kind.

    behind_s: of each second of the load, from its last message to figures that have all of them.
    """

    seconds: float
    messages: int
    message_bytes: float
    broker_cpu_s: float
    job_cpu_s: float
    behind_s: Sequence[float]
    differences: int


def simulate(tasks: int, hosts: int, seconds: int, folder: Path, tell: Callable[[str], None]) -> Outcome:
    state = folder / "state"
    with (
        control_broker(folder / "log") as (broker, address),
        live_job(address, state, folder / "job.log") as job,
    ):
        load = _Load(tasks, hosts, seconds)
        before = cpu_s(broker.pid), cpu_s(job.pid)
        started_s = time.monotonic()
        with _Watcher(state) as watcher:
            published_s = load.publish(address, tell)
            wait_for(lambda: _has_ended(state), job, "the end of the trial in the live figures")
        elapsed_s = time.monotonic() - started_s
        after = cpu_s(broker.pid), cpu_s(job.pid)
        job.terminate()
        job.wait()
        different = compare_with_state(sums_in_one_process(ControlTopic(address)), state, tell)
        broker_cpu_s, job_cpu_s = (now - then for now, then in zip(after, before, strict=True))
        return Outcome(
            elapsed_s,
            load.messages,
            load.message_bytes / load.messages,
            broker_cpu_s,
            job_cpu_s,
            [watcher.seen_s[second] - sent_s for second, sent_s in published_s.items() if second in watcher.seen_s],
            different,
        )


class _Watcher:
    """Reads the live figures as a page does, and notes when each second was first in them. Context manager."""

    def __init__(self, state: Path) -> None:
        self.seen_s: dict[int, float] = {}
        self._state = state
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_S):
            with Store(self._state) as store:
                (trial,) = [one for one in store.trials() if one.name == TRIAL] or (None,)
            if trial is None or trial.note is None or trial.behind_s is None:
                continue
            told_s = trial.written_unix_ms / 1000 - trial.behind_s - trial.note.t0_unix_ns / 1e9
            for second in range(round(told_s)):
                self.seen_s.setdefault(second, time.time())


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

    def publish(self, address: str, tell: Callable[[str], None]) -> dict[int, float]:
        """Publish in real time. Returns when the last message of each second was sent, in seconds of Unix time."""
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 20})
        t0_s = time.time() + 0.1
        half = self._tasks // 2
        slo = {"produce.p99": "<20ms", "produce.achieved_per_s": ">=1/s"}
        note = TrialNote(
            TRIAL, "simulation", "base-1", "base", int(t0_s * 1e9), half, self._tasks - half, 1, 5, self._seconds - 5,
            closed_loop=False, slo=slo,
        )  # fmt: skip
        self._send(producer, note)
        published_s: dict[int, float] = {}
        for second in range(self._seconds + 1):
            due_s = t0_s + second + 1
            for task in range(self._tasks):
                # Tasks publish spread over the second, as real ones do by the drift of their loops.
                if task % 50 == 0:
                    time.sleep(max(0.0, due_s + 0.2 * task / self._tasks - time.time()))
                self._put(producer, str(task).encode(), self._encoded[second][task])
            published_s[second] = time.time()
            for host in range(self._hosts if second < self._seconds else 0):
                sample = {"cpu_ratio": 0.4 + 0.01 * host, "system_cpu_ratio": 1.5, "disk_write_bytes": 123456789}
                self._send(producer, HostNote(TRIAL, f"host-{host}", second, sample))
            producer.poll(0)
            if late_s := max(0.0, time.time() - due_s - 1):
                tell(f"second {second}: this machine was {late_s:.1f} s late to publish it")
        self._send(producer, EndNote(TRIAL, 5, "done"))
        producer.flush(60)
        del published_s[self._seconds]  # a message without a second of its own
        return published_s

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


def _has_ended(state: Path) -> bool:
    with Store(state) as store:
        return any(trial.name == TRIAL and trial.figures["ended"] for trial in store.trials())


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
        "seconds_seen": len(found.behind_s),
        **{
            f"behind_s_p{percentile:g}": round(float(np.percentile(found.behind_s, percentile)), 2)
            for percentile in (50, 99, 100)
            if found.behind_s
        },
        "differences_live_final": found.differences,
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    raise SystemExit(1 if found.differences else 0)


if __name__ == "__main__":
    main()
