"""One pass of a reader or a writer: its wall time, and the CPU time of all processes that took part."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import psutil

Value = TypeVar("Value")
_BROKER: Final = " -m highwater broker start "
"""In the command of a broker, which has a processor of its own."""


@dataclass(frozen=True, slots=True)
class Pass:
    """In seconds."""

    wall_s: float
    cpu_s: float


def cpu_s() -> float:
    """What the children of this process have used so far: Spark's JVM and its workers, a database, and no broker."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if _BROKER in " ".join(process.cmdline()):
                continue
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


def timed(run: Callable[[], Value]) -> tuple[Value, Pass]:
    """What `run` returns, and its times. CPU is that of this process and of its children."""
    before_wall_s, before_cpu_s = time.perf_counter(), cpu_s() + time.process_time()
    value = run()
    wall_s = time.perf_counter() - before_wall_s
    return value, Pass(wall_s, cpu_s() + time.process_time() - before_cpu_s)


def in_turns(writers: Mapping[str, Callable[[], object]], rounds: int, chooser: random.Random) -> dict[str, list[Pass]]:
    """A pass of each writer for each round, in a new order each time. The first round is not counted."""
    found: dict[str, list[Pass]] = {name: [] for name in writers}
    for number in range(rounds + 1):
        for name in chooser.sample(list(writers), len(writers)):
            _, taken = timed(writers[name])
            if number:
                found[name].append(taken)
    return found
