"""Comparisons as text: the rows shared by tables, Markdown and annotations, and the Markdown itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.bench.compare import ONLY_CELL
from highwater.bench.metrics import value_text
from highwater.bench.results import (
    ComparedSide,
    EnvironmentDifference,
    Gate,
    GateRound,
    MetricComparison,
    ResultComparison,
)
from highwater.common.units import NONE, change_text, percent_text

HEADER: Final = ("metric", "base", "head", "change", "95 %", "detectable", "verdict")
"""`95 %`: interval of the change; `detectable`: the smallest change that would have been found 4 times in 5."""
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


def row(item: MetricComparison) -> tuple[str, ...]:
    """One metric under HEADER."""
    name = item.metric if item.cell == ONLY_CELL else f"{item.metric} [{item.cell}]"
    detectable = item.smallest_detectable_ratio
    return (
        name,
        value_text(item.base.value, item.unit),
        value_text(item.head.value, item.unit),
        change_text(item.ratio) if item.ratio is not None else NONE,
        f"{change_text(item.ci95[0])[:-2]} to {change_text(item.ci95[1])}" if item.ci95 else NONE,
        percent_text(detectable) if detectable is not None else NONE,
        _VERDICTS[item.verdict],
    )


def in_order(metrics: Sequence[MetricComparison]) -> list[MetricComparison]:
    """Gated metrics first, otherwise in the given order."""
    return sorted(metrics, key=lambda item: not item.gated)


def side_text(side: ComparedSide) -> str:
    """One side as text: its name, then system, commit and environment."""
    commit = f"commit {side.commit[:12]}" if side.commit else ""
    key = f"environment {side.environment_key}" if side.environment_key else ""
    known = [part for part in (side.system, commit, key) if part]
    return side.given + (f" ({', '.join(known)})" if known else "")


def difference_text(difference: EnvironmentDifference) -> str:
    return f"{difference.fact}: {_fact(difference.base)} → {_fact(difference.head)}"


def comparison_markdown(comparison: ResultComparison) -> str:
    """The result of `bench compare` as Markdown, for a comment."""
    parts = [f"**base** {_code(side_text(comparison.base))}  \n**head** {_code(side_text(comparison.head))}"]
    parts += [f"> {warning}" for warning in comparison.warnings]
    parts.append(_table(comparison.metrics))
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
        parts.append(_table(done.metrics) if number == 0 else _folded(title, _table(done.metrics)))
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
        "Base and head were interleaved on one host"
        if gate.interleaved
        else "Base and head were not interleaved: drift is not excluded"
    )
    return (
        f"{interleaved}; a change counts when the whole interval of the ratio lies beyond the larger of the "
        "policy's floor and what pairs of the same thing differ by"
    )


def _table(metrics: Sequence[MetricComparison]) -> str:
    head = ["| " + " | ".join(HEADER) + " |", "|---|--:|--:|--:|--:|--:|---|"]
    lines = []
    for item in in_order(metrics):
        name, *rest = row(item)
        verdict = rest.pop()
        strong = "**" if item.gated else ""
        lines.append(f"| {strong}{_escape(name)}{strong} | {' | '.join(rest)} | {strong}{verdict}{strong} |")
    return "\n".join(head + lines) + ("\n\nBold: gated; the others are only shown." if _mixed(metrics) else "")


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


def _fact(value: object) -> str:
    return "not known" if value is None else str(value)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _escape(text: str) -> str:
    """Escape foreign text for Markdown that allows HTML."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"&#{ord(character)};")
    return text.replace("\n", " ")
