"""Open alerts as JSON, for the next start of the monitor."""

from __future__ import annotations

import json
from typing import Any, Final

from highwater.monitor.alerts.machine import Alert, AlertState, Key, restored
from highwater.monitor.figures.rows import FindingKind, Level

_VERSION: Final = 1


def saved(state: AlertState) -> str:
    """Return the JSON text that `loaded` reads."""
    alerts = [
        {
            "kind": alert.kind.value,
            "subject": alert.subject,
            "level": alert.level.value,
            "sentence": alert.sentence,
            "opened_at_ms": alert.opened_at_ms,
            "began_at_ms": alert.began_at_ms,
            "value": alert.value,
        }
        for alert in state.alerts.values()
    ]
    return json.dumps({"version": _VERSION, "alerts": alerts}, indent=1) + "\n"


def loaded(text: str) -> AlertState:
    """Raises ValueError if `text` is not what `saved` wrote."""
    try:
        data = json.loads(text)
        version = data["version"]
        if version != _VERSION:
            raise ValueError(f"its version is {version!r}, and this monitor knows {_VERSION}")
        alerts = [_alert(each) for each in data["alerts"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not a file of open alerts: {error}") from None
    by_key: dict[Key, Alert] = {alert.key: alert for alert in alerts}
    return restored(by_key)


def _alert(data: dict[str, Any]) -> Alert:
    value = data["value"]
    return Alert(
        kind=FindingKind(data["kind"]),
        subject=str(data["subject"]),
        level=Level(data["level"]),
        sentence=str(data["sentence"]),
        opened_at_ms=int(data["opened_at_ms"]),
        # An older monitor wrote only the time at which it opened.
        began_at_ms=int(data.get("began_at_ms", data["opened_at_ms"])),
        value=None if value is None else float(value),
    )
