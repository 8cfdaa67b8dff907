"""Measures how long producers wait while their disk is busy, and what the kernel did meanwhile.

The waits of the event loop in the kernel are told with their reasons (highwater.tuning.waits).

    python -m highwater.bench.development.write_waits --folder DISK [--rate 20] [--rounds 5] [--before CHECKOUT]
        [--remount OPTION]

A producer sends requests of 16 KiB at a steady rate, whatever the broker does, over 20 partitions with segments of
16 MiB: as much as makes the kernel write back all the time. `--before` names a checkout of another version, `--remount`
a mount option that one more row has (such as lazytime; with no- before it, it is taken back): all take turns. As root,
for the kernel's trace.

A slow disk shows more. For example, with dirty pages limited as on a tuned host:

    sysctl vm.dirty_background_bytes=67108864
    highwater bench storage emulate-hdd make slow --on /var/tmp --size 3GiB --bandwidth 60MB/s --iops 150
"""

from __future__ import annotations

import array
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
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
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.waits.recording import record
from highwater.tuning.waits.summary import Waits, summarize

_RECORDS: Final = 4
_RECORD_BYTES: Final = 4096
_PARTITIONS: Final = 20
_PROPERTIES: Final = {
    "log.segment.bytes": 16 << 20,
    "log.retention.bytes": 32 << 20,
    "log.retention.check.interval.ms": 2000,
    "log.segment.delete.delay.ms": 1000,
}
_AT_LEAST_S: Final = 0.001
_READY_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Felt:
    """Latencies of requests in ms, and the waits of the event loop in the kernel of 1 ms or more."""

    p50_ms: float
    p99_ms: float
    longest_ms: float
    waits: tuple[Waits, ...]

    @property
    def longest_wait_ms(self) -> float:
        return 1e3 * max((row.longest_s for row in self.waits), default=0.0)

    @property
    def waited_ms(self) -> float:
        return 1e3 * sum(row.total_s for row in self.waits)


def main(
    folder: Annotated[Path, typer.Option(help="On the disk; a folder there is made and removed.")],
    rate: Annotated[float, typer.Option(min=0.1, help="MB/s that are produced.")] = 20.0,
    seconds: Annotated[float, typer.Option(min=5, help="Of load in each turn.")] = 25.0,
    rounds: Annotated[int, typer.Option(min=3, help="Turns of each.")] = 5,
    before: Annotated[Path | None, typer.Option(help="A checkout of another version.")] = None,
    remount: Annotated[str | None, typer.Option(help="A mount option for one more row.")] = None,
) -> None:
    """Measure latencies of producers beside write-back."""
    rows: dict[str, tuple[Path | None, str | None]] = {} if before is None else {"before": (before, None)}
    rows["now"] = (None, None)
    if remount is not None:
        rows[f"now, {remount}"] = (None, remount)
    felt: dict[str, list[Felt]] = {name: [] for name in rows}
    try:
        for number in range(rounds):
            for name in list(rows) if number % 2 else reversed(rows):
                source, option = rows[name]
                if remount is not None:
                    _remount(folder, option or f"no{remount}")
                felt[name].append(_turn(source, folder, rate, seconds))
                typer.echo(f"round {number + 1}: {name}: p99 {felt[name][-1].p99_ms:.1f} ms", err=True)
    except (TrialError, UsageError, TuningError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    finally:
        if remount is not None:
            _remount(folder, f"no{remount}")
    _tell(felt, rate)


def _remount(folder: Path, option: str) -> None:
    shown = subprocess.run(["findmnt", "-no", "TARGET", "--target", folder], capture_output=True, text=True, check=True)
    subprocess.run(["mount", "-o", f"remount,{option}", shown.stdout.strip()], check=True)


def _turn(source: Path | None, folder: Path, rate: float, seconds: float) -> Felt:
    with tempfile.TemporaryDirectory(prefix="highwater-write-waits-", dir=folder) as name:
        place = Path(name)
        (place / "data").mkdir()
        with start_highwater(
            1, _PROPERTIES, [place / "data"], place, lambda: None, ready_within_s=_READY_WITHIN_S, source=source
        ) as system:
            admin = AdminClient({"bootstrap.servers": system.bootstrap_servers, "log_level": 0})
            admin.create_topics([NewTopic("load", _PARTITIONS)])["load"].result(_READY_WITHIN_S)
            port = int(system.bootstrap_servers.rpartition(":")[2])
            prepared = PreparedRequests(place, "load", acks=1, records=_RECORDS, record_bytes=_RECORD_BYTES)
            records_per_s = rate * 1e6 / _RECORD_BYTES
            with ThreadPoolExecutor(1) as threads:
                recording = threads.submit(record, system.brokers[0].process_ids[0], seconds, lambda: True)
                sent = prepared.send(
                    [port],
                    int(records_per_s * seconds),
                    Connections(4, 64),
                    partitions=_PARTITIONS,
                    records_per_s=records_per_s,
                )
                recorded = recording.result()
            assert sent.latencies is not None
            latencies_ns = array.array("q")
            latencies_ns.frombytes(sent.latencies.read_bytes())
    ordered = sorted(latencies_ns)
    p50, p99 = (ordered[int(len(ordered) * part)] / 1e6 for part in (0.5, 0.99))
    waits = summarize(recorded.sleeps, recorded.processes, _AT_LEAST_S)
    return Felt(p50, p99, ordered[-1] / 1e6, tuple(row for row in waits if row.answers_clients))


def _tell(felt: dict[str, list[Felt]], rate: float) -> None:
    console = Console(width=110)
    table = Table("version", "p50 ms", "p99 ms", "longest ms", "longest wait in the kernel, ms", "together, ms", "for")
    for name, turns in felt.items():
        waited_s: dict[str, float] = {}
        for turn in turns:
            for row in turn.waits:
                what = f"{row.call}: {row.function}"
                waited_s[what] = waited_s.get(what, 0.0) + row.total_s
        figures = ("p50_ms", "p99_ms", "longest_ms", "longest_wait_ms", "waited_ms")
        table.add_row(
            name,
            *(f"{median(getattr(turn, figure) for turn in turns):.1f}" for figure in figures),
            "\n".join(sorted(waited_s, key=lambda what: -waited_s[what])[:3]),
        )
    console.print("Requests of producers beside write-back (medians of the rounds):")
    console.print(table)
    model = collect().cpu_model
    console.print(f"{rate:g} MB/s with acks 1; {model}, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    typer.run(main)
