"""How one thing stands, in the first words of its page: what it is, since when, and how often."""

from __future__ import annotations

from typing import Final, NamedTuple

from markupsafe import Markup

from highwater.common.units import wait_text
from highwater.monitor.alerts.machine import Alert, Key
from highwater.monitor.errors import HistoryError
from highwater.monitor.events import EventKind
from highwater.monitor.figures.rows import BrokerFigures, Finding, FindingKind, GroupFigures, LagVerdict, Level
from highwater.monitor.web import cells, words
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.routing import Call

_HOUR_MS: Final = 3_600_000
_OF_GROUPS: Final = (FindingKind.LAG, FindingKind.RECORDS_LOST)
_ORDINALS: Final = {1: "st", 2: "nd", 3: "rd"}


class Standing(NamedTuple):
    shown: Markup
    alerts: tuple[Alert, ...]
    """The open alerts about it that `shown` does not have."""


def of_broker(call: Call, seen: Seen, row: BrokerFigures) -> Standing:
    subject = f"broker {row.node_id}"
    if row.is_alive:
        return Standing(cells.state(row.level, "alive"), _others(call, subject, ()))
    key = (FindingKind.BROKER_GONE, subject)
    text = f"gone {_since(call, seen, key)}".rstrip() + _times(call, seen, str(row.node_id))
    return Standing(cells.state(row.level, text), _others(call, subject, (key[0],)))


def as_of(call: Call, seen: Seen, row: BrokerFigures) -> str:
    """What stands behind the title of what a broker said before it went: `, as of 12:03, before it went`."""
    if row.is_alive:
        return ""
    key = (FindingKind.BROKER_GONE, f"broker {row.node_id}")
    began_ms = call.site.alerts.began_at_ms(key, seen.figures) if call.site.alerts else None
    return f", as of {words.clock_time(began_ms)}, before it went" if began_ms else ", as of before it went"


def of_group(call: Call, seen: Seen, row: GroupFigures) -> Standing:
    subject = f"group {row.name}"
    others = _others(call, subject, _OF_GROUPS)
    alert = last_known(call, row)
    if alert is not None:
        watched = "" if str(row.reason).startswith("Not known") else f", watched for {_time(seen.figures.window_ms)}"
        text = f"{_word(alert)} since {words.clock_time(alert.began_at_ms)}; not judged again yet{watched}"
        return Standing(cells.state(alert.level, text), others)
    kind = FindingKind.RECORDS_LOST if row.verdict is LagVerdict.LOSS else FindingKind.LAG
    since_when = _since(call, seen, (kind, subject)) if row.level in (Level.WARN, Level.ERROR) else ""
    return Standing(cells.state(row.level, f"{words.VERDICT_WORDS[row.verdict]} {since_when}".rstrip()), others)


def last_known(call: Call, row: GroupFigures) -> Alert | None:
    """The open alert about a group that is not judged yet, such as after a restart of the monitor."""
    if row.verdict is not LagVerdict.UNKNOWN:
        return None
    return next((alert for alert in _open(call, f"group {row.name}") if alert.kind in _OF_GROUPS), None)


def since(call: Call, seen: Seen, finding: Finding) -> str:
    """Since when it is found, without a full stop; empty if nobody kept that."""
    return _since(call, seen, (finding.kind, finding.subject))


def _word(alert: Alert) -> str:
    if alert.kind is FindingKind.RECORDS_LOST:
        return words.VERDICT_WORDS[LagVerdict.LOSS]
    # An alert keeps its level, not which of the verdicts of this level it was.
    return words.VERDICT_WORDS[LagVerdict.WARN] if alert.level is Level.WARN else "stopped, stalled or set back"


def _since(call: Call, seen: Seen, key: Key) -> str:
    began_ms = call.site.alerts.began_at_ms(key, seen.figures) if call.site.alerts else None
    if began_ms is None:
        return ""
    return f"since {words.clock_time(began_ms)}, {_time(seen.snapshot.taken_at_ms - began_ms)}"


def _times(call: Call, seen: Seen, name: str) -> str:
    """How often a broker went in the last hour, if it was more than once."""
    if call.site.history is None:
        return ""
    since_ms = seen.snapshot.taken_at_ms - _HOUR_MS
    try:
        gone = call.site.history.events(since_ms, kinds=(EventKind.BROKER_GONE,))
    except HistoryError:
        return ""
    many = sum(event.name == name for event in gone)
    ending = "th" if many % 100 in (11, 12, 13) else _ORDINALS.get(many % 10, "th")
    return f"; the {many}{ending} time in 1 h" if many > 1 else ""


def _open(call: Call, subject: str) -> list[Alert]:
    return [alert for alert in (call.site.alerts.open() if call.site.alerts else ()) if alert.subject == subject]


def _others(call: Call, subject: str, told: tuple[FindingKind, ...]) -> tuple[Alert, ...]:
    return tuple(alert for alert in _open(call, subject) if alert.kind not in told)


def _time(duration_ms: float) -> str:
    return wait_text(max(0.0, duration_ms) / 1000)
