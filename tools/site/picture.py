"""Writes the picture of a report that the front page shows: what Chromium paints of its first screen.

    python -m tools.site.picture REPORT.html [docs/images/report.png]

Exit status: 0, or 2 with one line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from highwater.common.errors import UsageError
from tools.release.building import ROOT
from tools.site.browser import running_browser

_WIDTH_PX = 1300


def main(
    report: Annotated[Path, typer.Argument(metavar="REPORT.html", help="What highwater report wrote.")],
    picture: Annotated[Path, typer.Argument(metavar="PICTURE.png", help="Where it goes.")] = ROOT
    / "docs/images/report.png",
) -> None:
    """Open a page in the light theme and write what is seen of it."""
    if not report.is_file():
        raise UsageError(f"{report} is no file: name the report.html of a result directory")
    with running_browser() as browser:
        browser.size(_WIDTH_PX)
        browser.open(report.resolve().as_uri())
        picture.write_bytes(browser.picture())
    typer.echo(picture)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UsageError as error:
        typer.echo(f"picture: {error}", err=True)
        sys.exit(2)
