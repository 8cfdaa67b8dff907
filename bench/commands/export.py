"""`bench export`: writes results in the formats of other tools.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.commands.common import one_line_errors


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="pyperf, bmf, gab, otava, parquet, csv or omb.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; default for one text file: standard output.")
    ] = None,
) -> None:
    """Write results in the format of another tool. Estimates leave out invalid trials."""
    with one_line_errors():
        from highwater.bench.exports import exporter, formats
        from highwater.common.errors import UsageError
        from highwater.common.nearest import nearest
        from highwater.results.reader import RunResult

        known = formats()
        if to not in known:
            near = nearest(to, known)
            hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
            raise UsageError(f"--to: {to!r} is not a format; {hint}")
        files = exporter(to)(RunResult(directory))
        if not files:
            raise UsageError(f"{directory} has no usable trial to export")
        if out is None:
            if len(files) > 1 or to == "parquet":
                raise UsageError(f"--to {to} makes {'several files' if len(files) > 1 else 'no text'}; name --out FILE")
            sys.stdout.write(files[0].content.decode())
            return
        for file in files:
            path = out.with_name(out.stem + file.suffix + out.suffix)
            path.write_bytes(file.content)
            typer.echo(str(path))
