"""Builds the documentation as a site from the files as they are now, and checks it: `make site`.

    python -m tools.site [--out DIRECTORY] [--older ARCHIVE]…

Exit status: 0 when all is well, 1 when pages were built with faults, 2 when none were built.
"""

from __future__ import annotations

import shutil
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from highwater.common.errors import UsageError
from tools.release.building import ROOT, Build
from tools.site.building import NAME, build_version, unpack, versions_of, write_front
from tools.site.checking import faults_of


def main(
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where the site goes.")] = ROOT / "build" / NAME,
    older: Annotated[
        list[Path] | None, typer.Option(metavar="ARCHIVE", help="Add the version of an earlier archive; repeatable.")
    ] = None,
) -> None:
    """Build this version, add earlier ones, check all, and print where to begin."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if out.exists() and not (out / "versions.json").is_file():
        raise UsageError(f"{out} is no site: name another directory with --out, or remove this one")
    with TemporaryDirectory(prefix="highwater-site-") as name:
        made = Path(name, NAME)
        for archive in older or ():
            if version in unpack(archive, made):
                raise UsageError(f"{archive} holds version {version}, which is built here: name earlier ones")
        build_version(Build(ROOT, made, Path(name), int(time.time()), version), made)
        write_front(made)
        faults = faults_of(made)
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, out)
    pages = sum(1 for _ in out.rglob("*.html"))
    typer.echo(f"{out / 'index.html'}: {pages} pages, versions {', '.join(versions_of(out))}")
    for fault in faults:
        typer.echo(f"site: {fault}", err=True)
    if faults:
        raise typer.Exit(1)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UsageError as error:
        typer.echo(f"site: {error}", err=True)
        sys.exit(2)
