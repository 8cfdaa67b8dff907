"""The options `--watch` and `--watch-port` of commands that run something for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .errors import UsageError

if TYPE_CHECKING:
    from .page_process import PageProcess

Watch = Annotated[
    bool,
    typer.Option("--watch", help="Serve a page that follows the run, on loopback until it ends, and print its link."),
]
WatchPort = Annotated[
    int | None,
    typer.Option(
        "--watch-port", metavar="PORT", min=1, max=65535, help="With --watch: the page's port; default: a free one."
    ),
]


def page_of(watch: bool, port: int | None) -> PageProcess | None:
    """What was asked for, its link printed on standard error. Raises UsageError."""
    if not watch:
        if port is not None:
            raise UsageError("--watch-port is for --watch: add --watch, or leave both out")
        return None
    from .page_process import PageProcess

    page = PageProcess(port or 0)
    typer.echo(page.notice, err=True)
    return page
