"""The command `highwater pipeline environment FOLDER`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.common.command_errors import errors_in_one_line
from highwater.common.exit_codes import EXIT_USAGE
from highwater.pipeline.errors import PipelineError


def environment(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder; FOLDER.tar.gz is written too.")],
    more: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME", help="A package of this Python that tasks need too; may be repeated."),
    ] = None,
) -> None:
    """Pack what tasks import, for executors that have none of it, without a network.

    Executors need a Python of the same version, processor and C library, and nothing installed in it:
    spark.archives=FOLDER.tar.gz#FOLDER and PYSPARK_PYTHON=./FOLDER/bin/python. docs/pipeline-clusters.md has the
    whole commands.
    """
    from highwater.pipeline.environment.packing import pack

    with errors_in_one_line({PipelineError: EXIT_USAGE}):
        packed = pack(folder, more or ())
    typer.echo(f"{packed.folder}, {packed.archive} ({packed.size}): {', '.join(packed.distributions)}")
