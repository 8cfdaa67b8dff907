"""Measures what other clients feel while a topic of 10,000 partitions is created and deleted.

    python -m highwater.bench.development.large_topic [--partitions 10000] [--rounds 5] [--before CHECKOUT]

A producer sends small requests at a steady rate, whatever the broker does: a stall delays every request that is due in
it. Its latencies are told without other work, while the topic is created, and while it is deleted; and how long both
take. `--before` names a checkout of another version (`git worktree add`): the versions take turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from highwater.bench.development.versions import Latencies, in_turns, latencies_of, running
from highwater.bench.errors import TrialError, UsageError
from highwater.bench.native.clients import Connections, Load, PreparedRequests
from highwater.tuning.facts import collect

_REQUESTS_PER_S: Final = 500
_QUIET_S: Final = 4.0
_WITHIN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Felt:
    """What the producer's requests waited, and how long the work beside them took."""

    latencies: Latencies
    took_s: float


def main(
    partitions: Annotated[int, typer.Option(min=1, max=10_000, help="Of the topic.")] = 10_000,
    rounds: Annotated[int, typer.Option(min=3, help="Turns of each version.")] = 5,
    before: Annotated[Path | None, typer.Option(help="A checkout of another version.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the logs are; a temporary folder by default.")] = None,
) -> None:
    """Measure latencies beside large topics; takes about half a minute for each round and version."""
    sources = {"now": None} if before is None else {"before": before, "now": None}
    felt: dict[tuple[str, str], list[Felt]] = {}
    try:
        for _, name in in_turns(sources, rounds):
            for what, row in _turn(sources[name], partitions, folder).items():
                felt.setdefault((name, what), []).append(row)
    except (TrialError, UsageError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    _tell(felt, partitions)


def _turn(source: Path | None, partitions: int, folder: Path | None) -> dict[str, Felt]:
    with running(source, folder) as broker:
        broker.create_topic("load")
        prepared = PreparedRequests(broker.place, "load", acks=1, records=1, record_bytes=100)
        waits = {"operation_timeout": _WITHIN_S, "request_timeout": _WITHIN_S}

        def create() -> None:
            broker.admin.create_topics([NewTopic("large", partitions, 1)], **waits)["large"].result()

        def delete() -> None:
            broker.admin.delete_topics(["large"], **waits)["large"].result()

        return {
            "nothing": _beside(prepared, broker.port, lambda: time.sleep(_QUIET_S)),
            "creation": _beside(prepared, broker.port, create),
            "deletion": _beside(prepared, broker.port, delete),
        }


def _beside(prepared: PreparedRequests, port: int, work: Callable[[], None]) -> Felt:
    """Do some work while requests are sent; one second of them at a time, until the work is done."""
    failures: list[Exception] = []
    took_s = 0.0

    def do() -> None:
        nonlocal took_s
        began_s = time.monotonic()
        try:
            work()
        except Exception as error:
            failures.append(error)
        took_s = time.monotonic() - began_s

    worker = threading.Thread(target=do)

    def loads() -> Iterator[Load]:
        while worker.is_alive():
            yield prepared.send([port], _REQUESTS_PER_S, Connections(4, 64), records_per_s=float(_REQUESTS_PER_S))

    worker.start()
    latencies = latencies_of(loads())
    worker.join()
    if failures:
        raise TrialError(f"the topic could not be made or deleted: {failures[0]}")
    return Felt(latencies, took_s)


def _tell(felt: dict[tuple[str, str], list[Felt]], partitions: int) -> None:
    console = Console(width=110)
    table = Table("version", "beside", "p50 ms", "p99 ms", "of the rounds", "longest ms", "took s")
    for (name, what), rows in felt.items():
        p50_ms, p99_ms, longest_ms = map(median, zip(*(row.latencies for row in rows), strict=True))
        each_ms = sorted(row.latencies.p99_ms for row in rows)
        table.add_row(
            name,
            what,
            f"{p50_ms:.2f}",
            f"{p99_ms:.2f}",
            f"{each_ms[0]:.1f} – {each_ms[-1]:.1f}",
            f"{longest_ms:.2f}",
            f"{median(row.took_s for row in rows):.2f}",
        )
    console.print(f"While a topic of {partitions} partitions is created or deleted (medians of the rounds):")
    console.print(table)
    model = collect().cpu_model
    console.print(f"{_REQUESTS_PER_S} requests a second with acks 1; {model}, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    typer.run(main)
