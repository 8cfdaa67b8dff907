"""The output of `plan` and `run`: tables for people, and documents for --json."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from highwater.bench.display.comparison_text import DETECTABLE, HEADER, cells_of, row, zero_line
from highwater.bench.display.evidence_text import evidence_lines
from highwater.bench.display.wrapping import wrapped
from highwater.bench.runs.canary import slow_blocks
from highwater.bench.storage.cluster_storage import cluster_target
from highwater.bench.storage.targets import describe_target, target_paths
from highwater.bench.trials.plan import Plan, Price, trial_duration_s
from highwater.bench.workload.clusters import Cluster
from highwater.bench.workload.system import ClusterUnderTest
from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OBJECTIVE, EXIT_OK, EXIT_USAGE
from highwater.common.figure_table import FigureTable
from highwater.common.units import (
    NANOSECONDS,
    NONE,
    change_text,
    duration_ns_text,
    percent_text,
    plural,
    rate_text,
    significant,
    size_text,
    unit_for,
    wait_text,
)
from highwater.results.analysis.answer import answer_of
from highwater.results.analysis.conclusions import HEADLINES, HEADLINES_AT_ONCE
from highwater.results.analysis.evidence import Evidence
from highwater.results.analysis.statement import Answer, StatementState
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL
from highwater.results.analysis_file import Analysis, Search
from highwater.results.gate import MetricComparison
from highwater.results.metrics import metric
from highwater.results.models import TrialPlan, TrialSummary
from highwater.results.reader import RunResult, TrialResult
from highwater.results.storage import StorageTarget
from highwater.tuning.facts import collect

_CPU_PER_GIB: Final = "system.cpu_s_per_gib"
_NEXT: Final = "next: "
_MEANINGS: Final = {
    EXIT_USAGE: "a mistake in the call, the workload or the set-up",
    EXIT_DAMAGE: "the broker failed, or lost or damaged records",
    EXIT_INVALID: "some trial is not a valid measurement",
    EXIT_OBJECTIVE: "an objective was missed",
    EXIT_INTERRUPTED: "interrupted",
}
_STATEMENT_STYLES: Final[dict[StatementState, str]] = {
    "good": "bold green",
    "open": "bold yellow",
    "bad": "bold red",
    "plain": "bold",
}
_COMPARED: Final = {"better": "better than with", "worse": "worse than with", "differs": "another than with"}


def print_plan(plan: Plan, price: Price | None = None) -> None:
    console = Console(highlight=False)
    specification = plan.specification
    workload = specification.workload
    console.print(f"[bold]{escape(workload.name)}[/]  {escape(workload.purpose)}")
    table = FigureTable()
    table.add_figures("block")
    table.add_names(*(specification.axes or ["cell"]))
    table.add_figures("trial takes", "")
    for planned in plan.trials:
        values = [str(planned.plan.factors[label]) for label in specification.axes] or [planned.cell.name]
        took = wait_text(trial_duration_s(planned.cell.workload))
        table.add_row(str(planned.plan.block), *values, took, "A/A" if planned.plan.role == "a_a" else "")
    table.print_to(console)
    blocks = plan.trials[-1].plan.block
    at_once = f" of {plan.lanes} at once," if plan.lanes > 1 else ""
    console.print(
        f"{plural(len(plan.trials), 'trial')}{_twins(plan)}, in {plural(blocks, 'block')}{at_once} of random order "
        f"(seed {plan.seed}), about {wait_text(plan.duration_s)}; needs {plan.tasks} task slots",
    )
    if len(specification.cells) > 1 and blocks < LEAST_FOR_INTERVAL:
        console.print(
            f"[yellow]note:[/] too few trials to compare cells: an interval needs at least {LEAST_FOR_INTERVAL} per "
            f"cell and this plan has {blocks}; use --trials {LEAST_FOR_INTERVAL} or more",
            soft_wrap=True,
        )
    if price is not None:
        console.print(f"at {price}: about {price.of(plan.duration_s)}")
    for name, cluster in _clusters(plan).items():
        hosts = f"; on {', '.join(cluster.hosts)}" if cluster.hosts else ""
        storage = _storage(cluster_target(name, cluster))
        console.print(f"cluster {escape(cluster.bootstrap_servers)}{escape(hosts)}; storage {storage}", soft_wrap=True)
    facts = collect()
    for target, needed_bytes in _needed_bytes(plan).items():
        described = describe_target(target, target_paths(workload)[target], facts)
        console.print(f"storage {_storage(described)}: up to {size_text(needed_bytes)} at a time", soft_wrap=True)


def _twins(plan: Plan) -> str:
    twins = sum(planned.plan.role == "a_a" for planned in plan.trials)
    return f" ({twins} of them A/A twins)" if twins else ""


def plan_as_json(plan: Plan, price: Price | None = None) -> dict[str, Any]:
    return {
        "name": plan.specification.workload.name,
        "workload_sha256": plan.specification.sha256,
        "seed": plan.seed,
        "duration_s": plan.duration_s,
        "price": None if price is None else price.as_json(plan.duration_s),
        "tasks": plan.tasks,
        "storage_bytes": _needed_bytes(plan),
        "axes": plan.specification.axes,
        "cells": [cell.name for cell in plan.specification.cells],
        "trials": [planned.plan.model_dump(exclude={"status", "error"}) for planned in plan.trials],
    }


def _clusters(plan: Plan) -> dict[str, Cluster]:
    """The external clusters that trials measure."""
    systems = [trial.cell.workload.system for trial in plan.trials]
    return {system.name: system.external for system in systems if isinstance(system, ClusterUnderTest)}


def _needed_bytes(plan: Plan) -> dict[str, int]:
    targets = dict.fromkeys(trial.cell.workload.storage.target for trial in plan.trials)
    sizes = {target: plan.log_bytes(target, kept=False) for target in targets}
    return {target: size_bytes for target, size_bytes in sizes.items() if size_bytes}


def _storage(target: StorageTarget) -> str:
    medium = f"emulated {target.medium}: {target.emulation}" if target.emulated else target.medium
    return escape(f"{target.name} ({', '.join(filter(None, (target.path, medium)))})")


def print_end(result: RunResult) -> None:
    """Print the cells and notes, then the answer to the workload's question and where the results are."""
    console = Console(highlight=False)
    results_table(result).print_to(console)
    if not result.manifest.for_measurement:
        console.print("This workload says for_measurement: false; its figures are not to be quoted.", style="yellow")
    for target in {trial.summary.storage.name: trial.summary.storage for trial in result.trials}.values():
        if target.emulated:
            console.print(f"storage {_storage(target)}", style="yellow", soft_wrap=True)
    for line in [*result.durability_notes(), *result.sharing_notes(), *result.retry_notes()]:
        console.print(line, style="yellow", soft_wrap=True, markup=False)
    analysis = result.analysis()
    headlines = HEADLINES_AT_ONCE if result.sharing_notes() else HEADLINES
    for line in analysis_lines(analysis, headlines) if analysis else ():
        _say(console, line)
    for line in slow_blocks(result.manifest.canaries, result.manifest.workload):
        _say(console, f"note: {line}")
    if result.manifest.status == "interrupted":
        console.print("[yellow]interrupted[/]; what was measured so far is saved")
    console.print()
    _print_end(console, result)
    if meaning := _MEANINGS.get(result.manifest.exit_code or EXIT_OK):
        console.print(f"exit status {result.manifest.exit_code}: {meaning}", soft_wrap=True)


def answer_lines(answer: Answer) -> list[Text]:
    """The whole answer as lines that end the output of a run."""
    lines = [Text(statement.text) for statement in answer.statements]
    return [*lines, *([Text(f"{_NEXT}{answer.next_step}")] if answer.next_step else [])]


def print_headline(console: Console, text: str, style: str, evidence: Evidence | None) -> None:
    """The answer in one sentence and one picture."""
    _say(console, Text(text, style))
    for line in evidence_lines(evidence, console.width) if evidence else ():
        console.print(line, soft_wrap=True)
    console.print()


def analysis_lines(analysis: Analysis, headlines: Sequence[str]) -> list[str]:
    """Lines about the noise of the host, differences from the first cell, and warnings.

    headlines: the metrics to report.
    """
    lines = []
    bounds = {noise.metric: noise.bound95_ratio for noise in analysis.noise if noise.bound95_ratio is not None}
    known = [f"{name} ±{percent_text(bounds[name])}" for name in headlines if name in bounds]
    if known:
        pairs = max(noise.n_pairs for noise in analysis.noise if noise.bound95_ratio is not None)
        lines.append(f"noise ({pairs} A/A pairs, 95 %): {', '.join(known)}")
    lines += [
        f"{comparison.head}: {comparison.metric} is {_COMPARED[comparison.verdict]} {comparison.base}: "
        f"{change_text(comparison.ratio)}"
        for comparison in analysis.comparisons
        if comparison.metric in headlines and comparison.verdict in _COMPARED
    ]
    return [*lines, *(f"note: {warning}" for warning in analysis.warnings)]


def print_search(result: RunResult, search: Search) -> None:
    """Print every probe, then the answer and where the results are."""
    console = Console(highlight=False)
    table = FigureTable(gap=2)
    table.add_names("")
    table.add_figures("rate")
    table.add_names("result")
    for probe in search.probes:
        outcome = "[green]passed[/]" if probe.passed else f"[red]failed[/]  {escape(probe.text or probe.limit or '')}"
        if probe.passed and probe.verdict is not None and probe.verdict.state != "valid":
            outcome += f", [yellow]{probe.verdict.state}[/]"
        table.add_row(probe.stage, rate_text(probe.rate_per_s), outcome)
    table.print_to(console)
    console.print()
    _print_end(console, result)


def _print_end(console: Console, result: RunResult) -> None:
    """The answer, then where the results are and how to read them."""
    answer = answer_of(result)
    print_headline(console, answer.headline.text, _STATEMENT_STYLES[answer.headline.state], answer.evidence)
    for line in answer_lines(answer):
        # The last step ends with a command: a terminal may fold it, but a line break would spoil its copy.
        _say(console, line, with_command=line.plain.startswith(_NEXT))
    console.print()
    console.print(f"results: {escape(str(result.directory))}", soft_wrap=True)
    console.print(f"report:  highwater report {escape(shlex.quote(str(result.directory)))}", soft_wrap=True)


def _say(console: Console, line: str | Text, *, with_command: bool = False) -> None:
    """A sentence: broken between words on a terminal, and on one line elsewhere, for programs that search for it."""
    if with_command or not console.is_terminal:
        console.print(line, soft_wrap=True, markup=False)
        return
    text = line if isinstance(line, Text) else Text(line)
    console.print(Text(wrapped(text.plain, console.width), text.style), soft_wrap=True)


def results_table(result: RunResult) -> FigureTable:
    """One row per cell: medians over its usable trials (if there are none, over all), with their range below.

    All axes are in one column, a line each, so that the table fits a terminal of 80 columns.
    """
    table = FigureTable()
    axes = list(result.manifest.axes)
    if axes:
        table.add_names("\n".join(axes))
    columns = _columns(result)
    table.add_figures(*columns)
    table.add_figures("verdict", justify="left")
    factors = {planned.cell: planned.factors for planned in result.manifest.trials}
    for cell, trials in result.cells().items():
        shown = [trial for trial in trials if trial.summary.verdict.state != "invalid"] or trials
        table.add_row(
            *(["\n".join(escape(str(factors[cell][axis])) for axis in axes)] if axes else []),
            *(told([trial.summary for trial in shown]) for told in columns.values()),
            _verdicts(trials, [t for t in result.manifest.trials if (t.cell, t.role) == (cell, "measure")]),
        )
    return table


_Told = Callable[[Sequence[TrialSummary]], str]


def _columns(result: RunResult) -> dict[str, _Told]:
    """The columns of the table. Latencies are left out for trials that shared a processor."""
    achieved: dict[str, _Told] = {"achieved": lambda shown: _rates([summary.achieved_per_s for summary in shown])}
    if result.sharing_notes():
        return achieved | {"CPU per GiB": _cpu_per_gib}
    summaries = [trial.summary for trial in result.trials]
    if any(summary.driver in ("rdkafka_performance", "wire_load") for summary in summaries):
        # Of totals, which have no tail worth a column; what was read counts where somebody read.
        if any(summary.generator.consumers for summary in summaries):
            achieved["consumed"] = lambda shown: _rates([summary.consumed_per_s for summary in shown])
        achieved["CPU per GiB"] = _cpu_per_gib
    if not any(summary.produce.response_ns.count for summary in summaries):
        return achieved
    return achieved | {
        "produce p50": lambda shown: _durations([summary.produce.response_ns.p50 for summary in shown]),
        "p99": lambda shown: _durations([summary.produce.response_ns.p99 for summary in shown]),
        "p99.9": lambda shown: _durations([summary.produce.response_ns.p999 for summary in shown]),
    }


def _cpu_per_gib(shown: Sequence[TrialSummary]) -> str:
    values = [value for summary in shown if (value := metric(_CPU_PER_GIB).read(summary)) is not None]
    if not values:
        return NONE
    return f"{significant(median(values))} s" + _below(f"{significant(min(values))}–{significant(max(values))}", values)


def _rates(values: Sequence[float]) -> str:
    if not values:
        return NONE
    return rate_text(median(values)) + _below(f"{significant(min(values))}–{significant(max(values))}", values)


def _durations(values_ns: Sequence[float]) -> str:
    if not values_ns:
        return NONE
    middle_ns = median(values_ns)
    _, scale = unit_for(middle_ns, NANOSECONDS)
    spread = f"{significant(min(values_ns) / scale)}–{significant(max(values_ns) / scale)}"
    return duration_ns_text(middle_ns) + _below(spread, values_ns)


def _below(spread: str, values: Sequence[float]) -> str:
    return f"\n[dim]{spread}[/]" if len(values) > 1 else ""


def _verdicts(trials: Sequence[TrialResult], planned: Sequence[TrialPlan]) -> str:
    states = [trial.summary.verdict.state for trial in trials]
    styles = {"valid": "green", "inconclusive": "yellow", "invalid": "red"}
    parts = [f"[{style}]{states.count(state)} {state}[/]" for state, style in styles.items() if state in states]
    if skipped := sum(trial.status == "skipped" for trial in planned):
        parts.append(f"[dim]{skipped} not needed[/]")
    if missing := len(planned) - len(states) - skipped:
        parts.append(f"[red]{missing} not finished[/]")
    if missed := sum(not all(result.met for result in trial.summary.slo) for trial in trials):
        parts.append(f"[yellow]{missed} off objective[/]")
    return "\n".join(parts)


def answer_as_json(result: RunResult) -> dict[str, Any]:
    """The answer for --json: in one line, statement by statement, and as the exit status."""
    answer = answer_of(result)
    return {
        "outcome": answer.sentence,
        "exit_code": result.manifest.exit_code,
        "answer": [{"kind": item.kind, "state": item.state, "text": item.text} for item in answer.statements],
        "next_step": answer.next_step,
    }


def results_as_json(result: RunResult) -> dict[str, Any]:
    """The results for --json: states and figures per cell, percentiles per trial and never averaged."""
    return {
        **answer_as_json(result),
        "directory": str(result.directory),
        "status": result.manifest.status,
        "cells": {
            cell: [
                {
                    "trial_id": trial.summary.trial_id,
                    "verdict": trial.summary.verdict.model_dump(mode="json"),
                    "offered_per_s": trial.summary.offered_per_s,
                    "achieved_per_s": trial.summary.achieved_per_s,
                    "produce_response_ns": trial.summary.produce.response_ns.model_dump(mode="json"),
                    "e2e_response_ns": trial.summary.e2e.response_ns.model_dump(mode="json")
                    if trial.summary.e2e
                    else None,
                    "delivery": trial.summary.delivery.model_dump(mode="json"),
                }
                for trial in trials
            ]
            for cell, trials in result.cells().items()
        },
        "durability_trades": result.durability_notes(),
        "at_once": result.sharing_notes(),
        "measured_again": result.retry_notes(),
        "unfinished": [
            {"trial_id": trial.trial_id, "cell": trial.cell, "status": trial.status, "error": trial.error}
            for trial in result.manifest.trials
            if trial.status != "done"
        ],
    }


def print_metrics(
    console: Console,
    metrics: Sequence[MetricComparison],
    asked: Sequence[str] | None = None,
    answers: Mapping[str, str] | None = None,
) -> None:
    """Base against head: a table for each cell, gated metrics bold; the metrics that are 0 on both sides in one line.

    asked: the metrics to show; None for all. answers: cell to its answer, said above its table when there are several.
    """
    cells = cells_of(metrics, asked)
    for cell in cells:
        if cell.title and (len(cells) > 1 or answers is None):
            answer = f"  {escape(answers[cell.cell])}" if answers and cell.cell in answers else ""
            console.print(f"[bold]{escape(cell.title)}[/]{answer}")
        if cell.rows:
            _comparison_table(cell.rows).print_to(console)
    if line := zero_line(metrics):
        console.print(f"[dim]{escape(line)}[/]")
    if hidden := len({item.metric for cell in cells for item in cell.others}):
        console.print(f"[dim]{hidden} more metrics with --all[/]")


def _comparison_table(metrics: Sequence[MetricComparison]) -> FigureTable:
    """A row for each metric, within 80 columns."""
    styles = {"better": "green", "worse": "red", "differs": "yellow"}
    table = FigureTable()
    metric, *figures, verdict_title = _narrow(HEADER)
    table.add_names(metric)
    table.add_figures(*figures)
    table.add_figures(verdict_title, justify="left")
    for item in metrics:
        *cells, verdict = (escape(text) for text in _narrow(row(item)))
        style = styles.get(item.verdict)
        table.add_row(*cells, f"[{style}]{verdict}[/]" if style else verdict, style="bold" if item.gated else None)
    return table


def _narrow(texts: Sequence[str]) -> Sequence[str]:
    """Without the smallest detectable change, which the answer names, and Markdown and JSON have."""
    return (*texts[:DETECTABLE], *texts[DETECTABLE + 1 :])
