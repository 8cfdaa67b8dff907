"""Values of a load file with their units: bytes per second, bits per second, days."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from highwater.common.quantities import BYTE_RATE, DURATION, LINK_SPEED, PERCENT, SIZE
from highwater.common.units import NANOSECONDS


def _per(parse: Callable[[object], Decimal], divisor: int = 1) -> BeforeValidator:
    return BeforeValidator(lambda value: float(parse(value) / divisor))


BytesPerS = Annotated[float, _per(BYTE_RATE.above_zero)]
BytesPerSOrNone = Annotated[float, _per(BYTE_RATE.parse)]
NetworkBytesPerS = Annotated[float, _per(LINK_SPEED.above_zero, 8)]
SpanS = Annotated[float, _per(DURATION.above_zero, NANOSECONDS["s"])]
SpanSOrNone = Annotated[float, _per(DURATION.parse, NANOSECONDS["s"])]
SizeBytes = Annotated[int, BeforeValidator(SIZE.integer), Field(ge=1)]
Ratio = Annotated[float, _per(PERCENT.parse)]
Share = Annotated[float, _per(PERCENT.above_zero), Field(le=1)]
