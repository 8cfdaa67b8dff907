"""`bench host …`: describes and samples a host of a cluster; runs on that host."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, one_line_errors

if TYPE_CHECKING:
    from highwater.bench.workload.clusters import ClusterHost

app = typer.Typer(
    no_args_is_help=True, help="Describe or sample a host of an external cluster; run these commands on that host."
)


@app.command()
def describe(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Log directories of the host's brokers.")],
    as_json: AsJson = False,
) -> None:
    """Print this host in the form of a workload file, for system.clusters.NAME.hosts."""
    with one_line_errors():
        import yaml

        from highwater.common.errors import UsageError

        for directory in directories:
            if not directory.is_dir():
                raise UsageError(f"{directory} is not a directory; name where the brokers keep their logs")
        host = _described(directories).model_dump(mode="json", by_alias=True, exclude_none=True)
        typer.echo(json.dumps(host, indent=2) if as_json else yaml.safe_dump(host, sort_keys=False).rstrip())


@app.command()
def sample() -> None:
    """Answer the question on standard input with one reading per second, until standard input is closed.

    A run starts this command through a systemd socket with Accept=yes, or over ssh.
    """
    from highwater.bench.host.sampling_service import serve

    raise typer.Exit(serve(sys.stdin.fileno(), sys.stdout.fileno()))


def _described(directories: list[Path]) -> ClusterHost:
    from highwater.bench.storage.cluster_storage import together
    from highwater.bench.storage.targets import describe_target
    from highwater.bench.workload.clusters import ClusterHost
    from highwater.common.quantities import format_size
    from highwater.tuning.facts import collect
    from highwater.tuning.fingerprint import fingerprint
    from highwater.tuning.trades import durability_trades

    facts = collect()
    paths = [directory.resolve() for directory in directories]
    storage = together([describe_target("", path, facts) for path in paths])
    memory_bytes = facts.memory.total_bytes
    return ClusterHost.model_validate(
        {
            "cpus": facts.cpu_count,
            "cpu_model": facts.cpu_model,
            "memory": None if memory_bytes is None else format_size(memory_bytes),
            "kernel": facts.kernel_release,
            "runs_in": ", ".join(filter(None, (facts.container, facts.virtual_machine))) or None,
            "tuning_fingerprint": fingerprint(facts)[0],
            "durability_trades": [str(trade) for trade in durability_trades(facts, map(str, paths))],
            "storage": storage.model_dump(exclude={"name"}),
        }
    )
