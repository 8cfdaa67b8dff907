"""`bench storage …`: storage targets, their probes, and an emulated hard disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.bench.commands.common import AsJson, one_line_errors, parsed

if TYPE_CHECKING:
    from highwater.bench.storage.emulated_hdd import EmulatedDisk
    from highwater.common.figure_table import FigureTable
    from highwater.results.storage import StorageTarget, TargetProbe

app = typer.Typer(no_args_is_help=True, help="Storage targets: list them, probe them with fio, emulate a hard disk.")
emulate_hdd = typer.Typer(
    no_args_is_help=True,
    help="Emulate a slow disk on a loop device, for machines with one medium (root). All results are marked emulated.",
)
app.add_typer(emulate_hdd, name="emulate-hdd")

DiskName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the disk: up to 11 of a-z, 0-9 and -.")]


@app.command("list")
def list_targets(as_json: AsJson = False) -> None:
    """List the mounted file systems that can store a log, with their medium."""
    with one_line_errors():
        from highwater.bench.storage.targets import mounted_targets
        from highwater.tuning.facts import collect

        targets = mounted_targets(collect())
        if as_json:
            typer.echo(json.dumps([target.model_dump(mode="json") for target in targets], indent=2))
        else:
            _print(_targets_table(targets))


@app.command()
def probe(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory on the storage to probe.")],
    runtime: Annotated[str, typer.Option(metavar="DURATION", help="Duration of each job.")] = "1s",
    files: Annotated[
        str, typer.Option(metavar="COUNTS", help="Also append to these numbers of files in turn, such as 8,64,512.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Measure with fio: append in order, durable appends, read in order, read at random; appends to many files."""
    with one_line_errors():
        from highwater.bench.storage.probe import probe_target
        from highwater.bench.storage.targets import describe_target
        from highwater.bench.workload.values import MOST_PROBE_FILES
        from highwater.common.errors import UsageError
        from highwater.common.quantities import DURATION
        from highwater.tuning.facts import collect

        if not directory.is_dir():
            raise UsageError(f"{directory} is not a directory; make it first, or name another one")
        runtime_s = parsed("--runtime", DURATION.integer, runtime) / 1e9
        if not 0.1 <= runtime_s <= 3600:
            raise UsageError(f"--runtime: {runtime} is not between 100ms and 1h")
        try:
            file_counts = [int(count) for count in files.split(",") if count]
        except ValueError:
            file_counts = [0]
        if not all(2 <= count <= MOST_PROBE_FILES for count in file_counts):
            raise UsageError(
                f"--files: {files!r} is not a list of numbers from 2 to {MOST_PROBE_FILES}, for example 8,64,512"
            )
        target = describe_target(str(directory), directory.absolute(), collect())
        made = probe_target(target, directory, "alone", runtime_s=runtime_s, file_counts=file_counts)
        if made.problem is not None:
            raise UsageError(made.problem)
        if as_json:
            typer.echo(made.model_dump_json(indent=2))
        else:
            _print(_targets_table([target]))
            _print(_probe_table(made))


@emulate_hdd.command()
def make(
    name: DiskName,
    on: Annotated[
        Path | None, typer.Option("--on", metavar="DIR", help="Directory for the image and the mount point.")
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="SIZE", help="Size of the disk; default: 8GiB.")] = None,
    bandwidth: Annotated[
        str | None, typer.Option(metavar="SIZE/s", help="Bandwidth of reads, and of writes; default: 120MiB/s.")
    ] = None,
    iops: Annotated[
        int | None, typer.Option(min=1, help="Reads per second, and writes per second; default: 120.")
    ] = None,
    filesystem: Annotated[
        Literal["ext4", "xfs"] | None, typer.Option(help="File system of the disk; default: ext4.")
    ] = None,
) -> None:
    """Make an emulated hard disk, or mount one again after a reboot (then without --on and --size)."""
    with one_line_errors():
        from highwater.bench.storage import emulated_hdd
        from highwater.bench.storage.control_groups import DiskLimits
        from highwater.common.quantities import SIZE
        from highwater.tuning.facts import collect

        host = emulated_hdd.DiskHost(collect())
        limits = None
        if bandwidth is not None or iops is not None:
            now = next((disk.record.limits for disk in emulated_hdd.disks(host) if disk.record.name == name), None)
            now = now or emulated_hdd.DEFAULT_LIMITS
            limits = DiskLimits(
                parsed("--bandwidth", SIZE.integer, bandwidth.removesuffix("/s"))
                if bandwidth is not None
                else now.bandwidth_bytes_per_s,
                iops or now.operations_per_s,
            )
        size_bytes = None if size is None else parsed("--size", SIZE.integer, size)
        disk = emulated_hdd.make(host, name, on, size_bytes, limits, filesystem)
        _print(_disks_table([disk]))
        typer.echo(f"in a workload file: storage: {{targets: {{{name}: {{path: {disk.record.mount_point}}}}}}}")


@emulate_hdd.command()
def remove(name: DiskName) -> None:
    """Unmount the disk, remove its limits, delete its image and all data on it."""
    with one_line_errors():
        from highwater.bench.storage import emulated_hdd
        from highwater.tuning.facts import collect

        record = emulated_hdd.remove(emulated_hdd.DiskHost(collect()), name)
        typer.echo(f"removed the emulated disk {name} with its image {record.image}")


@emulate_hdd.command("list")
def list_disks(as_json: AsJson = False) -> None:
    """Show the emulated disks and whether they are ready."""
    with one_line_errors():
        from highwater.bench.storage import emulated_hdd
        from highwater.tuning.facts import collect

        disks = emulated_hdd.disks(emulated_hdd.DiskHost(collect()))
        if as_json:
            found = [{**disk.record.model_dump(mode="json"), "status": disk.status} for disk in disks]
            typer.echo(json.dumps(found, indent=2))
        elif disks:
            _print(_disks_table(disks))
            for disk in disks:
                if disk.problem is not None:
                    typer.echo(disk.problem)
        else:
            typer.echo("no emulated disks")


def _print(table: FigureTable) -> None:
    from rich.console import Console

    table.print_to(Console(highlight=False))


def _table(*columns: str, figures: int = 0) -> FigureTable:
    """A table whose last `figures` columns are numbers."""
    from highwater.common.figure_table import FigureTable

    table = FigureTable()
    table.add_names(*columns[: len(columns) - figures])
    table.add_figures(*columns[len(columns) - figures :])
    return table


def _targets_table(targets: list[StorageTarget]) -> FigureTable:
    from rich.markup import escape

    table = _table("path", "medium", "device", "model", "scheduler", "file system", "options")
    for target in targets:
        medium = f"{target.medium}, emulated" if target.emulated else target.medium
        device = f"{target.device} on {target.backing_device}" if target.backing_device else target.device
        row = [device, target.model, target.scheduler, target.filesystem, ",".join(target.mount_options)]
        table.add_row(escape(target.path), medium, *(escape(text or "–") for text in row))
    return table


def _probe_table(probe: TargetProbe) -> FigureTable:
    from highwater.common.units import count_text, duration_ns_text, size_text

    table = _table("job", "block", "past cache", "bytes/s", "ops/s", "p50", "p99", "max", figures=5)
    for job in probe.jobs:
        latencies = (job.latency_p50_ns, job.latency_p99_ns, job.latency_max_ns)
        table.add_row(
            job.name.replace("_", " ") + (f", {job.files} files" if job.files > 1 else ""),
            size_text(job.block_bytes),
            "yes" if job.direct else "no",
            f"{size_text(job.bytes_per_s)}/s",
            count_text(job.operations_per_s),
            *("–" if value is None else duration_ns_text(value) for value in latencies),
        )
    return table


def _disks_table(disks: list[EmulatedDisk]) -> FigureTable:
    from rich.markup import escape

    from highwater.common.units import size_text

    table = _table("emulated disk", "status", "path", "device", "size", "bandwidth", "ops/s", figures=3)
    for disk in disks:
        record = disk.record
        table.add_row(
            record.name,
            disk.status,
            escape(record.mount_point),
            disk.device.path if disk.device else "–",
            size_text(record.size_bytes),
            f"{size_text(record.bandwidth_bytes_per_s)}/s",
            str(record.operations_per_s),
        )
    return table
