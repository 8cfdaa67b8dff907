"""Comparisons as text: the rows shared by tables, Markdown and annotations, and the Markdown itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.units import NONE, change_size_text, change_text
from highwater.results.analysis.compare import ONLY_CELL
from highwater.results.analysis.comparison_answer import interval_text, is_zero_on_both, shown_first
from highwater.results.environment_key import difference_text
from highwater.results.gate import (
    ComparedSide,
    EnvironmentDifference,
    Gate,
    GateRound,
    MetricComparison,
    ResultComparison,
)
from highwater.results.metrics import value_text

HEADER: Final = ("metric", "base", "head", "change", "95 % interval", "detectable", "verdict")
"""The interval is that of the change; `detectable`: the smallest change that would have been found 4 times in 5."""
DETECTABLE: Final = HEADER.index("detectable")
_VERDICTS: Final = {
    "better": "better",
    "worse": "worse",
    "differs": "differs",
    "no_change": "no change",
    "not_worse": "not worse",
    "undecided": "undecided",
}
_OUTCOMES: Final = {
    "pass": "✅ pass",
    "regression": "❌ regression",
    "inconclusive": "⚠️ inconclusive",
    "invalid": "❌ invalid measurement",
    "target_failed": "❌ head broke its promise",
    "environment_mismatch": "❌ environments not comparable",
    "interrupted": "❌ interrupted",
}


@dataclass(frozen=True, slots=True)
class CellRows:
    """One cell of a comparison, ready to be shown."""

    cell: str
    rows: list[MetricComparison]
    """Those to show first."""
    others: list[MetricComparison]

    @property
    def title(self) -> str:
        """The name of the cell; empty for the only one of a workload without a matrix."""
        return "" if self.cell == ONLY_CELL else self.cell


def cells_of(metrics: Sequence[MetricComparison], asked: Sequence[str] | None = None) -> list[CellRows]:
    """The rows of each cell without those of `zero_line`. asked: the metrics to show first; None for all."""
    zero = _zero_on_both(metrics)
    found = []
    for cell in dict.fromkeys(item.cell for item in metrics):
        left = in_order([item for item in metrics if item.cell == cell and item.metric not in zero])
        rows = left if asked is None else shown_first(left, asked)
        found.append(CellRows(cell, rows, [item for item in left if item not in rows]))
    return found


def zero_line(metrics: Sequence[MetricComparison]) -> str:
    """The metrics that are 0 in every trial of every cell; empty without one."""
    zero = _zero_on_both(metrics)
    return f"0 on both sides: {', '.join(zero)}" if zero else ""


def _zero_on_both(metrics: Sequence[MetricComparison]) -> list[str]:
    # A gated metric is never left out, whatever it is.
    other = {item.metric for item in metrics if item.gated or not is_zero_on_both(item)}
    return list(dict.fromkeys(item.metric for item in metrics if item.metric not in other))


def name_of(item: MetricComparison) -> str:
    """The metric with its cell, where it stands alone."""
    return item.metric if item.cell == ONLY_CELL else f"{item.metric} [{item.cell}]"


def row(item: MetricComparison) -> tuple[str, ...]:
    """One metric under HEADER."""
    detectable = item.smallest_detectable_ratio
    # Only a gated metric has a floor, within which its whole interval is.
    unseen = item.verdict == "no_change" and not item.gated and item.ratio is not None
    return (
        item.metric,
        value_text(item.base.value, item.unit),
        value_text(item.head.value, item.unit),
        change_text(item.ratio) if item.ratio is not None else NONE,
        interval_text(item) or NONE,
        change_size_text(detectable) if detectable is not None else NONE,
        "not shown" if unseen else _VERDICTS[item.verdict],
    )


def in_order(metrics: Sequence[MetricComparison]) -> list[MetricComparison]:
    """Gated metrics first, otherwise in the given order."""
    return sorted(metrics, key=lambda item: not item.gated)


def side_text(side: ComparedSide) -> str:
    """One side as text: its name, then system, commit and environment."""
    known = _facts(side)
    return side.given + (f" ({', '.join(known)})" if known else "")


def _facts(side: ComparedSide) -> list[str]:
    commit = f"commit {side.commit[:12]}" if side.commit else ""
    key = f"environment {side.environment_key}" if side.environment_key else ""
    return [part for part in (side.system, commit, key) if part]


def header_lines(comparison: ResultComparison) -> list[str]:
    """Both sides with their cell, then what both share: system, what became of records, how trials were matched."""
    sides = (comparison.base, comparison.head)
    facts = [
        [*_facts(side), *([side.delivery.text.removesuffix(".")] if side.delivery is not None else [])]
        for side in sides
    ]
    shared = [fact for fact in facts[0] if fact in facts[1]]
    names = [
        side.given if len(side.cells) != 1 or side.cells[0] == ONLY_CELL else f"{side.given}:{side.cells[0]}"
        for side in sides
    ]
    lines = [
        f"{name}  {', '.join([given, *(fact for fact in known if fact not in shared)])}"
        for name, given, known in zip(("base", "head"), names, facts, strict=True)
    ]
    return [*lines, f"both  {', '.join([*shared, _matching(comparison)])}"]


def _matching(comparison: ResultComparison) -> str:
    """How many trials were compared, and whether they were interleaved."""
    cells = {item.cell for item in comparison.metrics}
    # Some metrics are missing in some trials.
    most = (max(item.n_pairs for item in comparison.metrics if item.cell == cell) for cell in cells)
    counts = sorted(most) or [0]
    n = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    if comparison.paired:
        return f"{n} pairs of trials of one run"
    sides = (
        max((item.base.n_trials for item in comparison.metrics), default=0),
        max((item.head.n_trials for item in comparison.metrics), default=0),
    )
    each = f"{n} trials of each" if sides[0] == sides[1] else f"{sides[0]} and {sides[1]} trials"
    return f"{each}, not interleaved"


def comparison_markdown(comparison: ResultComparison) -> str:
    """The result of `bench compare` as Markdown, for a comment: the answer first, the other metrics folded."""
    parts = [f"**{_escape(comparison.answer)}**", "  \n".join(_code(line) for line in header_lines(comparison))]
    parts += [f"> {_escape(warning)}" for warning in comparison.warnings]
    cells = cells_of(comparison.metrics, comparison.asked)
    for cell in cells:
        if cell.title and len(cells) > 1:
            parts.append(f"#### {_escape(cell.title)}\n\n{_escape(comparison.answers.get(cell.cell, ''))}")
        parts.append(_table(cell.rows))
        if cell.others:
            parts.append(_folded(f"{len(cell.others)} other metrics", _table(cell.others)))
    parts += [_escape(line) for line in (zero_line(comparison.metrics),) if line]
    parts += _differences("Environment", comparison.environment)
    parts += _differences("Workload", comparison.workload)
    return "\n\n".join(parts) + "\n"


def gate_markdown(gate: Gate) -> str:
    """The outcome of the gate as Markdown, for a comment on a change."""
    parts = [f"### {_OUTCOMES[gate.state]}: {_escape(gate.text)}"]
    parts.append(f"**base** {_code(side_text(gate.base))}  \n**head** {_code(side_text(gate.head))}")
    parts += [f"> {note}" for note in gate.notes]
    for number, done in enumerate(gate.rounds):
        title = round_title(done)
        parts.append(_tables(done.metrics) if number == 0 else _folded(title, _tables(done.metrics)))
        if number == 0:
            parts.append(f"<sub>{title}. {how_decided(gate)}</sub>")
    parts += _differences("Environment", gate.environment)
    return "\n\n".join(parts) + "\n"


def round_title(done: GateRound) -> str:
    what = "First round" if done.stage == "first" else "Confirmation with fresh processes"
    noise = f", {done.a_a_pairs} A/A pairs" if done.a_a_pairs else ""
    return f"{what}: {done.pairs_valid} of {done.pairs} pairs valid{noise}"


def how_decided(gate: Gate) -> str:
    interleaved = (
        "Base and head were interleaved on one host; their columns are medians, and a change is that of the pairs"
        if gate.interleaved
        else "Base and head were not interleaved: drift is not excluded"
    )
    return (
        f"{interleaved}; a change counts when the whole interval of the ratio lies beyond the larger of the "
        "policy's floor and what pairs of the same thing differ by"
    )


def _tables(metrics: Sequence[MetricComparison]) -> str:
    """A table of each cell, gated metrics first."""
    cells = cells_of(metrics)
    parts = []
    for cell in cells:
        parts += [f"**{_escape(cell.title)}**"] if cell.title else []
        parts.append(_table(cell.rows))
    parts += [_escape(line) for line in (zero_line(metrics),) if line]
    return "\n\n".join(parts) + ("\n\nBold: gated; the others are only shown." if _mixed(metrics) else "")


def _table(metrics: Sequence[MetricComparison]) -> str:
    head = ["| " + " | ".join(HEADER) + " |", "|---|--:|--:|--:|--:|--:|---|"]
    lines = []
    for item in metrics:
        name, *rest = row(item)
        verdict = rest.pop()
        strong = "**" if item.gated else ""
        lines.append(f"| {strong}{_escape(name)}{strong} | {' | '.join(rest)} | {strong}{verdict}{strong} |")
    return "\n".join(head + lines)


def _mixed(metrics: Sequence[MetricComparison]) -> bool:
    return len({item.gated for item in metrics}) > 1


def _differences(title: str, found: Sequence[EnvironmentDifference]) -> list[str]:
    if not found:
        return []
    texts = [(_escape(difference_text(item)), item.decides) for item in found]
    lines = "\n".join(f"- **{text}**" if decides else f"- {text}" for text, decides in texts)
    return [_folded(f"{title}: {len(found)} differences", lines)]


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _escape(text: str) -> str:
    """Escape foreign text for Markdown that allows HTML."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"&#{ord(character)};")
    return text.replace("\n", " ")
