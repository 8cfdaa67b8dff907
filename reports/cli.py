"""`highwater report` and `highwater bench history report`: write HTML or Markdown of results."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.common.atomic_files import write_atomically
from highwater.common.command_errors import fail, report_error
from highwater.common.exit_codes import EXIT_INVALID

if TYPE_CHECKING:
    from highwater.reports.page import Document
    from highwater.results.salvage import FileFault
    from highwater.studies.history.series import Series

# How soon the page shows that the run has ended.
_LOOK_S: Final = 2
# Browsers read the page of live figures again so often.
_LIVE_RELOAD_S: Final = 3


def report(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A directory of bench run, advise, tune matrix or plan --out, or the --state of bench telemetry live.",
        ),
    ],
    head: Annotated[
        Path | None, typer.Argument(metavar="HEAD", help="A second result directory: compare HEAD with DIR.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; default: report.html (or .md) in the last directory."),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, for a comment on a pull request.")
    ] = False,
    most: Annotated[
        int | None,
        typer.Option(
            "--most", metavar="N", min=2000, help="Largest number of characters of Markdown; GitHub allows 65536."
        ),
    ] = None,
    x: Annotated[str, typer.Option(metavar="FACTOR", help="Factor on the x axis of the by-factor chart.")] = "",
    colour: Annotated[str, typer.Option(metavar="FACTOR", help="Factor shown by colour in the by-factor chart.")] = "",
    columns: Annotated[
        str, typer.Option(metavar="FACTOR", help="Factor with one column per value in the by-factor chart.")
    ] = "",
    rows: Annotated[
        str, typer.Option(metavar="FACTOR", help="Factor with one row per value in the by-factor chart.")
    ] = "",
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Rewrite the page of live figures until the trial ends; browsers reload it."),
    ] = False,
) -> None:
    """Write the report of a result directory as one HTML file that works from disk, and print its path.

    Exit code 4 when files of the directory are damaged, missing or changed: the report shows the rest and names them.
    """
    # Imported here so that `highwater --help` stays fast.
    from highwater.bench.matrix.stored import holds_matrix
    from highwater.common.errors import UsageError
    from highwater.reports import markdown as as_markdown
    from highwater.reports import page
    from highwater.reports.advice import advice_document
    from highwater.reports.facets import FacetKeys, UnknownFactorError
    from highwater.reports.matrix import matrix_document
    from highwater.reports.side_by_side import NothingInCommonError, comparison_document
    from highwater.results.advice import holds_advice
    from highwater.results.files import ResultDirectoryError
    from highwater.results.reader import RunResult
    from highwater.studies.capacity.stored import PLAN_FILE
    from highwater.studies.telemetry.state import holds_live_figures

    if most is not None and not markdown:
        fail("--most works with Markdown only: add --markdown")
    if head is not None and (x or colour or columns or rows):
        fail("--x, --colour, --columns and --rows work with one directory only")
    last = head or directory
    if head is None and holds_live_figures(directory):
        _live(directory, out or directory / "live.html", watch=watch)
        return
    if watch:
        fail(f"--watch is for the --state of bench telemetry live; a run is followed by: highwater watch {last}")
    stem = "comparison" if head else "report"
    path = out or last / f"{stem}{'.md' if markdown else '.html'}"
    if head is None and (directory / PLAN_FILE).is_file():
        if x or colour or columns or rows:
            fail(f"{directory} is of a plan: --x, --colour, --columns and --rows are for runs")
        document = _plan_document(directory)
        _write(path, as_markdown.render(document, most) if markdown else page.render(document))
        typer.echo(path)
        return
    try:
        faults: Sequence[FileFault] = ()
        if head is None:
            if holds_advice(directory):
                document = advice_document(directory)
            elif holds_matrix(directory):
                document = matrix_document(directory)
            else:
                result = RunResult(directory, salvage=True)
                document = page.run_document(result, FacetKeys(x, colour, columns, rows))
                faults = result.faults()
        else:
            document = comparison_document(RunResult(directory), RunResult(head))
        text = as_markdown.render(document, most) if markdown else page.render(document)
    except (ResultDirectoryError, UnknownFactorError, NothingInCommonError, UsageError) as error:
        fail(error)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {last}: {error}")
    _write(path, text)
    typer.echo(path)
    if faults:
        more = f"; the report names {len(faults) - 1} more" if len(faults) > 1 else ""
        report_error(f"{directory} is damaged: {faults[0]}{more}")
        raise typer.Exit(EXIT_INVALID)


def _plan_document(directory: Path) -> Document:
    from highwater.common.errors import UsageError
    from highwater.reports.plan import plan_document
    from highwater.studies.capacity.stored import LOAD_FILE, PLAN_FILE, plan_of

    file, load = directory / PLAN_FILE, directory / LOAD_FILE
    try:
        plan = plan_of(file.read_text("utf-8"), str(file))
        return plan_document(plan, load.read_text("utf-8") if load.is_file() else "", str(load))
    except UsageError as error:
        fail(error)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {directory}: {error}")


def _live(directory: Path, path: Path, *, watch: bool) -> None:
    """Write the page of live figures; `watch`: again whenever they change, until the trial has ended."""
    from highwater.common.errors import UsageError
    from highwater.reports import page
    from highwater.reports.live import live_document

    written = None
    if watch:
        typer.echo(path)
        os.nice(19)
    while True:
        try:
            document, stamp, ended = live_document(directory)
        except UsageError as error:
            fail(error)
        goes_on = watch and not ended
        if stamp != written:
            _write(path, page.render(document, _LIVE_RELOAD_S if goes_on else None))
            written = stamp
        if not goes_on:
            break
        time.sleep(_LOOK_S)
    if not watch:
        typer.echo(path)


def history_report(
    history: Annotated[Path, typer.Option("--history", metavar="DIR", help="The directory of the history.")] = Path(
        "history"
    ),
    lake: Annotated[
        Path | None,
        typer.Option("--lake", metavar="DIR", help="Take the runs from this lake instead of a history."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; default: history.html in the history or the lake."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gate policy with the metrics and their floors.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every metric, not only the headline ones.")] = False,
    otava: Annotated[
        str | None, typer.Option(metavar="PATH", help="Apache Otava's program; default: the one that is installed.")
    ] = None,
) -> None:
    """Write a history as one HTML file: trends, change points, environments; print its path.

    Change points are looked for if Apache Otava is installed; nothing is installed.
    """
    from functools import partial

    from highwater.common.errors import UsageError
    from highwater.reports import page
    from highwater.reports.history import history_document
    from highwater.studies.history.detection import Rules
    from highwater.studies.history.otava import otava_present

    place = lake or history
    try:
        rules, command = Rules.of_file(policy), partial(otava_present, otava)
        document = history_document(place, _kept_series(history, lake), rules, command, everything=everything)
    except UsageError as error:
        fail(error)
    except OSError as error:
        fail(f"cannot read {place}: {error}")
    path = out or place / "history.html"
    _write(path, page.render(document))
    typer.echo(path)


def _kept_series(history: Path, lake: Path | None) -> Sequence[Series]:
    """Raises UsageError when there is none."""
    if lake is None:
        from highwater.studies.history.series import kept_series

        return kept_series(history)
    from highwater.studies.lake.extra import named_extra

    with named_extra():
        from highwater.studies.lake import series

        return series.kept_series(lake)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        reason = error.strerror or error
        fail(f"cannot write {path}: {reason}; name a file that can be written with --out")


def watch(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The directory of a run: --out of bench run, STORAGE/NAME of a pipeline."),
    ],
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port on loopback; 0 for a free one.")
    ] = 0,
) -> None:
    """Serve a page that follows a run of bench or pipeline, on loopback, until Ctrl-C; print its link.

    The page is what bench run --watch and pipeline run --watch open. It asks for figures once a second while it is in
    sight. From another host: ssh -L PORT:127.0.0.1:PORT HOST.
    """
    from highwater.common.errors import UsageError
    from highwater.common.page_process import PageAddress
    from highwater.reports.watch.serving import WatchedRun, serve

    try:
        run = WatchedRun(directory)
        address = PageAddress.inherited()
        is_child = address is not None
        address = address or PageAddress.free(port, "--port")
    except FileNotFoundError:
        ended = (directory / "manifest.json").is_file()
        fail(
            f"no run goes on in {directory}: "
            + (f"it has ended; highwater report {directory} shows it" if ended else "name the directory that a run has")
        )
    except (OSError, UsageError) as error:
        fail(error)
    if not is_child:
        typer.echo(address.notice)
    serve(run, address, until_the_end=is_child)
