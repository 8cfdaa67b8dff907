"""kio's requests and answers as the mappings that `cold` encodes."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    return round(value.timestamp() * 1000) if isinstance(value, datetime.datetime) else value
