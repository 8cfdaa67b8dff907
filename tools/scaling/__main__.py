"""Measures how throughput grows with the processes of a broker, each held to a share of a processor.

    python -m tools.scaling [--processes 1,2,4,8] [--share 0.1] [--kafka 4] [--out FILE]
    python -m tools.scaling --processes 1,2,4,8,16 --share 1       on a host with the cores

A control group holds each process to its share (root), so that a host with few cores can show what the processes have
in common: throughput that grows less than their number. The load generator is in no group. Apache Kafka, if it is asked
for, is one process with the same shares together. In each round the systems and numbers take turns in a new order.

Printed are requests a second, how much of its share a system used, its memory and what a partition costs to create; and
a law that is fitted to the rates, with what it would say of 8, 16 and 32 cores. That is a model: with a share of 0.1
nothing is known of caches, memory bandwidth, network cards and disks that many cores share. With `--share 1` nothing is
held, and the processes and the load generator need cores of their own. A row is marked where a system used less than
90 % of its share: then something else was the limit.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Final

import typer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from highwater.bench.native.clients import Connections, PreparedRequests
from highwater.bench.systems.apache_kafka import find_distribution
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.systems.highwater import HIGHWATER
from highwater.common.errors import TrialError, UsageError
from highwater.common.units import count_text, percent_text, plural, ratio_text, size_text
from highwater.tuning.facts import collect
from tools.scaling.control_group import ControlGroup, Hierarchy, find_hierarchy
from tools.scaling.model import fit, interval
from tools.scaling.systems import Serving, Start, apache_kafka, highwater

_CONNECTIONS_OF_A_PROCESS: Final = 4
_IN_FLIGHT: Final = 8
_WARM_UP_S: Final = 3.0
_FIRST_REQUESTS: Final = 2000
_PARTITIONS_TO_CREATE: Final = 400
_LEAST_USED: Final = 0.9
_LARGER: Final = (8, 16, 32)


@dataclass(frozen=True, slots=True)
class Measured:
    """One system with one number of processes in one round.

    used: the part of its share that it used. created_s, created_cpu_s: for one partition of a topic of 400, unheld.
    """

    system: str
    processes: int
    requests_per_s: float
    used: float
    memory_bytes: int
    created_s: float
    created_cpu_s: float


def main(
    processes: Annotated[str, typer.Option(help="Numbers of processes.")] = "1,2,4,8",
    share: Annotated[float, typer.Option(help="Of a processor, for each process; 1: they are not held.")] = 0.1,
    rounds: Annotated[int, typer.Option(min=3, help="Turns of each system and number.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="Of load that counts, in each turn.")] = 8.0,
    records: Annotated[int, typer.Option(min=1, help="Records of a request.")] = 1,
    record_bytes: Annotated[int, typer.Option(min=1, help="Of a value.")] = 100,
    kafka: Annotated[str | None, typer.Option(help="Apache Kafka beside it: 3.9 or 4.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the logs are; a temporary folder by default.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for all that was measured, a line of JSON for each turn.")
    ] = None,
) -> None:
    """Measure throughput against processes; takes about a minute for each round and system."""
    counts = _numbers(processes)
    try:
        hierarchy = None if share >= 1 else find_hierarchy(Path("/proc/mounts").read_text("utf-8"))
        setup = _Setup(share, hierarchy, seconds, records, record_bytes)
        systems: dict[str, Start] = {HIGHWATER: highwater}
        if kafka is not None:
            systems[f"Apache Kafka {kafka}"] = apache_kafka(find_distribution(kafka))
        measured: list[Measured] = []
        for number in range(rounds):
            turns = [(name, count) for name in systems for count in counts]
            random.Random(number).shuffle(turns)
            for name, count in turns:
                with tempfile.TemporaryDirectory(prefix="highwater-scaling-", dir=folder) as place:
                    row = _turn(name, systems[name], Path(place), count, setup)
                measured.append(row)
                if out is not None:
                    with out.open("a", encoding="utf-8") as file:
                        print(json.dumps(asdict(row)), file=file)
                typer.echo(f"round {number + 1}: {name}, {count}: {row.requests_per_s:.0f}/s", err=True)
    except (TrialError, UsageError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    _tell(measured, counts, setup)


def _numbers(text: str) -> list[int]:
    try:
        counts = sorted({int(word) for word in text.split(",")})
    except ValueError:
        counts = []
    if len(counts) < 3 or counts[0] < 1:
        raise typer.BadParameter(f"{text} is not at least three numbers of processes, such as 1,2,4,8")
    return counts


@dataclass(frozen=True, slots=True)
class _Setup:
    """What all turns have in common. hierarchy: None where no process is held."""

    share: float
    hierarchy: Hierarchy | None
    seconds: float
    records: int
    record_bytes: int


def _turn(name: str, start: Start, place: Path, processes: int, setup: _Setup) -> Measured:
    with ExitStack() as stack:
        # The system ends before its groups do: only an empty group can be removed.
        groups: list[ControlGroup] = []
        if setup.hierarchy is not None:
            shares = [setup.share] * processes if name == HIGHWATER else [setup.share * processes]
            for number, share in enumerate(shares):
                group = ControlGroup(setup.hierarchy, f"highwater-scaling-{os.getpid()}-{number}", share)
                groups.append(stack.enter_context(group))
        serving = stack.enter_context(start(place, processes))
        for group in groups:
            stack.callback(group.release)  # a held system would take long to end
        admin = AdminClient({"bootstrap.servers": serving.address, "log_level": 0})
        created_s, created_cpu_s = _creation(admin, serving)
        layout = [[serving.broker_ids[index % len(serving.broker_ids)]] for index in range(processes)]
        # Returns when all leaders answer: the native client takes no for an answer.
        BrokerClient(serving.address).create_topic("load", processes, {}, assignment=layout)
        prepared = PreparedRequests(place, "load", acks=1, records=setup.records, record_bytes=setup.record_bytes)
        connections = Connections(_CONNECTIONS_OF_A_PROCESS * processes, _IN_FLIGHT)

        def send(requests: float) -> float:
            """Send so many requests; return their rate."""
            count = max(int(requests), _FIRST_REQUESTS) * setup.records
            return prepared.send(serving.ports, count, connections, partitions=processes).records_per_s / setup.records

        send(send(_FIRST_REQUESTS * processes) * _WARM_UP_S)
        if groups:
            for group, worker in zip(groups, serving.workers, strict=True):
                group.take([worker])
        rate = send(send(_FIRST_REQUESTS) * _WARM_UP_S / 2)
        cpu_s, began_s = serving.cpu_s(serving.workers), time.monotonic()
        requests_per_s = send(rate * setup.seconds)
        used = (serving.cpu_s(serving.workers) - cpu_s) / (time.monotonic() - began_s) / (setup.share * processes)
        memory_bytes = serving.memory_bytes()
    return Measured(name, processes, requests_per_s, used, memory_bytes, created_s, created_cpu_s)


def _creation(admin: AdminClient, serving: Serving) -> tuple[float, float]:
    """Create a topic, and return the time and the CPU time for each of its partitions."""
    cpu_s, began_s = serving.cpu_s(serving.process_ids), time.monotonic()
    admin.create_topics([NewTopic("created", _PARTITIONS_TO_CREATE, 1)], operation_timeout=60)["created"].result(90)
    took_s = time.monotonic() - began_s
    took_cpu_s = serving.cpu_s(serving.process_ids) - cpu_s
    admin.delete_topics(["created"], operation_timeout=60)["created"].result(90)
    return took_s / _PARTITIONS_TO_CREATE, took_cpu_s / _PARTITIONS_TO_CREATE


def _tell(measured: list[Measured], counts: list[int], setup: _Setup) -> None:
    console = Console(width=110)
    names = list(dict.fromkeys(row.system for row in measured))
    for name in names:
        rates = {
            count: [row.requests_per_s for row in measured if (row.system, row.processes) == (name, count)]
            for count in counts
        }
        first = median(rates[counts[0]]) / counts[0]
        law = fit(rates)
        last = counts[-1]
        console.print(
            f"{name}: {last} processes make {ratio_text(median(rates[last]) / first)} of what one makes "
            f"({percent_text(median(rates[last]) / first / last)} of {last} times as much)."
        )
        table = Table("processes", "requests/s", "quartiles", "of one", "share used", "memory", "a partition made in")
        for count in counts:
            rows = [row for row in measured if (row.system, row.processes) == (name, count)]
            low, _, high = quantiles(rates[count], n=4)
            used = median(row.used for row in rows)
            table.add_row(
                str(count),
                count_text(median(rates[count])),
                f"{count_text(low)} – {count_text(high)}",
                ratio_text(median(rates[count]) / first),
                percent_text(used) + ("" if used >= _LEAST_USED else " (not the limit)"),
                size_text(median(row.memory_bytes for row in rows)),
                f"{median(row.created_s for row in rows) * 1e3:.2f} ms, "
                f"{median(row.created_cpu_s for row in rows) * 1e3:.2f} ms of CPU",
            )
        console.print(table)
        told = []
        for cores in _LARGER:
            low, high = interval(rates, cores)
            told.append(f"{cores}: {law.rate(cores) / law.rate_of_one:.1f} × ({low / first:.1f} to {high / first:.1f})")
        bend = "it has no bend" if law.bends_at > 1000 else f"it bends at {law.bends_at:.0f} processes"
        console.print(
            f"Model, not measured: contention {percent_text(law.contention)}, coherence {percent_text(law.coherence)}; "
            f"{bend}. Of one process's rate with {'; '.join(told)}.\n"
        )
    model = collect().cpu_model
    held = "not held" if setup.hierarchy is None else f"each held to {percent_text(setup.share)}"
    console.print(
        f"{plural(setup.records, 'record')} of {setup.record_bytes} B in a request, acks 1; "
        f"{_CONNECTIONS_OF_A_PROCESS} connections for each process; {held}; {model}, "
        f"load average {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    typer.run(main)
