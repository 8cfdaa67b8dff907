"""`bench compare`: compares two results.

Imports are late so that --help is fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, one_line_errors
from highwater.studies.lake.extra import named_extra

if TYPE_CHECKING:
    from highwater.results.analysis.compare import Trials
    from highwater.results.gate import ResultComparison
    from highwater.results.reader import RunResult

_Side = typer.Argument(metavar="DIR[:CELL]", help="A result directory (with --lake: a run), or one cell of it.")


def compare(
    base: Annotated[str, _Side],
    head: Annotated[str, _Side],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="NAME", help="Compare only this metric; may be repeated.")
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option("--lake", metavar="DIR", help="Read BASE and HEAD as run ids (or parts of ids) in this lake."),
    ] = None,
    allow_env_diff: Annotated[
        bool, typer.Option("--allow-env-diff", help="Compare although the two environments differ.")
    ] = False,
    allow_load_diff: Annotated[
        bool, typer.Option("--allow-load-diff", help="Compare although the two loads differ.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every metric, not only those of the question.")
    ] = False,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment.")] = False,
) -> None:
    """Compare two results: the answer in one sentence, then ratios with intervals of the metrics of the question.

    These are the metrics of the workload's question (answer: {best: …}) and of its objectives; without a question, six
    headline metrics.

    Exit code 4 when no valid trial can be compared, 5 when the two were measured under different conditions,
    6 when their loads differ (keys of load: and records:).
    """
    with one_line_errors():
        from highwater.bench.display.comparison_text import comparison_markdown
        from highwater.bench.workload.requested_load import load_of
        from highwater.common.command_errors import fail
        from highwater.common.errors import UsageError
        from highwater.common.exit_codes import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_LOAD
        from highwater.results.analysis.compare import compare as compared
        from highwater.results.analysis.compare import matched_cells
        from highwater.results.metrics import metric as known_metric

        names = [known_metric(name).name for name in metric or []]
        side = side_named if lake is None else partial(_side_of_lake, lake)
        (base_run, base_cell), (head_run, head_cell) = side(base), side(head)
        try:
            found = compared(base_run, head_run, base_cell, head_cell, names or None, load_of=load_of)
        except ValueError as error:
            raise UsageError(str(error)) from None
        changed = list(_changed_since(base_run, head_run))
        found = found.model_copy(update={"warnings": [*found.warnings, *changed]})
        if as_json:
            typer.echo(found.model_dump_json(by_alias=True, indent=2))
        elif markdown and found.metrics:
            typer.echo(comparison_markdown(found), nl=False)
        elif found.metrics:
            paired = base_run.directory.resolve() == head_run.directory.resolve()
            trials, _ = matched_cells(base_run, head_run, base_cell, head_cell, paired=paired)
            _print(found, trials, everything=everything)
        if not found.metrics:
            fail(_nothing_to_compare(base_run, head_run, names), EXIT_INVALID)
        if not found.same_environment and not allow_env_diff:
            fail(
                "the two were not measured under the same conditions (bold above); "
                "--allow-env-diff compares them nevertheless",
                EXIT_ENVIRONMENT,
            )
        if not found.same_load and not allow_load_diff:
            fail(
                "the two loads differ (bold above); measure both with one workload, or compare them "
                "nevertheless with --allow-load-diff",
                EXIT_LOAD,
            )


def side_named(text: str) -> tuple[RunResult, str | None]:
    """A result directory and the cell of it that `DIR:CELL` names. Raises ResultDirectoryError."""
    from highwater.results.reader import RunResult

    path, colon, cell = text.partition(":")
    if not colon or Path(text).is_dir():
        return RunResult(Path(text)), None
    return RunResult(Path(path)), cell


def _side_of_lake(lake: Path, text: str) -> tuple[RunResult, str | None]:
    """A run of a lake and the cell of it that `RUN:CELL` names. Raises UsageError."""
    with named_extra():
        from highwater.studies.lake.manifest import Manifest
        from highwater.studies.lake.runs import result_of

        run, _, cell = text.partition(":")
        return result_of(Manifest(lake), run), cell or None


def _changed_since(*results: RunResult) -> Iterator[str]:
    """A line for each directory whose files are not as its run left them."""
    from highwater.results import checksums

    for result in {result.directory.resolve(): result for result in results if result.has_files}.values():
        found = list(checksums.disagreements(result.directory, ended=result.manifest.status == "done"))
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            yield f"{result.directory}: {found[0]}{more}; see bench verify"


def _nothing_to_compare(base: RunResult, head: RunResult, metrics: list[str]) -> str:
    """Why two directories have no figure in common."""
    reasons = []
    for result in {result.directory: result for result in (base, head)}.values():
        measured = [trial.summary for trial in result.trials if trial.summary.role == "measure"]
        invalid = [summary for summary in measured if summary.verdict.state == "invalid"]
        if not measured:
            reasons.append(f"no trial of {result.directory} has finished")
        elif len(invalid) == len(measured):
            first = f" ({invalid[0].verdict.reasons[0].text})" if invalid[0].verdict.reasons else ""
            reasons.append(f"none of the {len(measured)} trials of {result.directory} is valid{first}")
    if not reasons:
        what = f"a figure for {', '.join(metrics)}" if metrics else "a valid trial of the same cell"
        reasons.append(f"the two sides do not both have {what}")
    return f"nothing to compare: {'; '.join(reasons)}"


def _print(found: ResultComparison, trials: Sequence[Trials], *, everything: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.display.comparison_text import header_lines
    from highwater.bench.display.tables import print_headline, print_metrics
    from highwater.bench.display.wrapping import wrapped
    from highwater.results.analysis.compare import headline_of
    from highwater.results.analysis.gathering import comparison_evidence
    from highwater.results.analysis.next_step import comparison_step
    from highwater.results.environment_key import difference_text

    console = Console(highlight=False)
    for line in header_lines(found):
        console.print(escape(line), soft_wrap=True)
    print_headline(console, headline_of(found, trials), "bold", comparison_evidence(found.answered, trials))
    console.print(escape(wrapped(found.answer, console.width)), soft_wrap=True)
    print_metrics(console, found.metrics, None if everything else found.asked, found.answers)
    if step := comparison_step(found):
        console.print(escape(wrapped(f"next: {step}", console.width)), soft_wrap=True)
    if found.paired:
        console.print("[dim]base, head: medians; change: from the pairs, so it may differ from their ratio[/]")
    for title, differences in (("environment", found.environment), ("workload", found.workload)):
        for difference in differences:
            text = escape(difference_text(difference))
            console.print(f"{title} differs: {f'[bold]{text}[/]' if difference.decides else text}", soft_wrap=True)
    for warning in found.warnings:
        console.print(f"[yellow]note[/] {escape(warning)}", soft_wrap=True)
