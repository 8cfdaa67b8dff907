"""The statements of a search and of a gate, which have answers of their own. Pure."""

from __future__ import annotations

from typing import Final

from highwater.bench.analysis.statement import Statement, StatementState
from highwater.bench.results import Gate, Search
from highwater.common.units import rate_text

_GATE_STATES: Final[dict[str, StatementState]] = {"pass": "good", "regression": "bad", "target_failed": "bad"}


def search_statement(search: Search) -> Statement:
    low, high = search.last_passing_per_s, search.first_failing_per_s
    confirmed = f"confirmed by {search.confirmed} of {search.confirmations} fresh trials"
    if search.status != "answered":
        return Statement("The search has not ended, so it has no answer.", "search", "open")
    if low is None:
        text = f"Not even {rate_text(search.min_per_s)} is sustained ({search.limit}); begin lower with --min."
        return Statement(text, "search", "bad")
    if high is None:
        text = f"{rate_text(low)}, the highest rate asked for, is sustained; {confirmed}."
        return Statement(text, "search", "good")
    text = f"{rate_text(low)} is sustained ({confirmed}); {rate_text(high)} is not: {search.limit}."
    if search.generator_limited:
        return Statement(f"{text} The generator is the limit: the system may sustain more.", "search", "open")
    return Statement(text, "search", "good")


def gate_statement(gate: Gate) -> Statement:
    return Statement(gate.text, "search", _GATE_STATES.get(gate.state, "open"))
