"""A driver as the drill sees it: started, asked for queries, killed with all that belongs to it."""

from __future__ import annotations

import json
import os
import queue
import random
import subprocess
import threading
import time
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import psutil

from highwater.common.child_process import program
from highwater.pipeline.drill.errors import DrillError, DrillSetupError
from highwater.pipeline.drill.model import Launch, QuerySpec

START_DEADLINE_S: Final = 300.0
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"


class DriverProcess:
    """`ready` waits until it has its session; before that it starts while others work."""

    def __init__(self, launch: Launch, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*program("highwater.pipeline.drill.driver"), json.dumps(asdict(launch))],
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._jvm: psutil.Process | None = None
        self._family: dict[int, psutil.Process] = {}
        threading.Thread(target=self._read_events, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def process_ids(self) -> set[int]:
        """Its own, and those of all processes that it was seen to have."""
        return {self.pid, *self._family}

    def ready(self) -> None:
        """Raises DrillSetupError if it refuses the user's file, DrillError if no session comes."""
        if self._jvm is not None:
            return
        deadline_s = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline_s:
            event = self.next_event(0.5)
            if event and event["event"] == "refused":
                raise DrillSetupError(event["error"])
            if event and event["event"] == "ready":
                with suppress(psutil.NoSuchProcess):
                    self._jvm = psutil.Process(event["jvm"])
                return
            if self.has_ended and not event:
                break
        raise DrillError(f"a driver did not start: see {self._log}")

    def start_query(self, spec: QuerySpec) -> None:
        """Start a query; events report what becomes of it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asdict(spec)) + "\n")
            self._process.stdin.flush()

    def next_event(self, within_s: float = 0.0) -> dict[str, Any] | None:
        try:
            return self._events.get(timeout=within_s) if within_s else self._events.get_nowait()
        except queue.Empty:
            return None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def jvm_has_ended(self) -> bool:
        return self._jvm is None or not _runs(self._jvm)

    def kill(self) -> None:
        """The driver with its JVM; Python workers see it by themselves."""
        self._process.kill()
        self.kill_jvm()
        self._process.wait()

    def kill_jvm(self) -> None:
        if self._jvm is not None:
            with suppress(psutil.NoSuchProcess):
                self._jvm.kill()

    def kill_worker(self, pid: int | None, of_query: Container[int], rng: random.Random) -> bool:
        """The process `pid` if it is one of the Python workers, else any of the query's. False if there is none."""
        self.remember_family()
        workers = [each for each in self._family.values() if _is_python(each) and each.pid != self.pid]
        chosen = [each for each in workers if each.pid == pid] or [each for each in workers if each.pid in of_query]
        return _kill_one(chosen, rng)

    def kill_executors(self, pids: Iterable[int | None], rng: random.Random) -> bool:
        """Those whose tasks wait in these processes, else any. False if all tasks run in the driver's JVM."""
        self.remember_family()
        waiting = set(pids)
        executors = [each for each in self._family.values() if _is_executor(each)]
        chosen = [each for each in executors if waiting & _children(each)]
        killed = [_kill_one([each], rng) for each in chosen] or [_kill_one(executors, rng)]
        return any(killed)

    def end(self) -> None:
        """Leave nothing of it, however it is by now."""
        self.remember_family()
        self.kill()
        for each in self._family.values():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def remember_family(self) -> None:
        """Orphans cannot be found by their parent; psutil notices if another process got the id of one."""
        for parent in (self._jvm, *([] if self.has_ended else [psutil.Process(self.pid)])):
            if parent is not None:
                with suppress(psutil.NoSuchProcess):
                    self._family |= {each.pid: each for each in parent.children(recursive=True)}

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed
            for line in self._process.stdout:
                self._events.put(json.loads(line))


def _kill_one(processes: list[psutil.Process], rng: random.Random) -> bool:
    running = [each for each in processes if _runs(each)]
    if running:
        with suppress(psutil.NoSuchProcess):
            rng.choice(running).kill()
    return bool(running)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _children(process: psutil.Process) -> set[int]:
    try:
        return {each.pid for each in process.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def _is_python(process: psutil.Process) -> bool:
    """A worker, its daemon, or the process in which Spark runs the source."""
    try:
        return "python" in process.name() and any("pyspark" in word for word in process.cmdline())
    except psutil.Error:
        return False


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(_EXECUTOR in word for word in process.cmdline())
    except psutil.Error:
        return False
