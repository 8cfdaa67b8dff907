"""The tables of alerts: those that are open, what opened and closed, and what is found now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from highwater.monitor.alerts.delivery import TargetState
from highwater.monitor.alerts.machine import Alert, AlertChange, Notice
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import Finding, Level
from highwater.monitor.web import cells
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import COUNT, NAME, PROSE, PROSE_IF_ANY, SUBJECT, TEXT, TIME, YES_NO

_CHANGE_LEVELS: Final = {AlertChange.OPENED: Level.WARN, AlertChange.RAISED: Level.ERROR, AlertChange.CLOSED: Level.OK}


class AlertRow(NamedTuple):
    alert: Alert
    is_found: bool
    """The newest snapshot has the finding."""


def alerts_table(alerts: Sequence[Alert], figures: Figures) -> Table[AlertRow]:
    found = {(finding.kind, finding.subject) for finding in figures.findings}
    return Table(
        name="alerts",
        title="Open alerts",
        columns=_ALERTS,
        rows=tuple(AlertRow(alert, alert.key in found) for alert in alerts),
        empty="No alert is open.",
        level=lambda row: row.alert.level,
        notes=_ALERTS_NOTES,
    )


_ALERTS: Final[tuple[Column[AlertRow], ...]] = (
    Column("sentence", "What", PROSE, lambda r: r.alert.sentence),
    Column(
        "level",
        "Level",
        TEXT,
        lambda r: r.alert.level.value,
        lambda r: cells.state(r.alert.level),
        lambda r: r.alert.level.rank,
    ),
    Column("subject", "About", SUBJECT, lambda r: r.alert.subject),
    Column("opened", "Open since", TIME, lambda r: r.alert.opened_at_ms),
    Column("found", "Found now", YES_NO, lambda r: r.is_found),
    Column("rule", "Rule", TEXT, lambda r: r.alert.kind.value),
    Column("value", "", COUNT, lambda r: r.alert.value),
)
_ALERTS_NOTES: Final = {
    "level": "The worst since the alert opened.",
    "found": (
        "No: the newest snapshot no longer shows it, and the sentence is from the last one that did. "
        "The alert closes when the problem is known to be over."
    ),
}


def notices_table(notices: Sequence[Notice]) -> Table[Notice]:
    empty = "No alert has opened or closed since the monitor started."
    return Table("alerts/notices", "Opened and closed", _NOTICES, notices, empty)


_NOTICES: Final[tuple[Column[Notice], ...]] = (
    Column("time", "Time", TIME, lambda r: r.at_ms),
    Column(
        "change",
        "Change",
        TEXT,
        lambda r: r.change.value,
        lambda r: cells.state(_CHANGE_LEVELS[r.change], r.change.value),
    ),
    Column("reason", "Reason", PROSE, lambda r: r.reason),
    Column("subject", "About", SUBJECT, lambda r: r.alert.subject),
    Column("rule", "Rule", TEXT, lambda r: r.alert.kind.value),
)


def targets_table(targets: Sequence[TargetState]) -> Table[TargetState]:
    empty = "No alerts are sent: the configuration names no target."
    return Table("alerts/targets", "Sent to", _TARGETS, targets, empty)


_TARGETS: Final[tuple[Column[TargetState], ...]] = (
    Column("target", "Target", NAME, lambda r: r.name),
    Column("sent", "Sent", COUNT, lambda r: r.sent),
    Column("waiting", "Waiting", COUNT, lambda r: r.waiting),
    Column("lost", "Given up", COUNT, lambda r: r.lost),
    Column("error", "Last error", PROSE_IF_ANY, lambda r: r.error),
)


def findings_table(figures: Figures) -> Table[Finding]:
    rows = tuple(each for each in figures.findings if not each.is_near)
    return Table("findings", "Found in the newest snapshot", _FINDINGS, rows, "Nothing is wrong.", "-level")


_FINDINGS: Final[tuple[Column[Finding], ...]] = (
    Column("sentence", "What", PROSE, lambda r: r.sentence),
    Column("level", "Level", TEXT, lambda r: r.level.value, lambda r: cells.state(r.level), lambda r: r.level.rank),
    Column("subject", "About", SUBJECT, lambda r: r.subject),
    Column("rule", "Rule", TEXT, lambda r: r.kind.value),
    Column("value", "", COUNT, lambda r: r.value),
)
