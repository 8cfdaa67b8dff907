"""What a drill does and what it saw: victims, moments, rounds and the query. Values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from highwater.pipeline.crash_points import CrashPoint


class Victim(Enum):
    """What is killed with SIGKILL, or worse."""

    DRIVER = "driver"
    """The process with the session, and its JVM."""
    JVM = "jvm"
    """The JVM alone: Python code of the driver lives on for a moment."""
    WORKER = "worker"
    """The Python worker that waits at the point; any other if the driver waits there."""
    EXECUTOR = "executor"
    """A JVM that runs tasks, where it is another process than the driver."""
    BROKER = "broker"
    DATABASE = "database"
    CHECKPOINT = "checkpoint"
    """The driver, and the checkpoint with it: the query goes on by `resumeFrom` where the sink says."""
    SUCCESSOR = "successor"
    """Nothing is killed: a second driver takes the query over while the first waits; then the first goes on."""


RANDOM: Final = "random"
"""The moment of a kill without a crash point."""
Moment = CrashPoint | None
"""A crash point; None for any moment."""


def moment_name(moment: Moment) -> str:
    return RANDOM if moment is None else moment.value


@dataclass(frozen=True, slots=True)
class PlannedStop:
    moment: Moment
    victim: Victim


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """begins_query: with a new checkpoint. earlier: a kill that is needed before there is anything to stop at."""

    stop: PlannedStop
    begins_query: bool
    earlier: PlannedStop | None = None


@dataclass(frozen=True, slots=True)
class RoundResult:
    """replays_skipped: how often a sink recognised a batch that it had committed. restarts: of the query."""

    number: int
    moment: str
    victim: str
    reached: bool
    replays_skipped: int
    restarts: int
    records: int
    lost: int
    twice: int
    partial_batches: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class Launch:
    """How a driver starts. settings: of the session. transform: the user's file, or nothing."""

    master: str
    settings: Mapping[str, str]
    transform: str = ""


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """kind: a name of `kinds.KINDS`. target: what that kind needs; may hold a password."""

    kind: str
    target: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """What a driver runs. source: options of `format("highwater")`. without: a safeguard to take away, or nothing.

    name: of its folder of stops; a query ends the one of the same name before.
    """

    source: Mapping[str, str]
    checkpoint: str
    sink: SinkSpec
    without: str = ""
    name: str = ""
    sink_format: str = "highwater"
    """The format of the sink that tasks write to."""
