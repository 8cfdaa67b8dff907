"""What the verbs share: options, what they come to, and mistakes told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tuning.errors import TuningError
from tuning.facts import Facts, collect
from tuning.workload import Workload, parse_workload

from .exit_codes import REFUSED

RootOption = Annotated[
    Path,
    typer.Option("--root", metavar="DIR", help="Read a captured tree (its proc/, sys/ and etc/) instead of this host."),
]
DataDirOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Where the log is kept; repeat for several. Default: /var/lib/highwater."
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="KEY=VALUE",
        help="What the host is to carry, instead of the defaults; repeat for several. Keys: "
        "disk_write_rate (measured, of one data disk, as 400MB/s), partitions, partition_size, segment_size, "
        "connections, link (as 10Gbit/s), rtt (as 1ms).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """A TuningError becomes `error: …` on standard error and exit code 2."""
    try:
        yield
    except TuningError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from None


def workload_of(data_dirs: list[str] | None, assignments: list[str] | None) -> Workload:
    """Raises TuningError for an assignment that is none, or of an unknown key or an impossible value."""
    given: dict[str, object] = {"data_dirs": data_dirs or None}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise TuningError(f"--workload {assignment!r} is not KEY=VALUE, such as rtt=1ms")
        given[key] = value
    return parse_workload(given)


def facts_of(root: Path) -> Facts:
    """Raises TuningError for a root that is no host's tree."""
    if not (root / "proc").is_dir():
        raise TuningError(f"--root {root} holds no proc/ directory; name the top of a captured tree")
    return collect(root)
