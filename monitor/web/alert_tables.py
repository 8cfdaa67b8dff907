"""The tables of alerts: those that are open, what opened and closed, and what is found now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from highwater.monitor.alerts.delivery import TargetState
from highwater.monitor.alerts.machine import Alert, Change, Notice
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import Finding, Level
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.tables import Column, Table

_CHANGE_LEVELS: Final = {Change.OPENED: Level.WARN, Change.RAISED: Level.ERROR, Change.CLOSED: Level.OK}


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
        level=lambda row: words.LEVEL_CLASSES[row.alert.level],
    )


_ALERTS: Final[tuple[Column[AlertRow], ...]] = (
    Column(
        "sentence",
        "What",
        Kind.TEXT,
        lambda r: r.alert.sentence,
        lambda r: cells.prose(r.alert.sentence),
        is_prose=True,
    ),
    Column(
        "level",
        "Level",
        Kind.TEXT,
        lambda r: r.alert.level.value,
        lambda r: cells.state(r.alert.level),
        lambda r: r.alert.level.rank,
        note="The worst since the alert opened.",
    ),
    Column(
        "subject", "Of", Kind.TEXT, lambda r: r.alert.subject, lambda r: cells.prose(r.alert.subject or "the cluster")
    ),
    Column(
        "opened",
        "Open since",
        Kind.NUMBER,
        lambda r: r.alert.opened_at_ms,
        lambda r: words.clock_time(r.alert.opened_at_ms),
    ),
    Column(
        "found",
        "Found now",
        Kind.YES_NO,
        lambda r: r.is_found,
        note="No: the newest snapshot does not have it, and what is said is of the last one that had it. "
        "It closes when it is known to be over.",
    ),
    Column("rule", "Rule", Kind.TEXT, lambda r: r.alert.kind.value),
    Column("value", "Value", Kind.NUMBER, lambda r: r.alert.value, is_shown=False),
)


def notices_table(notices: Sequence[Notice]) -> Table[Notice]:
    empty = "No alert has opened or closed since the start of the monitor."
    return Table("alerts/notices", "Opened and closed", _NOTICES, notices, empty)


_NOTICES: Final[tuple[Column[Notice], ...]] = (
    Column("time", "Time", Kind.NUMBER, lambda r: r.at_ms, lambda r: words.clock_time(r.at_ms)),
    Column(
        "change",
        "Change",
        Kind.TEXT,
        lambda r: r.change.value,
        lambda r: cells.state(_CHANGE_LEVELS[r.change], r.change.value),
    ),
    Column("reason", "Reason", Kind.TEXT, lambda r: r.reason, lambda r: cells.prose(r.reason), is_prose=True),
    Column(
        "subject",
        "Of",
        Kind.TEXT,
        lambda r: r.alert.subject,
        lambda r: cells.prose(r.alert.subject or "the cluster"),
    ),
    Column("rule", "Rule", Kind.TEXT, lambda r: r.alert.kind.value),
)


def targets_table(targets: Sequence[TargetState]) -> Table[TargetState]:
    empty = "Alerts are sent to nobody: the configuration names no target."
    return Table("alerts/targets", "Sent to", _TARGETS, targets, empty)


_TARGETS: Final[tuple[Column[TargetState], ...]] = (
    Column("target", "Target", Kind.TEXT, lambda r: r.name, lambda r: cells.name_text(r.name)),
    Column("sent", "Sent", Kind.NUMBER, lambda r: r.sent),
    Column("waiting", "Waiting", Kind.NUMBER, lambda r: r.waiting),
    Column("lost", "Given up", Kind.NUMBER, lambda r: r.lost),
    Column(
        "error", "Last error", Kind.TEXT, lambda r: r.error, lambda r: cells.prose(r.error or "none"), is_prose=True
    ),
)


def findings_table(figures: Figures) -> Table[Finding]:
    rows = tuple(each for each in figures.findings if not each.is_near)
    return Table("findings", "Found in the newest snapshot", _FINDINGS, rows, "Nothing is wrong.", "-level")


_FINDINGS: Final[tuple[Column[Finding], ...]] = (
    Column("sentence", "What", Kind.TEXT, lambda r: r.sentence, lambda r: cells.prose(r.sentence), is_prose=True),
    Column(
        "level", "Level", Kind.TEXT, lambda r: r.level.value, lambda r: cells.state(r.level), lambda r: r.level.rank
    ),
    Column("subject", "Of", Kind.TEXT, lambda r: r.subject, lambda r: cells.prose(r.subject or "the cluster")),
    Column("rule", "Rule", Kind.TEXT, lambda r: r.kind.value),
    Column("value", "Value", Kind.NUMBER, lambda r: r.value, is_shown=False),
)
