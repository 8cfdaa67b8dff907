"""`bench compare`: compares two results.

Imports are late so that --help is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, one_line_errors

if TYPE_CHECKING:
    from highwater.bench.results import ResultComparison, RunResult

_Side = typer.Argument(metavar="DIR[:CELL]", help="A result directory, or one cell of it.")


def compare(
    base: Annotated[str, _Side],
    head: Annotated[str, _Side],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="NAME", help="Only this metric; may be given several times.")
    ] = None,
    allow_env_diff: Annotated[
        bool, typer.Option("--allow-env-diff", help="Compare although the two environments differ.")
    ] = False,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment.")] = False,
) -> None:
    """Compare two results: ratios with intervals, and a verdict for each.

    Exit code 5 when the two were measured under different conditions.
    """
    with one_line_errors():
        from highwater.bench.compare import compare as compared
        from highwater.bench.display.comparison_text import comparison_markdown
        from highwater.bench.errors import UsageError
        from highwater.bench.exit_codes import EXIT_ENVIRONMENT
        from highwater.bench.metrics import metric as known_metric

        names = [known_metric(name).name for name in metric or []]
        base_run, base_cell = side_named(base)
        head_run, head_cell = side_named(head)
        try:
            found = compared(base_run, head_run, base_cell, head_cell, names or None)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if as_json:
            typer.echo(found.model_dump_json(by_alias=True, indent=2))
        elif markdown:
            typer.echo(comparison_markdown(found), nl=False)
        else:
            _print(found)
        if not found.same_environment and not allow_env_diff:
            typer.echo(
                "error: the two were not measured under the same conditions (bold above); "
                "--allow-env-diff compares them nevertheless",
                err=True,
            )
            raise typer.Exit(EXIT_ENVIRONMENT)


def side_named(text: str) -> tuple[RunResult, str | None]:
    """A result directory and the cell of it that `DIR:CELL` names. Raises ResultDirectoryError."""
    from highwater.bench.results import RunResult

    path, colon, cell = text.partition(":")
    if not colon or Path(text).is_dir():
        return RunResult(Path(text)), None
    return RunResult(Path(path)), cell


def _print(found: ResultComparison) -> None:
    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.display.comparison_text import difference_text, side_text
    from highwater.bench.display.tables import comparison_table

    console = Console(highlight=False)
    console.print(f"base  {escape(side_text(found.base))}", soft_wrap=True)
    console.print(f"head  {escape(side_text(found.head))}", soft_wrap=True)
    console.print(comparison_table(found.metrics))
    for title, differences in (("environment", found.environment), ("workload", found.workload)):
        for difference in differences:
            text = escape(difference_text(difference))
            console.print(f"{title} differs: {f'[bold]{text}[/]' if difference.decides else text}", soft_wrap=True)
    for warning in found.warnings:
        console.print(f"[yellow]note[/] {escape(warning)}", soft_wrap=True)
