"""The page of the comparison, made from its file of figures alone."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.bench.comparison.results import Aim, CellResult, Comparison, Spread
from highwater.bench.comparison.run import in_digits

_OURS = "highwater"
_HEAD = """\
# Highwater's broker beside Apache Kafka

Made by `make bench-broker` ([how it measures and how to read this](../bench-broker.md)). All systems ran on the same
host, disk and day, one after the other in random order within each repeat. Figures are medians, lowest–highest behind
them; ratios are ours to theirs within one repeat. Absolute figures of small shared machines mean little.
"""


def render(comparison: Comparison) -> str:
    places: list[dict[str, str]] = []
    for cell in comparison.cells.values():
        if cell.environment not in places:
            places.append(cell.environment)
    parts = [_HEAD, "## What was aimed at\n", *_aims_table(comparison)]
    for name, cell in comparison.cells.items():
        parts += ["", f"## {cell.title}\n", f"`{name}`. {cell.how}\n", *_figures_table(cell), ""]
        place = places.index(cell.environment) + 1
        parts += [f"Measured {cell.measured_at} at place {place} by `{cell.command}`."]
        parts += [
            f"- thrown out: repeat {thrown.repeat}, {thrown.system}: {thrown.reason}" for thrown in cell.thrown_out
        ]
    parts += ["", "## Where it was measured", ""]
    for number, environment in enumerate(places, 1):
        parts += [f"{number}. " + "; ".join(f"{name} {value}" for name, value in environment.items())]
    return "\n".join(parts) + "\n"


def _aims_table(comparison: Comparison) -> Iterator[str]:
    yield "| cell | figure | beside | ratio | aim | |"
    yield "|---|---|---|---|---|---|"
    for name, cell in comparison.cells.items():
        for aim in cell.aims:
            for beside, values in _compared(cell, aim):
                spread = Spread.of(values)
                title = next(measure.title for measure in cell.measures if measure.name == aim.measure)
                sign = "≥" if aim.bound == "at least" else "≤"
                reached = "reached" if aim.reached_by(spread.median) else "**short**"
                yield f"| `{name}` | {title} | {beside} | {_spread(spread)} | {sign} {aim.value:g} | {reached} |"


def _compared(cell: CellResult, aim: Aim) -> Iterator[tuple[str, list[float]]]:
    """Each system that an aim compares ours with, and the ratios."""
    if aim.against is None:
        if values := cell.values(_OURS, aim.measure):
            yield "–", values
        return
    for system, version in cell.systems.items():
        if system.startswith(aim.against) and (ratios := cell.ratios(_OURS, system, aim.measure)):
            yield _called(system, version), ratios


def _figures_table(cell: CellResult) -> Iterator[str]:
    yield "| | " + " | ".join(f"{m.title}{', ' + m.unit if m.unit else ''}" for m in cell.measures) + " | repeats |"
    yield "|---|" + "---|" * (len(cell.measures) + 1)
    for system, version in cell.systems.items():
        shown = [
            _spread(Spread.of(values)) if (values := cell.values(system, measure.name)) else "–"
            for measure in cell.measures
        ]
        repeats = sum(system in sample.figures for sample in cell.samples)
        yield f"| {_called(system, version)} | " + " | ".join(shown) + f" | {repeats} |"


def _called(system: str, version: str) -> str:
    name = {"apache-kafka-3.9": "Apache Kafka", "apache-kafka-4": "Apache Kafka", "bare-loop": "bare loop"}.get(system)
    return f"{name or system} {version}" if system != "bare-loop" else "bare loop"


def _spread(spread: Spread) -> str:
    return f"{in_digits(spread.median)} ({in_digits(spread.least)}–{in_digits(spread.most)})"
