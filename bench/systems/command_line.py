"""Any broker that a command line starts: it gets a port and a directory."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from highwater.bench.systems.process import SystemProcess, listening
from highwater.bench.systems.running import StartedSystem, await_members
from highwater.common.errors import UsageError
from highwater.common.ports import free_ports

COMMAND: Final = "command"
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")


def check_program(key: str, command_line: str) -> None:
    """Raises UsageError, which names the key, when this host has no such program, alone or behind `env NAME=VALUE`."""
    words = shlex.split(command_line)
    if words[0] == "env":
        words = [word for word in words[1:] if not _ASSIGNMENT.match(word)]
    if words and not words[0].startswith("-") and shutil.which(words[0]) is None:
        raise UsageError(f"{key}: no program {words[0]} here")


def words_of(command_line: str, values: Mapping[str, str]) -> list[str]:
    """The words of a command line, with a value for each place such as {port}."""
    words = shlex.split(command_line)
    for place, value in values.items():
        words = [word.replace(place, value) for word in words]
    return words


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
    command = words_of(command_line, values)
    check_program("system.command", command_line)
    process = SystemProcess("the broker", command, log_directory / "system.log", guard=True)
    try:
        process.await_ready(listening(port), checkpoint, ready_within_s)
        system = StartedSystem(COMMAND, "unknown", [process])
        await_members(system, len(system.brokers), checkpoint, ready_within_s)
    except BaseException:
        process.stop()
        raise
    return system
