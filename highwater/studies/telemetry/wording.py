"""Live figures of a trial as lines of text: the answer first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from highwater.common.units import duration_ns_text, percent_text, plural, rate_text, wait_text
from highwater.results.bounds import bound_text, parse_bound
from highwater.results.metrics import metric, value_text
from highwater.results.metrics import title_of as title_of_metric
from highwater.studies.telemetry.store import StoredTrial

# A bound that is far away is no bound that somebody works towards.
_HEADROOM_TOLD_MAX = 10.0
_STATES = {
    "waiting": "the measured phase has not begun",
    "open": "no objective that is known while the load runs",
    "held": "objectives met",
    "missed": "objectives MISSED",
}


def trial_lines(trial: StoredTrial) -> Iterator[str]:
    """The state in one line, one line for each objective, one for what the figures rest on."""
    figures = trial.figures
    yield f"{title_of(trial)}: {state_text(trial)}"
    for objective in figures["objectives"]:
        yield f"  {objective_line(objective, ended=figures['ended'])}"
    yield f"  {_rates(figures)}"
    yield f"  {evidence_line(trial)}"


def title_of(trial: StoredTrial) -> str:
    return f"{trial.note.run}, {trial.note.trial_id}" if trial.note is not None else trial.name


def state_text(trial: StoredTrial) -> str:
    """`objectives held, after 42 s of the measured phase`."""
    figures = trial.figures
    if figures["state"] == "waiting" and not figures["ended"]:
        return _STATES["waiting"]
    over = "final" if figures["ended"] else f"after {figures['measured_s']} s of the measured phase"
    return f"{_STATES[figures['state']]}, {over}"


def objective_line(objective: Mapping[str, Any], *, ended: bool = False) -> str:
    """`Produce latency p99 < 20 ms: met for the last 42 s; 12 ms now, 13 ms so far, worst 18 ms in second 31`."""
    head = f"{title_of_metric(objective['metric'])} {bound_text(objective['bound'])}"
    if not objective["live"]:
        return f"{head}: known at the end of the trial"
    if objective["value"] is None:
        return f"{head}: no figure yet"
    unit = metric(objective["metric"]).unit
    held = f"met for the last {objective['held_s']} s" if objective["now_met"] else "missed in the latest second"
    so_far = "over the measured phase" if ended else "so far"
    parts = [f"{value_text(objective['value'], unit)} {so_far}{_headroom(objective)}"]
    if objective["now"] is not None and not ended:
        parts.insert(0, f"{value_text(objective['now'], unit)} now")
    if objective["worst_second"] is not None:
        parts.append(f"worst {value_text(objective['worst'], unit)} in second {objective['worst_second']}")
    if objective["missed_seconds"]:
        parts.append(f"missed in {plural(objective['missed_seconds'], 'second')}")
    verdict = ("met" if objective["met"] else "MISSED") if ended else held
    return f"{head}: {verdict}; {', '.join(parts)}"


def bound_ns(objective: Mapping[str, Any]) -> float | None:
    """The bound of an objective about a latency; None for others."""
    bound = parse_bound(objective["bound"])
    return bound.value if bound.unit == "ns" else None


def evidence_line(trial: StoredTrial) -> str:
    """What the figures rest on, and what is missing."""
    figures = trial.figures
    parts = [plural(figures["messages"], "message")]
    if figures["missing"]:
        parts.append(f"{figures['missing']} missing: the figures are not whole")
    if figures["skipped"]:
        parts.append(f"{figures['skipped']} skipped and reported later")
    if figures["late"]:
        late, seconds = plural(figures["late"], "timed record"), plural(figures["late_seconds"], "second")
        parts.append(f"{late} of {seconds} came late and count")
    if trial.behind_s is not None and not figures["ended"]:
        parts.append(f"{wait_text(max(0, round(trial.behind_s)))} behind the load")
    return "; ".join(parts)


def _headroom(objective: Mapping[str, Any]) -> str:
    ratio = objective["headroom_ratio"]
    if ratio is None or ratio > _HEADROOM_TOLD_MAX:
        return ""
    return f" (headroom {percent_text(ratio)})" if ratio >= 0 else f" ({percent_text(-ratio)} beyond the bound)"


def _rates(figures: Mapping[str, Any]) -> str:
    parts = []
    if figures["achieved_per_s"] is not None:
        parts.append(f"{rate_text(figures['achieved_per_s'])} acknowledged")
    if figures["consumed_per_s"] is not None:
        parts.append(f"{rate_text(figures['consumed_per_s'])} received")
    for name, title in (("produce_response", "produce"), ("e2e_response", "end to end")):
        latency = figures["latencies"].get(name)
        if latency and latency["count"]:
            p50, p99, p999 = (duration_ns_text(latency[percentile]) for percentile in ("p50", "p99", "p999"))
            parts.append(f"{title} p50 {p50} p99 {p99} p99.9 {p999}")
    return ", ".join(parts) or "nothing measured yet"
