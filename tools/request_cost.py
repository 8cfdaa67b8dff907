"""Measures what requests of Produce and Fetch cost the broker in CPU time, beside another version.

    python -m tools.request_cost [--rounds 7] [--beside PLACE] [--load NAME]

PLACE is a checkout (which runs as Python unless COMPILED=1 is set; `.` is this one), a wheel (`make compiled`) or an
unpacked one: each round runs both versions, in turns. Produce requests are encoded beforehand and sent by a C program.
CPU time is of the broker's process alone: other work on the host moves it less than a rate.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Protocol

import psutil
import typer
from rich.console import Console
from rich.table import Table

from highwater.bench.native.clients import Connections, PreparedRequests
from highwater.bench.systems.highwater import unpacked_wheel
from highwater.common.errors import TrialError, UsageError
from highwater.results.analysis.statistics import paired_ratio_ci
from highwater.tuning.facts import collect
from tools.fetch_loads import FETCHES, Send
from tools.produce_loads import OVER_PARTITIONS
from tools.versions import Running, in_turns, running

_NOW: Final = "this one"
_BESIDE: Final = "beside"


@dataclass(frozen=True, slots=True)
class Load:
    """`requests` with so many records each, over connections that keep requests in flight."""

    records: int
    record_bytes: int
    connections: Connections
    requests: int

    def prepare(self, broker: Running, topic: str) -> Send:
        broker.create_topic(topic)
        prepared = PreparedRequests(broker.place, topic, acks=1, records=self.records, record_bytes=self.record_bytes)
        return lambda requests: prepared.send([broker.port], requests * self.records, self.connections).seconds


class Measured(Protocol):
    """A load of one kind of requests."""

    @property
    def requests(self) -> int: ...

    def prepare(self, broker: Running, topic: str) -> Send:
        """Make the topic and what it needs."""


LOADS: Final[dict[str, Measured]] = {
    "one record, 8 × 64 in flight": Load(1, 1024, Connections(8, 64), 100_000),
    "one record, 8 × 1 in flight": Load(1, 1024, Connections(8, 1), 60_000),
    "16 KiB, 8 × 5 in flight": Load(16, 1000, Connections(8, 5), 40_000),
    **OVER_PARTITIONS,
    **FETCHES,
}
"""Of Produce: many requests in each wake-up of the broker; one in each; batches of the default size; 8 partitions."""


@dataclass(frozen=True, slots=True)
class RequestCost:
    """Of one request, in µs of the broker's CPU time; and how many were answered in a second."""

    user_us: float
    system_us: float
    requests_per_s: float

    @property
    def cpu_us(self) -> float:
        return self.user_us + self.system_us


Costs = dict[str, dict[str, list[RequestCost]]]
"""By load, by version."""


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each version.")] = 7,
    beside: Annotated[Path | None, typer.Option(help="Another version: a checkout, a folder or a wheel.")] = None,
    load: Annotated[list[str] | None, typer.Option(help="Measure this load alone; may be repeated.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the logs are; a temporary folder by default.")] = None,
) -> None:
    """Measure the CPU time of requests; takes about ten seconds for each round and version."""
    costs: Costs = {}
    try:
        loads = {name: LOADS[name] for name in load or LOADS}
        with ExitStack() as stack:
            sources: dict[str, Path | None] = {_NOW: None}
            if beside is not None:
                sources[_BESIDE] = _unpacked(beside, stack)
            for version in in_turns(sources, rounds):
                for name, cost in _turn(sources[version], loads, folder).items():
                    costs.setdefault(name, {}).setdefault(version, []).append(cost)
    except KeyError as error:
        typer.echo(f"Error: no load {error}; there are {', '.join(map(repr, LOADS))}", err=True)
        raise typer.Exit(2) from error
    except (TrialError, UsageError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    _tell(costs, rounds)


def _unpacked(place: Path, stack: ExitStack) -> Path:
    if place.suffix != ".whl":
        return place
    return unpacked_wheel(place, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="highwater-wheel-"))))


def _turn(source: Path | None, loads: dict[str, Measured], folder: Path | None) -> dict[str, RequestCost]:
    costs = {}
    with running(source, folder) as broker:
        process = psutil.Process(broker.process_id)
        for number, (what, load) in enumerate(loads.items()):
            send = load.prepare(broker, f"load-{number}")
            send(load.requests // 20)  # a warm-up
            before = process.cpu_times()
            seconds = send(load.requests)
            after = process.cpu_times()
            costs[what] = RequestCost(
                (after.user - before.user) / load.requests * 1e6,
                (after.system - before.system) / load.requests * 1e6,
                load.requests / seconds,
            )
    return costs


def _tell(costs: Costs, rounds: int) -> None:
    console = Console(width=120)
    table = Table("load", "version", "user µs", "system µs", "CPU µs", "requests/s", "CPU beside, 95 %")
    for name, versions in costs.items():
        for version, rows in versions.items():
            figures = (
                f"{median(getattr(row, figure) for row in rows):.1f}" for figure in ("user_us", "system_us", "cpu_us")
            )
            ratio = ""
            if version == _BESIDE:
                base, head = ([row.cpu_us for row in versions[each]] for each in (_NOW, _BESIDE))
                found = paired_ratio_ci(base, head)
                assert found is not None
                ratio = f"{found.ratio:.3f}×"
                if found.low is not None:
                    ratio += f" ({found.low:.3f} to {found.high:.3f})"
            table.add_row(name, version, *figures, f"{median(row.requests_per_s for row in rows):,.0f}", ratio)
    console.print(f"CPU time of the broker's process for each request (medians of {rounds} rounds):")
    console.print(table)
    console.print(f"acks 1; {collect().cpu_model}, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    typer.run(main)
