"""How far a stream is behind the newest offsets, from the progress of its query. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from highwater.pipeline.kafka.offsets import Offsets


class OffsetsBehind(NamedTuple):
    """Over the partitions of a source: offsets that were there and are in no finished batch yet."""

    minimum: int
    average: float
    maximum: int


def offsets_behind_latest(source: Mapping[str, Any]) -> OffsetsBehind | None:
    """Read one element of `query.lastProgress["sources"]`. None without offsets. Raises SettingsError for others."""
    latest, end = (_read(source.get(name)) for name in ("latestOffset", "endOffset"))
    if latest is None or end is None:
        return None
    behind = [max(offset - end.next.get(of, 0), 0) for of, offset in latest.next.items()]
    return OffsetsBehind(min(behind), sum(behind) / len(behind), max(behind)) if behind else None


def _read(offsets: Any) -> Offsets | None:
    """Spark gives them as text, and as objects in the JSON of a whole progress."""
    if isinstance(offsets, str):
        offsets = json.loads(offsets)
    if offsets is None:
        return None
    return Offsets.from_json_object({topic: each for topic, each in offsets.items() if not topic.startswith("#")})
