"""`bench import omb`: converts OpenMessaging Benchmark's files. Imports are late so that --help is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.commands.common import one_line_errors

app = typer.Typer(no_args_is_help=True, help="Convert workloads of other tools.")


@app.callback()
def _group() -> None:
    """Makes typer treat `omb` as a subcommand although it is the only one."""


@app.command()
def omb(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A workload file of OpenMessaging Benchmark.")],
    driver: Annotated[Path | None, typer.Option(metavar="FILE", help="The Kafka driver file of the workload.")] = None,
    own_broker: Annotated[
        bool, typer.Option("--own-broker", help="Measure Highwater's broker instead of the driver file's cluster.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here instead of printing it.")] = None,
) -> None:
    """Convert a workload of OpenMessaging Benchmark; comments at the top of the output list the differences."""
    with one_line_errors():
        from highwater.bench.workload.omb import as_text, import_omb
        from highwater.common.errors import UsageError

        translation = import_omb(file, driver, own_broker=own_broker)
        text = as_text(translation, file)
        if out is None:
            typer.echo(text, nl=False)
            return
        if out.exists():
            raise UsageError(f"{out} exists already; name another file with --out")
        out.write_text(text, encoding="utf-8")
        for note in translation.notes:
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"{out}: run it with highwater bench run {out} --out DIR", err=True)
