"""The statements of a search and of a gate, which have answers of their own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import count_text, plural, rate_text
from highwater.results.analysis.causes import Cause, value_of_reason_text
from highwater.results.analysis.comparison_answer import headline
from highwater.results.analysis.statement import Statement, StatementState
from highwater.results.analysis_file import Search, SearchProbe
from highwater.results.bounds import bound_text
from highwater.results.gate import Gate
from highwater.results.metrics import title_within
from highwater.results.models import Reason

# Outcomes that the metrics explain.
_GATE_WORDS: Final = {"pass": "Gate: pass", "regression": "Gate: regression", "inconclusive": "Gate: not decided"}
_GATE_STATES: Final[dict[str, StatementState]] = {"pass": "good", "regression": "bad", "target_failed": "bad"}


def search_statement(search: Search) -> Statement:
    """The highest rate that was sustained, and what the trials that show it were worth.

    Trials that are not valid confirm nothing, and where the load generator was the limit, the system may sustain more.
    """
    low, high = search.last_passing_per_s, search.first_failing_per_s
    if search.status != "answered":
        return Statement("The search has not ended, so it has no answer.", "search", "open")
    if low is None:
        text = f"Not even {rate_text(search.min_per_s)} is sustained: {_limit(search)}"
        again = "" if search.generator_limited else "; begin lower with --min"
        short = f"Not even {_records(search.min_per_s)} is sustained"
        return Statement(f"{text}{again}.", "search", "open" if search.generator_limited else "bad", short)
    worth = _worth(search, low)
    objectives = ", ".join(f"{title_within(metric)} {bound_text(bound)}" for metric, bound in search.slo.items())
    wanted = (f" with {objectives}" if objectives else "") + (", the highest rate requested," if high is None else "")
    if worth is None:
        confirmed = f"confirmed by {search.confirmed} of {plural(search.confirmations, 'fresh trial')}"
        parts = [f"{rate_text(low)}{wanted} is sustained, {confirmed}"]
    else:
        parts = [f"{rate_text(low)}{wanted} was sustained {worth}: not confirmed"]
    if high is not None:
        parts.append(f"{rate_text(high)} failed{_unlike(search, high)}: {_limit(search)}")
    if search.generator_limited and not _names_the_generator(search):
        parts.append("the load generator is the limit, and the system may sustain more")
    state: StatementState = "open" if worth is not None or search.generator_limited else "good"
    short = f"{_records(low)}{f' with {objectives}' if objectives else ''} is sustained"
    if worth is not None:
        short = f"{_records(low)} was sustained, but is not confirmed"
    elif search.generator_limited:
        short += ", and the load generator is the limit"
    elif high is not None:
        short += f"; {_records(high)} failed"
    return Statement(f"{'; '.join(parts)}.", "search", state, short)


def _records(per_s: float) -> str:
    return f"{count_text(per_s)} records/s"


def search_step(search: Search) -> str:
    """What decides a search that is open; empty if nothing does."""
    low = search.last_passing_per_s
    if search.status != "answered":
        return ""
    if search.generator_limited:
        return "Search again with more producers on more cores (producers.count; a Spark cluster: --master)."
    if low is None or _worth(search, low) is None:
        return ""
    checks = {reason.check for probe in _doubtful(search, low) for reason in _reasons(probe)}
    if not search.confirmations:
        return "Search again with fresh trials at the answer: --confirm 3."
    if checks & {"host.cpu_ratio", "generator.oversubscribed"}:
        return "Search again with the load generator on cores of its own (a Spark cluster: --master)."
    return "Search again while nothing else runs on this host."


def _worth(search: Search, low: int) -> str | None:
    """Why the fresh trials at the answer do not confirm it; None if they do."""
    if not search.confirmations:
        return "in the search alone, as no fresh trial was requested (--confirm)"
    fresh = f"in {search.confirmed} of {plural(search.confirmations, 'fresh trial')}"
    doubtful = _doubtful(search, low)
    if not doubtful:
        return None if search.confirmed >= search.confirmations else fresh
    many = "all" if len(doubtful) == search.confirmed else str(len(doubtful))
    return f"{fresh}, {many} of them {_doubt(doubtful)}"


def _doubt(probes: Sequence[SearchProbe]) -> str:
    """`inconclusive (host CPU above 95 %)`: the verdicts of trials that are not valid, and why."""
    states = dict.fromkeys(probe.verdict.state for probe in probes if probe.verdict is not None)
    by_check: dict[str, list[Reason]] = {}
    for reason in (reason for probe in probes for reason in _reasons(probe)):
        by_check.setdefault(reason.check, []).append(reason)
    why = ", ".join(Cause(check, reasons).words for check, reasons in by_check.items())
    return " or ".join(states) + (f" ({why})" if why else "")


def _doubtful(search: Search, low: int) -> list[SearchProbe]:
    """The fresh trials at the answer that passed and are not valid."""
    return [
        probe
        for probe in search.probes
        if probe.stage == "confirm" and probe.passed and probe.rate_per_s == low
        if probe.verdict is not None and probe.verdict.state != "valid"
    ]


def _limit(search: Search) -> str:
    """What failed, in a few words, and whether the trial that shows it is in doubt.

    It is the cause of a verdict with its figure, else the sentence of the search.
    """
    rate = search.first_failing_per_s or search.min_per_s
    failed = [
        probe
        for probe in search.probes
        if not probe.passed and probe.limit == search.limit and probe.rate_per_s == rate
    ][-1:]
    reasons = [reason for probe in failed for reason in _reasons(probe) if reason.check == search.limit]
    if reasons:
        return f"{Cause(reasons[0].check, reasons).words} ({value_of_reason_text(reasons[0])})"
    reason = search.text or search.limit or "reason unknown"
    if any(probe.verdict is not None and probe.verdict.state != "valid" for probe in failed):
        reason += f", in a trial that is {_doubt(failed)}"
    return reason


def _unlike(search: Search, rate: int) -> str:
    """` in 1 of 2 trials`, if other trials at the rate passed; else empty."""
    passed = [probe.passed for probe in search.probes if probe.rate_per_s == rate]
    return f" in {passed.count(False)} of {plural(len(passed), 'trial')}" if any(passed) else ""


def _names_the_generator(search: Search) -> bool:
    return "generator" in _limit(search)


def _reasons(probe: SearchProbe) -> Sequence[Reason]:
    return probe.verdict.reasons if probe.verdict is not None else ()


def gate_statement(gate: Gate) -> Statement:
    decides = [item for item in gate.rounds[0].metrics if item.gated] if gate.rounds else []
    short = f"{_GATE_WORDS[gate.state]}; {headline(decides)}" if decides and gate.state in _GATE_WORDS else ""
    short += ", confirmed by fresh trials" if short and gate.confirmed else ""
    return Statement(gate.text, "search", _GATE_STATES.get(gate.state, "open"), short)
