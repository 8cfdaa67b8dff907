"""The service behind `bench host sample`: reports readings of its host, one line per second.

The run sends one line of JSON (`SampleRequest`) and receives one line for each reading (`SampleResponse`) until it
closes its side; then it receives a last reading. Standard input and output may be a socket that systemd accepted, a
pipe, or ssh. The service sends counters and nothing else.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.bench.host.processes import ProcessGroups
from highwater.bench.host.readings import HostReader, Reading

INTERVAL_S: Final = 1.0
QUESTION_BYTES_MAX: Final = 1 << 16
_SYSTEMCTL_TIMEOUT_S: Final = 5.0
_ROLES: Final = ("brokers", "attendants", "generator")

MainProcesses = Callable[[Sequence[str]], list[int]]
"""The main process of each of these units, 0 for one that does not run."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The units whose CPU and memory to read, and the disks (names joined by +) whose traffic to read."""

    brokers: list[str] = field(default_factory=list)
    attendants: list[str] = field(default_factory=list)
    generator: list[str] = field(default_factory=list)
    device: str | None = None

    def as_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> SampleRequest:
        """Raises ValueError."""
        told = json.loads(line)
        if not isinstance(told, dict):
            raise ValueError("the question is not a mapping")
        units = {role: told.get(role, []) for role in _ROLES}
        for role, names in units.items():
            if not isinstance(names, list) or not all(isinstance(n, str) and n and n[0] != "-" for n in names):
                raise ValueError(f"{role} is not a list of units")
        device = told.get("device")
        if device is not None and not isinstance(device, str):
            raise ValueError("device is not a name")
        return cls(device=device, **units)


@dataclass(frozen=True, slots=True)
class SampleResponse:
    """One line: a reading and the broker units that do not run; or a problem, and then no further line."""

    reading: Reading | None = None
    missing: list[str] = field(default_factory=list)
    problem: str | None = None

    def as_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> SampleResponse:
        """Raises ValueError, TypeError or LookupError for what is no answer."""
        told: Mapping[str, Any] = json.loads(line)
        reading = None if told["reading"] is None else _reading_of(told["reading"])
        return cls(reading, [str(name) for name in told["missing"]], told["problem"])


def _reading_of(told: Mapping[str, Any]) -> Reading:
    def number_or_none(value: Any) -> float | None:
        return None if value is None else float(value)

    return Reading(
        monotonic_s=float(told["monotonic_s"]),
        busy_cpu_s=float(told["busy_cpu_s"]),
        steal_cpu_s=float(told["steal_cpu_s"]),
        total_cpu_s=float(told["total_cpu_s"]),
        counters={str(name): float(value) for name, value in told["counters"].items()},
        gauges={str(name): int(value) for name, value in told["gauges"].items()},
        disk_read_ns=number_or_none(told["disk_read_ns"]),
        disk_write_ns=number_or_none(told["disk_write_ns"]),
        epoch=int(told["epoch"]),
    )


def serve(input_fd: int, output_fd: int, main_processes: MainProcesses | None = None) -> int:
    """Answer one question until the other side closes. Returns the exit status."""
    try:
        question = SampleRequest.parse(_first_line(input_fd))
    except ValueError as error:
        _send(output_fd, SampleResponse(problem=f"this is not a question that a sampler knows: {error}"))
        return 2
    units = _Units(question, main_processes or main_processes_of)
    reader = HostReader(units.groups, question.device)
    next_s = time.monotonic()
    heard = True
    while heard:
        if units.changed():
            reader.regroup(units.groups)
        if not _send(output_fd, SampleResponse(reader.read(), units.missing)):
            return 0
        next_s += INTERVAL_S
        heard = not _closed_by(input_fd, next_s)
    _send(output_fd, SampleResponse(reader.read(), units.missing))
    return 0


class _Units:
    """The processes of the units; looked up again when a process is missing."""

    def __init__(self, question: SampleRequest, main_processes: MainProcesses) -> None:
        self._units = {role: list(getattr(question, role)) for role in _ROLES}
        self._main_processes = main_processes
        self._found = self._look_up()

    @property
    def groups(self) -> ProcessGroups:
        running = {role: tuple(pid for pid in self._found[role].values() if pid) for role in _ROLES}
        return ProcessGroups(running["brokers"], running["attendants"], running["generator"])

    @property
    def missing(self) -> list[str]:
        return [unit for unit, pid in self._found["brokers"].items() if not pid]

    def changed(self) -> bool:
        if all(pid and Path(f"/proc/{pid}").exists() for found in self._found.values() for pid in found.values()):
            return False
        before, self._found = self._found, self._look_up()
        return self._found != before

    def _look_up(self) -> dict[str, dict[str, int]]:
        return {
            role: dict(zip(units, self._main_processes(units), strict=True)) if units else {}
            for role, units in self._units.items()
        }


def main_processes_of(units: Sequence[str]) -> list[int]:
    """The main process of each unit from systemd; 0 for all on a host without systemd."""
    command = ["systemctl", "show", "--property=MainPID", "--value", "--", *units]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=_SYSTEMCTL_TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return [0] * len(units)
    found = [int(line) for line in told.split() if line.isdecimal()]
    return found if len(found) == len(units) else [0] * len(units)


def _first_line(fd: int) -> bytes:
    """Raises ValueError when there is none."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(fd, 4096)
        line += more
        if not more or len(line) > QUESTION_BYTES_MAX:
            raise ValueError("no line came")
    return line


def _send(fd: int, answer: SampleResponse) -> bool:
    """Send one line; False when the other side has closed."""
    line = answer.as_line()
    try:
        while line:
            line = line[os.write(fd, line) :]
    except (BrokenPipeError, ConnectionError):
        return False
    return True


def _closed_by(fd: int, until_s: float) -> bool:
    """Wait until `until_s`; True as soon as the other side has closed. Further input is ignored."""
    while (left_s := until_s - time.monotonic()) > 0:
        readable, _, _ = select.select([fd], [], [], left_s)
        if readable and not os.read(fd, 4096):
            return True
    return False
