"""`highwater report`: a result directory in, one HTML file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

USAGE_ERROR = 2


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A result directory made by `highwater bench run`.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; DIR/report.html unless named.")
    ] = None,
) -> None:
    """Write the report of a result directory as one HTML file that works from disk, and print its path."""
    # Imported here so that `highwater --help` stays fast.
    from bench.results import ResultDirectoryError, RunResult
    from reports.page import render

    path = out or directory / "report.html"
    try:
        page = render(RunResult(directory))
    except ResultDirectoryError as error:
        raise _failed(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _failed(f"cannot read {directory}: {error}") from error
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(page, "utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = error.strerror or error
        raise _failed(f"cannot write {path}: {reason}; name a file that can be written with --out") from error
    typer.echo(path)


def _failed(text: str) -> typer.Exit:
    typer.echo(f"error: {text}", err=True)
    return typer.Exit(USAGE_ERROR)
