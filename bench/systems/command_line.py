"""Any broker that a command line starts: it gets a port and a directory."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from highwater.bench.systems.process import SystemProcess, listening
from highwater.bench.systems.running import StartedSystem, await_members
from highwater.common.errors import UsageError
from highwater.common.ports import free_ports

COMMAND: Final = "command"


def check_program(command_line: str) -> None:
    """Raises UsageError when this host has no such program."""
    program = shlex.split(command_line)[0]
    if shutil.which(program) is None:
        raise UsageError(f"system.command: no program {program} here")


def start_command_line(
    command_line: str,
    data_directories: list[Path],
    log_directory: Path,
    checkpoint: Callable[[], None],
    *,
    ready_within_s: float,
) -> StartedSystem:
    """Raises UsageError when there is no such program."""
    (port,) = free_ports(1)
    values = {"{port}": str(port), "{data_directory}": ",".join(map(str, data_directories))}
    command = [_filled(word, values) for word in shlex.split(command_line)]
    check_program(command_line)
    process = SystemProcess("the broker", command, log_directory / "system.log", guard=True)
    try:
        process.await_ready(listening(port), checkpoint, ready_within_s)
        system = StartedSystem(COMMAND, "unknown", [process])
        await_members(system, len(system.brokers), checkpoint, ready_within_s)
    except BaseException:
        process.stop()
        raise
    return system


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word
