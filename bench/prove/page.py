"""Proofs in words: the rows that the terminal and the Markdown page share, and the page itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import NONE, change_size_text, change_span_text, change_text
from highwater.results.metrics import value_text
from highwater.tuning.proofs import VERDICT_TEXTS, EffectOutcome, MeasuredEffect, Proof

HEADER: Final = ("figure", "off", "on", "change", "95 %", "detectable", "")
"""`95 %`: interval of the change; `detectable`: the smallest change that would have been found 4 times in 5."""
_OUTCOMES: Final[dict[EffectOutcome, str]] = {
    "better": "better",
    "worse": "worse",
    "differs": "differs",
    "none_seen": "none seen",
    "unknown": "undecided",
}
_HOW: Final = """\
Each setting was measured off and on in turn, in random blocks on one host, with pairs of the same thing (A/A) among \
them to know the noise. A figure has changed when the 95 % interval of the ratio lies wholly beyond that noise \
and a permutation test agrees at 5 %, corrected for the number of figures that decide (bold). Where nothing was seen, \
“detectable” says which change would have been, 4 times in 5.
"""


def row(effect: MeasuredEffect) -> tuple[str, ...]:
    """One figure under HEADER."""
    interval = NONE
    if effect.low is not None and effect.high is not None:
        interval = change_span_text(effect.low, effect.high)
    detectable = effect.smallest_detectable_ratio
    return (
        effect.metric,
        value_text(effect.off, effect.unit),
        value_text(effect.on, effect.unit),
        NONE if effect.ratio is None else change_text(effect.ratio),
        interval,
        NONE if detectable is None else change_size_text(detectable),
        _OUTCOMES[effect.outcome],
    )


def knob_change_text(proof: Proof) -> str:
    """`vm.swappiness 60 → 1`"""
    return ", ".join(f"{setting.knob} {setting.off} → {setting.on}" for setting in proof.settings)


def markdown(proofs: Sequence[Proof], command: str, host: str) -> str:
    """The page: all verdicts in one table, then each proof with its figures. host: a short description of the host."""
    lines = ["# What settings do on this host", "", _HOW]
    lines += ["| setting, off → on | verdict | why | load | valid pairs |", "|---|---|---|---|--:|"]
    for proof in proofs:
        verdict, pairs = VERDICT_TEXTS[proof.verdict], f"{proof.pairs_valid} of {proof.pairs}"
        lines.append(
            f"| {_cell(knob_change_text(proof))} | **{verdict}** | {_cell(proof.text)} | {proof.workload} | {pairs} |"
        )
    for proof in proofs:
        lines += [
            "",
            f"## {_cell(knob_change_text(proof))}",
            "",
            f"**{VERDICT_TEXTS[proof.verdict]}**: {_cell(proof.text)}.",
            "",
        ]
        lines += ["| " + " | ".join(HEADER) + " |", "|---|--:|--:|--:|--:|--:|---|"]
        for effect in proof.effects:
            name, *rest = row(effect)
            lines.append(f"| {f'**{name}**' if effect.decides else name} | {' | '.join(rest)} |")
        lines += ["", f"Log on {_cell(proof.storage)}; {proof.a_a_pairs} A/A pairs; measured {proof.measured_utc}."]
        lines += [f"Durability traded away meanwhile: {_cell(trade)}." for trade in proof.durability_trades]
    environments = ", ".join(sorted({proof.environment for proof in proofs}))
    lines += ["", f"Measured on {host}; environment {environments}. Again:", "", "```", command, "```", ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
