"""Reads the kernel's trace: each sleep of a thread that only the kernel can end, with its stack.

Such a sleep (state D, uninterruptible) is a wait for a disk, a journal or a lock of the kernel. A thread that waits for
a request or for another thread of its program sleeps in another state, and is not counted.

The text is that of `trace_pipe` (the kernel's Documentation/trace/ftrace.rst), with the event sched_switch and its
trigger `stacktrace`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_SWITCH: Final = re.compile(
    r".+-\d+\s+\[\d+\]\s+\S+\s+(?P<seconds>\d+\.\d+): sched_switch: prev_comm=(?P<name>.*) prev_pid=(?P<thread>\d+) "
    r"prev_prio=-?\d+ prev_state=(?P<state>\S+) ==> next_comm=.* next_pid=(?P<next>\d+) next_prio=-?\d+"
)
_STACK: Final = re.compile(r".+-(?P<thread>\d+)\s+\[\d+\]\s+\S+\s+\d+\.\d+: <stack trace>")
_FUNCTION: Final = re.compile(r" => (?P<name>[^\s+.]+)")
_LOST: Final = re.compile(r"CPU:\d+ \[LOST (?P<events>\d+) EVENTS\]")


class Sleep(NamedTuple):
    """A sleep that has ended. stack: names of the kernel's functions, the innermost first; empty if it was lost."""

    thread_id: int
    name: str
    duration_s: float
    stack: tuple[str, ...]


@dataclass(slots=True)
class _Begun:
    name: str
    at_s: float
    stack: list[str] = field(default_factory=list)


class SleepReader:
    """Takes lines of the trace in their order; returns each sleep of the wanted threads when it ends."""

    def __init__(self, threads: frozenset[int]) -> None:
        self.threads = threads
        self.lost_events = 0
        """How many events the kernel dropped, as they were not read in time."""
        self._begun: dict[int, _Begun] = {}
        self._stack: list[str] | None = None

    def feed(self, line: str) -> Iterator[Sleep]:
        if line.startswith(" => "):
            if self._stack is not None and (function := _FUNCTION.match(line)):
                self._stack.append(function["name"])
            return
        if "sched_switch:" in line:
            # Most switches concern no such sleep; this check discards them before the costly match.
            if (self._begun or "prev_state=D" in line) and (switch := _SWITCH.match(line)):
                yield from self._switch(switch)
        elif found := _STACK.match(line):
            begun = self._begun.get(int(found["thread"]))
            self._stack = begun.stack if begun is not None and not begun.stack else None
        elif lost := _LOST.match(line):
            self.lost_events += int(lost["events"])
            # The end of a sleep may be among the lost events, and a later switch to its thread would be taken for it.
            self._begun.clear()
            self._stack = None

    def _switch(self, switch: re.Match[str]) -> Iterator[Sleep]:
        at_s = float(switch["seconds"])
        back = int(switch["next"])
        if (begun := self._begun.pop(back, None)) is not None:
            yield Sleep(back, begun.name, at_s - begun.at_s, tuple(begun.stack))
        thread = int(switch["thread"])
        if switch["state"].startswith("D") and thread in self.threads:
            self._begun[thread] = _Begun(switch["name"], at_s)
