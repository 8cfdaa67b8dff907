"""Measures what a start costs: of a broker up to the first Produce that it acknowledges, and of commands.

    python -m tools.start_cost [--rounds 9] [--beside PLACE]

PLACE is another checkout. All versions run in turns, each broker in an empty directory; what Python costs with an event
loop alone stands beside them. CPU time is of the process alone: other work on the host moves it less than the time that
passes. Memory is read one second after the acknowledgement; "shared out" counts a page of several processes in parts.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from highwater.bench.native.clients import record_batch
from highwater.common.child_process import HIGHWATER
from highwater.common.compiled import SETTING, machine_code
from highwater.kafka.client.request import api_versions, cold_request, frame
from highwater.tuning.facts import collect
from tools.versions import in_turns

_PYTHON: Final = "Python and its event loop"
_BARE: Final = (
    "import asyncio, os, time, uvloop\n"
    "with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:\n"
    "    runner.run(asyncio.sleep(0)); os.write({}, b'0\\n'); time.sleep(60)\n"
)
_COMMANDS: Final = ("--version", "--help", "broker start --help", "broker topics --help", "top --help")
_TOPIC: Final = "started"
_SETTLES_S: Final = 1.0
_TIMES: Final = {
    "ready, ms": "ready_ms",
    "acknowledged, ms": "acknowledged_ms",
    "CPU ms until then": "cpu_ms",
    "and a second later": "cpu_at_rest_ms",
}
_SMAPS: Final = {"resident": "Rss", "shared out": "Pss", "its own": "Anonymous"}


@dataclass(frozen=True, slots=True)
class Start:
    """Of one process: ms that passed until it was ready and until it acknowledged, its CPU time, and MiB."""

    ready_ms: float
    acknowledged_ms: float
    cpu_ms: float
    cpu_at_rest_ms: float
    memory: Mapping[str, float]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each version.")] = 9,
    beside: Annotated[Path | None, typer.Option(help="Another checkout.")] = None,
) -> None:
    """Measure starts; takes about two seconds for each round and version."""
    versions: dict[str, dict[str, str]] = {_PYTHON: {}, "this one, as Python": {SETTING: "0"}}
    if machine_code()[0] is not None:
        versions["this one, compiled"] = {SETTING: "1"}
    if beside is not None:
        there = {"PYTHONPATH": str(beside.resolve())}
        versions["beside, as Python"] = {**there, SETTING: "0"}
        versions["beside, by default"] = {**there, SETTING: ""}
    starts: dict[str, list[Start]] = {}
    commands: dict[tuple[str, str], list[float]] = {}
    for number, version in in_turns(versions, rounds + 1):
        start = _start(version, versions[version])
        spent = {} if version == _PYTHON else {each: _command(each, versions[version]) for each in _COMMANDS}
        if number:  # the first writes Python's bytecode
            starts.setdefault(version, []).append(start)
            for command, spent_ms in spent.items():
                commands.setdefault((command, version), []).append(spent_ms)
    _tell(starts, commands, rounds)


def _start(version: str, environment: Mapping[str, str]) -> Start:
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="highwater-start-") as folder:
        if version == _PYTHON:
            command: Sequence[str] = (sys.executable, "-P", "-c", _BARE.format(writing))
        else:
            options = ("--log-dir", f"{folder}/data", "--port", "0", "--ready-fd", str(writing))
            command = (*HIGHWATER, "broker", "start", *options)
        began_s = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            pass_fds=[writing],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(writing)
        try:
            with os.fdopen(reading, encoding="ascii") as ready:
                address = ready.readline().strip()
            ready_s = time.perf_counter()
            if not address:
                raise SystemExit(f"the broker of {version} did not start")
            if version != _PYTHON:
                _produce(address)
            acknowledged_s = time.perf_counter()
            spent_ms = cpu_ms(process.pid)
            time.sleep(_SETTLES_S)
            return Start(
                (ready_s - began_s) * 1e3,
                (acknowledged_s - began_s) * 1e3,
                spent_ms,
                cpu_ms(process.pid),
                memory(process.pid),
            )
        finally:
            process.terminate()
            process.wait()


def _produce(address: str) -> None:
    """What a client sends first: ApiVersions, Metadata with a topic that is not there, and one record to it."""
    host, _, port = address.rpartition(":")
    topics = {"topics": [{"name": _TOPIC}], "allow_auto_topic_creation": True}
    batch = record_batch(1, 100)
    partitions = [{"index": 0, "records": batch}]
    produce = {"acks": -1, "timeout": 30_000, "topic_data": [{"name": _TOPIC, "partition_data": partitions}]}
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        _ask(connection, frame(api_versions("start-cost"), 3, 0, "start"))
        while True:  # until the topic has a leader
            _ask(connection, frame(cold_request("metadata", 9, 9, topics, lambda _: None), 9, 1, "start"))
            answer = _ask(connection, frame(cold_request("produce", 9, 9, produce, lambda _: None), 9, 2, "start"))
            # Behind the header: one topic, its name, one partition, its number.
            (error,) = struct.unpack_from(">h", answer, 5 + 1 + 1 + len(_TOPIC) + 1 + 4)
            if not error:
                return


def _ask(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    with connection.makefile("rb") as answers:
        return answers.read(int.from_bytes(answers.read(4), "big"))


def cpu_ms(process_id: int) -> float:
    """Of all its threads: the kernel has a clock for each process."""
    return time.clock_gettime_ns((~process_id << 3) | 2) / 1e6


def memory(process_id: int) -> dict[str, float]:
    text = Path(f"/proc/{process_id}/smaps_rollup").read_text("ascii")
    kib = dict(re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE))
    return {name: int(kib[each]) / 1024 for name, each in _SMAPS.items()}


def _command(arguments: str, environment: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        [*HIGHWATER, *arguments.split()], env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"highwater {arguments} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1e3


def _tell(
    starts: Mapping[str, Sequence[Start]], commands: Mapping[tuple[str, str], Sequence[float]], rounds: int
) -> None:
    console = Console(width=140)
    table = Table("from exec", *_TIMES, *(f"{name}, MiB" for name in _SMAPS))
    for version, rows in starts.items():
        times = (median(getattr(row, each) for row in rows) for each in _TIMES.values())
        sizes = (median(row.memory[name] for row in rows) for name in _SMAPS)
        table.add_row(version, *(f"{each:.0f}" for each in times), *(f"{each:.1f}" for each in sizes))
    console.print(f"A broker up to its first acknowledged Produce, and its memory after (medians of {rounds} rounds):")
    console.print(table)
    versions = [version for version in starts if version != _PYTHON]
    table = Table("CPU ms of", *versions)
    for command in _COMMANDS:
        table.add_row(f"highwater {command}", *(f"{median(commands[command, version]):.0f}" for version in versions))
    console.print(table)
    console.print(f"{collect().cpu_model}, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    typer.run(main)
