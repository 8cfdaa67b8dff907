"""The state machine of alerts: findings of a tick in, alerts that open and close out.

Durations are of the monotonic clock, so that a clock that is set opens and closes nothing. What people read is in Unix
time. After a restart the open alerts are as before, and all waiting begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from highwater.monitor.alerts.rules import RULES
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.findings import KAFKA
from highwater.monitor.figures.rows import Finding, FindingKind, Level

Key = tuple[FindingKind, str]
"""Kind and subject of a finding."""


@dataclass(frozen=True, slots=True)
class Alert:
    kind: FindingKind
    subject: str
    level: Level
    """The worst since it opened."""
    sentence: str
    """The sentence of the newest finding."""
    opened_at_ms: int
    """Unix time."""
    began_at_ms: int
    """Unix time of the first snapshot with the finding: since when it is there without a break."""
    value: float | None = None
    quiet_since_ms: int | None = None
    """Monotonic: since when the finding is known to be gone; None while it is there."""

    @property
    def key(self) -> Key:
        return self.kind, self.subject


class AlertChange(Enum):
    OPENED = "opened"
    RAISED = "raised"
    """A warning became an error."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Notice:
    """What somebody should hear."""

    change: AlertChange
    alert: Alert
    at_ms: int
    """Unix time."""
    reason: str
    """One sentence: what is wrong, or why it is over."""


@dataclass(frozen=True, slots=True)
class AlertState:
    alerts: Mapping[Key, Alert] = field(default_factory=dict)
    """Those that are open."""
    waiting: Mapping[Key, int] = field(default_factory=dict)
    """Findings that do not last long enough yet, since when (monotonic)."""


def step(state: AlertState, figures: Figures) -> tuple[AlertState, tuple[Notice, ...]]:
    """Return the state after the tick of `figures`, and what opened, rose and closed in it, in this order."""
    now_ms, unix_ms = figures.at_ms, figures.taken_at_ms
    found = _worst_by_key(figures)
    alerts: dict[Key, Alert] = {}
    waiting: dict[Key, int] = {}
    opened: list[Notice] = []
    raised: list[Notice] = []
    closed: list[Notice] = []
    for key, finding in found.items():
        alert = state.alerts.get(key)
        if alert is not None:
            alerts[key] = _seen_again(alert, finding, unix_ms)
            if alerts[key].level.rank > alert.level.rank:
                raised.append(Notice(AlertChange.RAISED, alerts[key], unix_ms, finding.sentence))
        elif not finding.is_near:
            since_ms = state.waiting.get(key, now_ms)
            if now_ms - since_ms < RULES[finding.kind].opens_after_ms:
                waiting[key] = since_ms
                continue
            began_ms = unix_ms - (now_ms - since_ms)
            alerts[key] = Alert(*key, finding.level, finding.sentence, unix_ms, began_ms, finding.value)
            opened.append(Notice(AlertChange.OPENED, alerts[key], unix_ms, finding.sentence))
    is_blind = (FindingKind.SOURCE_SILENT, f"source {KAFKA}") in found
    for key, alert in state.alerts.items():
        if key in found:
            continue
        rule = RULES[alert.kind]
        reason = None if is_blind else rule.over(figures, alert.subject)
        if reason is None:
            alerts[key] = replace(alert, quiet_since_ms=None)
            continue
        since_ms = now_ms if alert.quiet_since_ms is None else alert.quiet_since_ms
        if now_ms - since_ms < rule.closes_after_ms:
            alerts[key] = replace(alert, quiet_since_ms=since_ms)
        else:
            closed.append(Notice(AlertChange.CLOSED, alert, unix_ms, reason))
    return AlertState(alerts, waiting), (*opened, *raised, *closed)


def restored(alerts: Mapping[Key, Alert]) -> AlertState:
    """Return the state after a restart: monotonic times of another process mean nothing here."""
    return AlertState({key: replace(alert, quiet_since_ms=None) for key, alert in alerts.items()})


def began_at_ms(state: AlertState, key: Key, figures: Figures) -> int | None:
    """Return the Unix time since when the finding is there, before its alert opens too; None if it is not."""
    if key in state.alerts:
        return state.alerts[key].began_at_ms
    since_ms = state.waiting.get(key)
    return None if since_ms is None else figures.taken_at_ms - (figures.at_ms - since_ms)


def _seen_again(alert: Alert, finding: Finding, unix_ms: int) -> Alert:
    if alert.quiet_since_ms is not None:
        alert = replace(alert, began_at_ms=unix_ms)
    if finding.is_near:
        return replace(alert, quiet_since_ms=None)
    level = max(alert.level, finding.level, key=lambda one: one.rank)
    return replace(alert, level=level, sentence=finding.sentence, value=finding.value, quiet_since_ms=None)


def _worst_by_key(figures: Figures) -> dict[Key, Finding]:
    # Findings come worst first, and near ones last.
    found: dict[Key, Finding] = {}
    for finding in figures.findings:
        found.setdefault((finding.kind, finding.subject), finding)
    return found
