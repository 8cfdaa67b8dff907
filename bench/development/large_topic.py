"""Measures what other clients feel while a topic of 10,000 partitions is created and deleted.

    python -m highwater.bench.development.large_topic [--partitions 10000] [--rounds 5] [--before CHECKOUT]

A producer sends small requests at a steady rate, whatever the broker does: a stall delays every request that is due in
it. Its latencies are told without other work, while the topic is created, and while it is deleted; and how long both
take. `--before` names a checkout of another version (`git worktree add`): the versions take turns.
"""

from __future__ import annotations

import array
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table

from highwater.bench.errors import TrialError, UsageError
from highwater.bench.native.clients import Connections, PreparedRequests
from highwater.bench.systems.highwater import start_highwater
from highwater.tuning.facts import collect

_REQUESTS_PER_S: Final = 500
_QUIET_S: Final = 4.0
_READY_WITHIN_S: Final = 60.0
_WITHIN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Felt:
    """Latencies of the producer's requests in ms, and how long the work beside them took."""

    p50_ms: float
    p99_ms: float
    longest_ms: float
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
        for number in range(rounds):
            names = list(sources)
            for name in names if number % 2 else reversed(names):
                for what, row in _turn(sources[name], partitions, folder).items():
                    felt.setdefault((name, what), []).append(row)
    except (TrialError, UsageError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    _tell(felt, partitions)


def _turn(source: Path | None, partitions: int, folder: Path | None) -> dict[str, Felt]:
    with tempfile.TemporaryDirectory(prefix="highwater-large-topic-", dir=folder) as name:
        place = Path(name)
        (place / "data").mkdir()
        with start_highwater(
            1, {}, [place / "data"], place, lambda: None, ready_within_s=_READY_WITHIN_S, source=source
        ) as system:
            admin = AdminClient({"bootstrap.servers": system.bootstrap_servers, "log_level": 0})
            admin.create_topics([NewTopic("load", 1)])["load"].result(_WITHIN_S)
            port = int(system.bootstrap_servers.rpartition(":")[2])
            prepared = PreparedRequests(place, "load", acks=1, records=1, record_bytes=100)

            def create() -> None:
                large = NewTopic("large", partitions, 1)
                admin.create_topics([large], operation_timeout=_WITHIN_S, request_timeout=_WITHIN_S)["large"].result()

            def delete() -> None:
                gone = admin.delete_topics(["large"], operation_timeout=_WITHIN_S, request_timeout=_WITHIN_S)
                gone["large"].result()

            return {
                "nothing": _beside(prepared, port, lambda: time.sleep(_QUIET_S)),
                "creation": _beside(prepared, port, create),
                "deletion": _beside(prepared, port, delete),
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
    latencies_ns = array.array("q")
    worker.start()
    while worker.is_alive():
        sent = prepared.send([port], _REQUESTS_PER_S, Connections(4, 64), records_per_s=float(_REQUESTS_PER_S))
        assert sent.latencies is not None
        latencies_ns.frombytes(sent.latencies.read_bytes())
    worker.join()
    if failures:
        raise TrialError(f"the topic could not be made or deleted: {failures[0]}")
    ordered = sorted(latencies_ns)
    p50, p99 = (ordered[int(len(ordered) * part)] / 1e6 for part in (0.5, 0.99))
    return Felt(p50, p99, ordered[-1] / 1e6, took_s)


def _tell(felt: dict[tuple[str, str], list[Felt]], partitions: int) -> None:
    console = Console(width=110)
    table = Table("version", "beside", "p50 ms", "p99 ms", "longest ms", "took s")
    for (name, what), rows in felt.items():
        table.add_row(
            name,
            what,
            *(
                f"{median(getattr(row, figure) for row in rows):.2f}"
                for figure in ("p50_ms", "p99_ms", "longest_ms", "took_s")
            ),
        )
    console.print(f"While a topic of {partitions} partitions is created or deleted (medians of the rounds):")
    console.print(table)
    model = collect().cpu_model
    console.print(f"{_REQUESTS_PER_S} requests a second with acks 1; {model}, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    typer.run(main)
