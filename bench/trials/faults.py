"""Injects the faults of a workload while its load runs: which broker, when, and when it serves again.

A state machine that the thread which watches the load calls about ten times a second. It has no thread of its
own: a broker dies with the thread that started it (bench/systems/tether.py). No turn waits, but for the moment a killed
process needs to go, and for the cluster's answer to who leads.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.bench.systems import SystemProcess
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.trials.recovery import FaultMark
from highwater.bench.workload.faults import Fault
from highwater.common.errors import TrialError, UsageError
from highwater.results.models import EventLine
from highwater.spark_loadgen.model import Progress

# A broker that is started again may be refused while the cluster still counts it in: it is started once more, as a
# supervisor would.
_AGAIN_AFTER_S: Final = 1.0
_SERVES_WITHIN_S: Final = 120.0
# What is due at the last moment at which its end can be seen is made all the same, though turns come late.
_TURNS_LATE_S: Final = 1.0
_DONE: Final = {"kill": "killed", "stop": "asked to end", "pause": "paused", "restart": "asked to end"}

_State = Literal["down", "starting", "back"]


@dataclass(slots=True)
class _Struck:
    """One fault under way. Instants of `time.time_ns()`: only at the end is T0 known by that clock."""

    fault: Fault
    node: int
    process: SystemProcess
    at_unix_ns: int
    back_due_s: float | None
    """On time.monotonic(); None: never."""
    state: _State = "down"
    ended_unix_ns: int | None = None
    """When a process that was asked to end was seen to have ended."""
    back_unix_ns: int | None = None
    give_up_s: float = 0.0
    start_next_s: float = 0.0


class FaultInjector:
    """on_change: called whenever the brokers' processes became others, with those that are new.

    Without faults it does nothing, and `nodes` may be empty.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        nodes: Sequence[SystemProcess],
        client: BrokerClient,
        topic: str,
        measure_s: int,
        seed: int,
        on_change: Callable[[Sequence[int]], None],
    ) -> None:
        self._pending = list(faults)
        self._nodes = nodes
        self._client = client
        self._topic = topic
        self._measure_s = measure_s
        self._chance = random.Random(seed)
        self._on_change = on_change
        self._measure_start_s: float | None = None
        self._struck: list[_Struck] = []
        self._events: list[tuple[int, str, str]] = []
        self.problem: str | None = None
        """One line when a fault could not be made, or a broker did not come back."""

    def progressed(self, progress: Progress) -> None:
        """Note from the progress of the load when the measured phase starts, on time.monotonic()."""
        if progress.phase in ("warmup", "measure"):
            self._measure_start_s = time.monotonic() + progress.left_s - self._measure_s

    def run_due(self) -> None:
        """Do what is due. Never raises: `problem` says what went wrong."""
        if self._measure_start_s is None or self.problem is not None:
            return
        try:
            for struck in self._struck:
                self._bring_back(struck)
            elapsed_s = time.monotonic() - self._measure_start_s
            if self._pending and elapsed_s >= self._pending[0].at_s:
                self._check_in_time(self._pending[0], elapsed_s)
                if not self._awaited:
                    self._strike(self._pending.pop(0))
        except (TrialError, UsageError) as error:
            self.problem = str(error)

    def _check_in_time(self, fault: Fault, elapsed_s: float) -> None:
        """Raises TrialError when too little time is left to see the end of the fault."""
        if elapsed_s > fault.latest_s(self._measure_s) + _TURNS_LATE_S:
            raise TrialError(f"it is too late for the fault at {fault.at_s} s of the measured phase{self._why_late()}")

    def _why_late(self) -> str:
        return f": broker {self._struck[-1].node} was not back from the one before" if self._awaited else ""

    @property
    def _awaited(self) -> bool:
        """Whether a broker is down that will come back: the next fault waits for it."""
        return any(struck.state != "back" and struck.back_due_s is not None for struck in self._struck)

    def finish(self, checkpoint: Callable[[], None]) -> None:
        """After the end of the load: wait until every broker that is to come back serves again.

        Raises TrialError when one does not, or a fault was not made in time.
        """
        if self.problem is None and self._pending:
            at_s, why = self._pending[0].at_s, self._why_late()
            self.problem = f"the load ended before the fault at {at_s} s of the measured phase was made{why}"
        while self.problem is None and self._awaited:
            checkpoint()
            self.run_due()
            time.sleep(0.05)
        if self.problem is not None:
            raise TrialError(self.problem)

    def marks(self, t0_unix_ns: int) -> list[FaultMark]:
        return [
            FaultMark(
                struck.fault.do,
                struck.node,
                struck.fault.node if isinstance(struck.fault.node, str) else "node",
                _since(t0_unix_ns, struck.at_unix_ns),
                None if struck.back_unix_ns is None else _since(t0_unix_ns, struck.back_unix_ns),
                None if struck.ended_unix_ns is None else _since(t0_unix_ns, struck.ended_unix_ns),
            )
            for struck in self._struck
        ]

    def events(self, t0_unix_ns: int) -> list[EventLine]:
        return [
            EventLine(at_s=_since(t0_unix_ns, unix_ns), kind=kind, text=text) for unix_ns, kind, text in self._events
        ]

    def _strike(self, fault: Fault) -> None:
        node = self._choose(fault)
        process = self._nodes[node - 1]
        at_unix_ns = time.time_ns()
        match fault.do:
            case "pause":
                process.pause()
            case "kill":
                process.take_down(signal.SIGKILL)
            case "stop" | "restart":
                process.take_down(signal.SIGTERM)
        down_s = 0 if fault.do == "restart" else fault.for_s
        back_due_s = None if down_s is None else time.monotonic() + down_s
        self._struck.append(_Struck(fault, node, process, at_unix_ns, back_due_s))
        chosen = f" ({fault.node})" if isinstance(fault.node, str) else ""
        self._events.append((at_unix_ns, "fault", f"broker {node}{chosen} {_DONE[fault.do]}"))
        if fault.do != "pause":
            self._on_change([])

    def _choose(self, fault: Fault) -> int:
        down = {struck.node for struck in self._struck if struck.state != "back"}
        if fault.node == "not_controller" and len(self._nodes) > 1:
            controller = self._client.controller()
            others = [number for number in range(1, len(self._nodes) + 1) if number not in (controller, *down)]
            if not others:
                raise TrialError(f"fault at {fault.at_s} s: every broker but the controller is down")
            return self._chance.choice(others)
        if isinstance(fault.node, int):
            node = fault.node
        elif fault.node == "any":
            return self._chance.choice([number for number in range(1, len(self._nodes) + 1) if number not in down])
        elif len(self._nodes) == 1:
            node = 1
        elif fault.node == "leader":
            node = self._client.leader_of(self._topic, 0)
        else:
            node = self._client.controller()
        if not 1 <= node <= len(self._nodes):
            raise TrialError(f"fault at {fault.at_s} s: the cluster names broker {node} as its {fault.node}")
        if node in down:
            raise TrialError(f"fault at {fault.at_s} s: broker {node} ({fault.node}) is still down of the one before")
        return node

    def _bring_back(self, struck: _Struck) -> None:
        now_s = time.monotonic()
        if struck.state == "back" or struck.back_due_s is None or now_s < struck.back_due_s:
            if struck.state == "down" and struck.fault.do == "stop" and struck.process.reap():
                if struck.ended_unix_ns is None:
                    struck.ended_unix_ns = time.time_ns()
                self._on_change([])
            return
        if struck.fault.do == "pause":
            struck.process.resume()
            self._is_back(struck, "goes on")
        elif struck.state == "down":
            if struck.process.reap():
                self._start(struck, now_s)
                struck.give_up_s = now_s + _SERVES_WITHIN_S
        elif struck.process.serves():
            self._is_back(struck, "serves again")
        elif now_s > struck.give_up_s:
            raise TrialError(f"broker {struck.node} does not serve {_SERVES_WITHIN_S:.0f} s after it was started again")
        elif struck.process.reap() and now_s >= struck.start_next_s:
            self._start(struck, now_s)

    def _start(self, struck: _Struck, now_s: float) -> None:
        struck.process.start_again()
        struck.state = "starting"
        struck.start_next_s = now_s + _AGAIN_AFTER_S
        self._events.append((time.time_ns(), "fault", f"broker {struck.node} started again"))
        self._on_change(struck.process.process_ids)

    def _is_back(self, struck: _Struck, text: str) -> None:
        struck.state = "back"
        struck.back_unix_ns = time.time_ns()
        self._events.append((struck.back_unix_ns, "recovery", f"broker {struck.node} {text}"))


def _since(t0_unix_ns: int, unix_ns: int) -> float:
    """Seconds since T0 to the millisecond: as they are written down, so that figures can be made again from them."""
    return round((unix_ns - t0_unix_ns) / 1e9, 3)
