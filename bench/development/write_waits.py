"""Measures how long producers wait while their disk is busy, and what the kernel did meanwhile.

The waits of the event loop in the kernel are told with their reasons (highwater.tuning.waits).

    python -m highwater.bench.development.write_waits --folder DISK [--rate 20] [--rounds 5] [--before CHECKOUT]
        [--remount OPTION]

A producer sends requests of 16 KiB at a steady rate, whatever the broker does, over 20 partitions with segments of
16 MiB: as much as makes the kernel write back all the time. `--before` names a checkout of another version, `--remount`
a mount option that one more row has and the others have not, such as lazytime: all take turns. In the end the options
of the mount are as they were. As root, for the kernel's trace.

A slow disk shows more. For example, with dirty pages limited as on a tuned host:

    sysctl vm.dirty_background_bytes=67108864
    highwater bench storage emulate-hdd make slow --on /var/tmp --size 3GiB --bandwidth 60MB/s --iops 150
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from highwater.bench.development.versions import Latencies, in_turns, latencies_of, running
from highwater.bench.errors import TrialError, UsageError
from highwater.bench.native.clients import Connections, PreparedRequests
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect, collect_from
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.persistence.fstab import changed_options
from highwater.tuning.planning.mounts import exclusive_options
from highwater.tuning.resources import Resources
from highwater.tuning.runner import Runner, SystemRunner
from highwater.tuning.steps import Resource, layer_of
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


@dataclass(frozen=True, slots=True)
class Felt:
    """What requests waited, and the waits of the event loop in the kernel of 1 ms or more."""

    latencies: Latencies
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
    rows: dict[str, tuple[Path | None, bool]] = {} if before is None else {"before": (before, False)}
    rows["now"] = (None, False)
    if remount is not None:
        rows[f"now, {remount}"] = (None, True)
    felt: dict[str, list[Felt]] = {name: [] for name in rows}
    try:
        with mount_option(HostFiles(Path("/")), SystemRunner(), folder, remount) as have_option:
            for number, name in in_turns(rows, rounds):
                source, has_option = rows[name]
                have_option(has_option)
                felt[name].append(_turn(source, folder, rate, seconds))
                p99_ms = felt[name][-1].latencies.p99_ms
                typer.echo(f"round {number + 1}: {name}: p99 {p99_ms:.1f} ms", err=True)
    except (TrialError, UsageError, TuningError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    _tell(felt, rate)


@contextmanager
def mount_option(
    files: HostFiles, runner: Runner, folder: Path, option: str | None
) -> Iterator[Callable[[bool], None]]:
    """What remounts the file system of a folder with the option or without it; in the end its options are as before.

    Without an option nothing is remounted. Raises TuningError where a remount is refused or has no effect.
    """
    mount = collect_from(files).mount_of(str(folder))
    if option is None:
        yield lambda _: None
        return
    if mount is None:
        raise UsageError(f"--remount {option}: {folder} is on no mounted file system")
    layer = layer_of(option)
    resources, resource = Resources(files, runner), Resource(layer, (mount.mount_point,))
    present = mount.options_of(layer)
    without = tuple(each for each in present if each != option)
    wanted_with = changed_options(without, option, exclusive_options(option))

    def have(options: tuple[str, ...]) -> None:
        now = resources.read(resource)
        if now is not None and set(now["options"].split(",")) != set(options):
            resources.change_to(resource, now | {"options": ",".join(options)}, now)

    try:
        yield lambda has_option: have(wanted_with if has_option else without)
    finally:
        have(present)


def _turn(source: Path | None, folder: Path, rate: float, seconds: float) -> Felt:
    with running(source, folder, _PROPERTIES) as broker:
        broker.create_topic("load", _PARTITIONS)
        prepared = PreparedRequests(broker.place, "load", acks=1, records=_RECORDS, record_bytes=_RECORD_BYTES)
        records_per_s = rate * 1e6 / _RECORD_BYTES
        with ThreadPoolExecutor(1) as threads:
            recording = threads.submit(record, broker.process_id, seconds, lambda: True)
            sent = prepared.send(
                [broker.port],
                int(records_per_s * seconds),
                Connections(4, 64),
                partitions=_PARTITIONS,
                records_per_s=records_per_s,
            )
            recorded = recording.result()
        latencies = latencies_of([sent])
    waits = summarize(recorded.sleeps, recorded.processes, _AT_LEAST_S)
    return Felt(latencies, tuple(row for row in waits if row.answers_clients))


def _tell(felt: dict[str, list[Felt]], rate: float) -> None:
    console = Console(width=110)
    table = Table("version", "p50 ms", "p99 ms", "longest ms", "longest wait in the kernel, ms", "together, ms", "for")
    for name, turns in felt.items():
        waited_s: dict[str, float] = {}
        for turn in turns:
            for row in turn.waits:
                what = f"{row.call}: {row.function}"
                waited_s[what] = waited_s.get(what, 0.0) + row.total_s
        figures = [(*turn.latencies, turn.longest_wait_ms, turn.waited_ms) for turn in turns]
        table.add_row(
            name,
            *(f"{median(each):.1f}" for each in zip(*figures, strict=True)),
            "\n".join(sorted(waited_s, key=lambda what: -waited_s[what])[:3]),
        )
    console.print("Requests of producers beside write-back (medians of the rounds):")
    console.print(table)
    model = collect().cpu_model
    console.print(f"{rate:g} MB/s with acks 1; {model}, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    typer.run(main)
