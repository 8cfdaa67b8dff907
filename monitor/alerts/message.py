"""The message of alerts to a person or a program: one for all that changed in a tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from highwater.common.units import count_text, plural, wait_text
from highwater.monitor.alerts.machine import AlertChange, Notice

# A cluster that breaks breaks in many places; whoever reads this needs the worst of them, and how many there are.
MOST_LISTED: Final = 50


@dataclass(frozen=True, slots=True)
class AlertMessage:
    subject: str
    """One line."""
    text: str
    document: dict[str, object]
    """The same for programs: values of JSON."""


def message(cluster: str, notices: Sequence[Notice], address: str = "") -> AlertMessage:
    """Return the message for `notices`, of which there is one at least. `address` is where the monitor's pages are."""
    listed = notices[:MOST_LISTED]
    left_out = len(notices) - len(listed)
    lines = [_line(notice) for notice in listed]
    if left_out:
        lines.append(f"{count_text(left_out)} more are not listed here.")
    if address:
        lines += ["", f"All alerts: {address}"]
    document: dict[str, object] = {
        "cluster": cluster,
        "address": address,
        "left_out": left_out,
        "alerts": [_document(notice) for notice in listed],
    }
    return AlertMessage(_subject(cluster, notices), "\n".join(lines) + "\n", document)


def _subject(cluster: str, notices: Sequence[Notice]) -> str:
    if len(notices) == 1:
        (notice,) = notices
        return _one_line(f"{cluster}: {notice.alert.level.value} {notice.change.value}: {notice.alert.sentence}")
    counts = Counter(notice.change for notice in notices)
    changes = ", ".join(f"{count_text(counts[change])} {change.value}" for change in AlertChange if counts[change])
    return _one_line(f"{cluster}: {plural(len(notices), 'alert')}: {changes}")


def _line(notice: Notice) -> str:
    alert = notice.alert
    start = f"{_time(notice.at_ms)}  {notice.change.value.upper()}  {alert.level.value}  {alert.kind.value}"
    if notice.change is not AlertChange.CLOSED:
        return _one_line(f"{start}: {notice.reason}")
    lasted = wait_text(max(0, notice.at_ms - alert.opened_at_ms) / 1000)
    about = f" ({alert.subject})" if alert.subject else ""
    return _one_line(f"{start}{about}: {notice.reason} It lasted {lasted}: {alert.sentence}")


def _document(notice: Notice) -> dict[str, object]:
    alert = notice.alert
    return {
        "change": notice.change.value,
        "kind": alert.kind.value,
        "subject": alert.subject,
        "level": alert.level.value,
        "sentence": alert.sentence,
        "reason": notice.reason,
        "value": alert.value,
        "opened_at_ms": alert.opened_at_ms,
        "at_ms": notice.at_ms,
    }


def _time(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _one_line(text: str) -> str:
    """Names of groups and clients may hold line ends and control characters: they must not make headers or lines."""
    return "".join(character if character.isprintable() else "�" for character in text)
