"""Values of a load file with their units: bytes per second, bits per second, days."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from highwater.common.quantities import BYTE_RATE, DURATION, LINK_SPEED, PERCENT, SIZE, Quantity
from highwater.common.units import NANOSECONDS


def _per(parse: Callable[[object], Decimal], divisor: int = 1) -> BeforeValidator:
    return BeforeValidator(lambda value: float(parse(value) / divisor))


def _written(quantity: Quantity) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": quantity.pattern, "description": quantity.form})


BytesPerS = Annotated[float, _per(BYTE_RATE.above_zero), _written(BYTE_RATE)]
BytesPerSOrNone = Annotated[float, _per(BYTE_RATE.parse), _written(BYTE_RATE)]
NetworkBytesPerS = Annotated[float, _per(LINK_SPEED.above_zero, 8), _written(LINK_SPEED)]
SpanS = Annotated[float, _per(DURATION.above_zero, NANOSECONDS["s"]), _written(DURATION)]
SpanSOrNone = Annotated[float, _per(DURATION.parse, NANOSECONDS["s"]), _written(DURATION)]
SizeBytes = Annotated[int, BeforeValidator(SIZE.integer), Field(ge=1), _written(SIZE)]
Ratio = Annotated[float, _per(PERCENT.parse), _written(PERCENT)]
Share = Annotated[float, _per(PERCENT.above_zero), Field(le=1), _written(PERCENT)]
