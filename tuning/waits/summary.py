"""Adds up the sleeps of threads: how often, how long and why, for each kind of thread and each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from .causes import Cause, CauseName, call_of, cause_of, function_of
from .sleeps import Sleep

MAIN_THREAD: Final = "main thread"
_KAFKA_THREADS: Final = ("data-pl", "kafka-r", "kafka-n")
"""How the names of Apache Kafka's request and network threads begin; a JVM shortens names to 15 characters."""


@dataclass(frozen=True)
class Waits:
    """The waits of one kind of thread in one call for one reason.

    answers_clients: whether requests of clients wait as long. function: of the kernel, the most frequent one.
    """

    threads: str
    answers_clients: bool
    call: str
    cause: CauseName
    text: str
    function: str
    count: int
    total_s: float
    longest_s: float
    knobs: tuple[str, ...]


@dataclass(slots=True)
class _Sum:
    cause: Cause
    durations_s: list[float] = field(default_factory=list)
    functions: Counter[str] = field(default_factory=Counter)


def summarize(sleeps: Iterable[Sleep], main_threads: Collection[int], at_least_s: float) -> tuple[Waits, ...]:
    """Return the waits of `at_least_s` or more: those of threads that answer clients first, the most time first."""
    sums: dict[tuple[str, bool, str, CauseName], _Sum] = {}
    for sleep in sleeps:
        if sleep.duration_s < at_least_s:
            continue
        is_main = sleep.thread_id in main_threads
        name = MAIN_THREAD if is_main else kind_of(sleep.name)
        cause = cause_of(sleep.stack)
        key = name, is_main or name.startswith(_KAFKA_THREADS), call_of(sleep.stack), cause.name
        found = sums.setdefault(key, _Sum(cause))
        found.durations_s.append(sleep.duration_s)
        found.functions[function_of(sleep.stack)] += 1
    rows = [
        Waits(
            threads=name,
            answers_clients=answers_clients,
            call=call,
            cause=cause,
            text=found.cause.text,
            function=found.functions.most_common(1)[0][0],
            count=len(found.durations_s),
            total_s=sum(found.durations_s),
            longest_s=max(found.durations_s),
            knobs=found.cause.knobs,
        )
        for (name, answers_clients, call, cause), found in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (not row.answers_clients, -row.total_s)))


def kind_of(name: str) -> str:
    """Return the name of a thread without its number, so that threads of one pool are one kind."""
    return name.rstrip("0123456789").rstrip("-_#") or name
